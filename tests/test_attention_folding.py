"""A bias folded into channels: exact where numbers are large, lean, and only where it is right."""

import math

import oracles
import pytest
import torch
from torch.nn import functional

import posenc_mm as pm
from posenc_mm.attention import attend, folding

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def noise(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def by_rows(q, k, v, slopes, at, real=None, some=None):
    """Causal ALiBi in float64 for some rows, or all; nothing of the library in it."""
    q, k, v = (x.double() for x in (q, k, v))
    rows = torch.arange(q.shape[2])
    some = rows if some is None else some
    slopes = torch.tensor(slopes, dtype=torch.float64)[:, None, None]
    far = (at[some, None] - at).abs().double()
    logits = q[:, :, some] @ k.mT / math.sqrt(q.shape[-1]) - slopes * far
    hidden = rows > some[:, None]
    hidden = hidden if real is None else hidden | ~real[:, None, None, :]
    return logits.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0) @ v


@pytest.mark.parametrize("offset", [0, 10**6, 1_700_000_000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_far_along_and_far_from_zero_folding_is_as_exact_as_a_mask(dtype, offset):
    q, k, v = (noise(1, 2, 8192, 16, seed=i, dtype=dtype) for i in range(3))
    at = torch.arange(8192) + offset
    options = {"bias": pm.ALiBi(2), "q_positions": at[:, None], "causal": True}
    some = torch.cat([torch.arange(start, start + 32) for start in (0, 500, 4090, 8160)])
    expected = by_rows(q, k, v, oracles.alibi_slopes(2), at, some=some)
    limit = {torch.float64: 1e-11, torch.float32: 1e-5}.get(dtype, 4 * torch.finfo(dtype).eps)
    for backend in ("factors", "blocks"):
        got = attend(q, k, v, backend=backend, **options)[:, :, some]
        assert (got.double() - expected).abs().max() <= limit, backend


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_moments_that_no_16_bits_hold_fade_as_in_float64(dtype):
    """Irregular seconds of today; bfloat16 alone would round them to weeks."""
    steps = noise(700).abs().mul(900).add(1).round()
    at = 1.7e9 + steps.cumsum(0)
    q, k, v = (noise(2, 4, 700, 16, seed=i, dtype=dtype) for i in range(3))
    bias = pm.ALiBi(4, step=600.0)
    got = attend(q, k, v, bias=bias, q_positions=at[:, None], causal=True, backend="factors")
    expected = by_rows(q, k, v, [m / 600 for m in oracles.alibi_slopes(4)], at)
    limit = {torch.float64: 1e-11, torch.float32: 1e-5}.get(dtype, 4 * torch.finfo(dtype).eps)
    assert (got.double() - expected).abs().max() <= limit


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_split_numbers_sum_to_what_was_split(dtype):
    whole = torch.cat([torch.arange(5000), torch.randint(0, 2**24, (5000,))]).double()
    parts = folding.split(whole / folding.LIFT.get(dtype, 1.0), dtype, folding.TERMS[dtype][1])
    assert all(part.dtype == dtype for part in parts)
    assert torch.equal(sum(p.double() for p in parts) * folding.LIFT.get(dtype, 1.0), whole)


def test_the_gradient_of_split_numbers_is_that_of_the_whole():
    x = noise(50).requires_grad_()
    parts = folding.split(x, torch.bfloat16, 3)
    (sum(part.double() for part in parts) * torch.arange(50)).sum().backward()
    assert torch.equal(x.grad, torch.arange(50).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_slopes_are_those_of_a_mask(dtype):
    """In 16 bits auto leaves the slopes' gradient to blocks, which keeps its digits."""
    module = pm.LearnedALiBi(4).double()
    at = torch.arange(1100)[:, None].double() + 10**6
    inputs = [noise(1, 4, 1100, 16, seed=i).requires_grad_() for i in range(3)]
    out = noise(1, 4, 1100, 16, seed=5)
    options = {"bias": module, "q_positions": at, "causal": True}
    low = [x.detach().to(dtype).requires_grad_() for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in low]
    got = attend(*exact, backend="dense", **options)
    (wanted,) = torch.autograd.grad(got, module.log_slopes, out.to(dtype).double())
    got = attend(*low, **options)
    (found,) = torch.autograd.grad(got, module.log_slopes, out.to(dtype))
    assert (found - wanted).abs().max() <= 4 * torch.finfo(dtype).eps ** 0.8 * wanted.abs().max()


@pytest.mark.parametrize("bias", [None, pm.ALiBi(4)], ids=["none", "ALiBi"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_garbage_in_hidden_keys_changes_no_bit(dtype, bias):
    q, k, v = (noise(2, 4, 90, 16, seed=i, dtype=dtype) for i in range(3))
    real = noise(2, 90, seed=7) > 0
    real[0, :20] = False
    options = {"key_mask": real, "causal": True, "backend": "factors", "bias": bias}
    options["q_positions"] = None if bias is None else torch.arange(90)[:, None]
    clean = attend(q, k, v, **options)
    expected = by_rows(
        q, k, v, oracles.alibi_slopes(4) if bias else [0.0] * 4, torch.arange(90), real
    )
    limit = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 8 * torch.finfo(dtype).eps)
    assert (clean.double() - expected).abs().max() <= limit
    assert (clean[0, :, :20] == 0).all()
    most = torch.finfo(dtype).max
    k, v = (x.masked_fill(~real[:, None, :, None], most).requires_grad_() for x in (k, v))
    q = q.requires_grad_()
    got = attend(q, k, v, **options)
    assert torch.equal(got, clean)
    got.sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
    for x in (k, v):
        assert (x.grad.transpose(1, 2)[~real] == 0).all()


def test_autocast_rounds_queries_but_not_positions():
    """SDPA casts what it gets to bfloat16 by itself: channels must be split for that dtype."""
    q, k, v = (noise(1, 4, 4500, 16, seed=i, dtype=torch.float32) for i in range(3))
    at = torch.arange(4500)[:, None]
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(q, k, v, bias=pm.ALiBi(4), q_positions=at, causal=True, backend="factors")
    q, k, v = (x.bfloat16() for x in (q, k, v))
    expected = by_rows(q, k, v, oracles.alibi_slopes(4), at[:, 0])
    assert (got.double() - expected).abs().max() <= 4 * torch.finfo(torch.bfloat16).eps


def test_positions_that_fall_are_not_folded():
    q = noise(1, 2, 40, 8)
    options = {"bias": pm.ALiBi(2), "causal": True}
    fallen = torch.arange(40)
    fallen[30] = 7
    for at in (fallen, fallen.flip(0), fallen.double().masked_fill(fallen == 3, math.nan)):
        with pytest.raises(ValueError, match="never fall"):
            attend(q, q, q, q_positions=at[:, None], backend="factors", **options)
    with pytest.raises(ValueError, match="never fall"):
        attend(q, q, q, bias=pm.ALiBi(2), q_positions=torch.arange(40)[:, None], backend="factors")
    flat = torch.arange(40) // 3
    got = attend(q, q, q, q_positions=flat[:, None], backend="factors", **options)
    assert torch.allclose(got, by_rows(q, q, q, oracles.alibi_slopes(2), flat), atol=1e-12)


def test_straight_lines_on_two_axes_are_no_product():
    q, at = noise(1, 2, 12, 8), pm.grid(3, 4)
    with pytest.raises(ValueError, match="not a product"):
        attend(
            q, q, q, bias=pm.ALiBi(2, distance="l2"), q_positions=at, causal=True, backend="factors"
        )


# ------------------------------------------------------------ memory


def peak(call):
    """The most bytes that a call holds at a time beside what was there before."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = call()
    del kept
    held = most = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


@pytest.mark.parametrize("bias", [pm.ALiBi(8), pm.T5Bias(8), pm.RelativeBias(8, 300)], ids=repr)
def test_8192_tokens_take_no_more_memory_than_plain_attention(bias):
    q, k, v = (noise(1, 8, 8192, 16, seed=i, dtype=torch.float32) for i in range(3))
    at = torch.arange(8192)[:, None]
    with torch.no_grad():
        plain = peak(lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        ours = peak(lambda: attend(q, k, v, bias=bias, q_positions=at, causal=True))
    assert ours <= 1.3 * plain


def test_training_with_alibi_takes_little_more_memory_than_plain_attention():
    q, k, v = (noise(1, 8, 4096, 32, seed=i, dtype=torch.float32) for i in range(3))
    for x in (q, k, v):
        x.requires_grad_()
    at, bias = torch.arange(4096)[:, None], pm.LearnedALiBi(8)
    out = torch.ones_like(q)

    def trained(call):
        q.grad = k.grad = v.grad = bias.log_slopes.grad = None
        return peak(lambda: call().backward(out))

    plain = trained(lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    ours = trained(lambda: attend(q, k, v, bias=bias, q_positions=at, causal=True))
    assert ours <= 1.3 * plain


@pytest.mark.parametrize("name", ["t5", "packed", "window", "padded"])
def test_no_tensor_of_all_pairs_exists_in_training(name):
    rows = 3000
    q, k, v = (noise(1, 4, rows, 8, seed=i, dtype=torch.float32) for i in range(3))
    for x in (q, k, v):
        x.requires_grad_()
    at = torch.arange(rows)[:, None]
    options = {
        "t5": {"bias": pm.T5Bias(4), "q_positions": at, "causal": True},
        "packed": {"segments": at[:, 0] // 100, "causal": True},
        "window": {"window": 50},
        "padded": {"bias": pm.T5Bias(4), "q_positions": at, "key_mask": (at.T < 2900)},
    }[name]
    used = peak(lambda: attend(q, k, v, **options).sum().backward())
    assert used < 4 * rows * rows * 4  # one float per pair and head
