"""Biases as functions that FlexAttention calls, for each pair, and its kernel on a CPU."""

import oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm.attention import attend

H = 3


def noise(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def drawn(module):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(noise(*parameter.shape, seed=9 + i))
    return module


BIASES = {
    "alibi": (lambda: pm.ALiBi(H), 1),
    "alibi in steps": (lambda: pm.ALiBi(H, step=2.5), 1),
    "alibi on two axes": (lambda: pm.ALiBi(H), 2),
    "learned alibi": (lambda: pm.LearnedALiBi(H), 1),
    "t5": (lambda: pm.T5Bias(H, buckets=8, max_distance=12), 1),
    "t5 causal": (lambda: pm.T5Bias(H, bidirectional=False), 1),
    "t5 in steps": (lambda: pm.T5Bias(H, step=1.5), 1),
    "t5 in long steps": (lambda: pm.T5Bias(H, step=3600.0), 1),
    "clipped": (lambda: pm.RelativeBias(H, 5), 1),
    "not clipped": (lambda: pm.RelativeBias(H, 40, clip=False), 1),
    "continuous": (lambda: pm.ContinuousBias(H, 9, hidden=8), 1),
    "irpe": (lambda: pm.IRPE(H, 1, shared=False), 1),
    "variate": (lambda: pm.AnyVariateBias(H), 1),
    "sum": (lambda: pm.BiasSum([pm.ALiBi(H), pm.T5Bias(H)]), 1),
    "by axis": (lambda: pm.BiasSum([pm.T5Bias(H), pm.AnyVariateBias(H)], axes=[[0], [1]]), 2),
}
ROWS = {
    "from zero": (torch.arange(20), torch.arange(20)),
    "cached": (torch.arange(13, 20), torch.arange(20)),
    "far": (torch.arange(20) + 10**9, torch.arange(20) + 10**9),
    "packed": (torch.arange(20) % 7, torch.arange(20) % 7),
    "per sample": (torch.stack([torch.arange(20), torch.arange(20).flip(0) + 50]),) * 2,
}


def spread(mod, batch, heads, queries, keys):
    """Call a score_mod for all pairs at once, as its kernel does one by one."""
    sizes = (batch, heads, queries, keys)
    b, h, i, j = torch.meshgrid(*(torch.arange(size) for size in sizes), indexing="ij")
    return mod(torch.zeros(sizes), b, h, i, j)


@pytest.mark.parametrize("rows", list(ROWS))
@pytest.mark.parametrize("name", list(BIASES))
def test_a_score_mod_says_what_the_module_says_and_learns_as_it_does(name, rows):
    make, axes = BIASES[name]
    module = drawn(make())
    q_at, k_at = (torch.stack([at, at // 3][:axes], -1) for at in ROWS[rows])
    mod = module.score_mod(q_at, k_at)
    got = spread(mod, 2, H, q_at.shape[-2], k_at.shape[-2])
    expected = module(q_at, k_at).expand_as(got)
    assert torch.allclose(got, expected, rtol=1e-6, atol=1e-6)
    parameters = list(module.parameters())
    if parameters:
        weight = noise(*got.shape, dtype=torch.float32)
        ours = torch.autograd.grad((got * weight).sum(), parameters)
        theirs = torch.autograd.grad((expected * weight).sum(), parameters)
        for one, other in zip(ours, theirs, strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_table_is_no_longer_than_the_differences_of_the_rows(monkeypatch):
    sizes = []
    module = pm.ContinuousBias(H, axes=1, hidden=8, convention="cr")
    module.register_forward_pre_hook(lambda _, args: sizes.append(args[0].shape[0]))
    module.score_mod(pm.sequence(1, offset=49), pm.sequence(50))
    assert sizes == [2 * 50 - 1]


def test_differences_beyond_a_table_are_refused():
    module, at = pm.ContinuousBias(H, 9, hidden=8), torch.tensor([[0], [3], [50]])
    with pytest.raises(ValueError, match="differences.*blocks"):
        module.score_mod(at, at)


def test_what_reads_no_whole_differences_has_no_table():
    at = torch.rand(5, 1)
    assert pm.T5Bias(H).score_mod(at, at) is None
    assert pm.RelativeBias(H, (4, 5)).score_mod(pm.grid(4, 5), pm.grid(4, 5)) is None
    assert pm.BiasSum([pm.ALiBi(H), pm.T5Bias(H)]).score_mod(at, at) is None
    assert pm.ALiBi(H, distance="l2").score_mod(pm.grid(4, 5), pm.grid(4, 5)) is None


@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_the_kernel_on_a_cpu_is_the_loop(name):
    """Grouped queries, blind rows, three masks and starts of their own; over a block of 128."""
    torch._dynamo.reset()
    q = noise(2, 4, 9, 16, dtype=torch.float32)
    k, v = (noise(2, 2, 140, 16, seed=i, dtype=torch.float32) for i in (1, 2))
    module = pm.ALiBi(4) if name == "alibi" else drawn(pm.T5Bias(4))
    real, documents = noise(2, 140, seed=5) > -1, torch.arange(140) // 50
    real[0, :21] = torch.arange(21) == 20
    options = {"causal": True, "window": 60, "key_mask": real, "segments": documents}
    k_at, starts = torch.arange(140)[:, None], [12, 131]
    q_at = torch.tensor(starts)[:, None, None] + torch.arange(9)[:, None]
    given = {"bias": module, "q_positions": q_at, "k_positions": k_at}
    with torch.no_grad():
        start = torch.tensor(starts)
        got = attend(q, k, v, q_start=start, backend="flex", **given, **options)
        bias = module(q_at, k_at)
    expected = oracles.attention(q, k, v, bias, q_start=starts, **options)
    assert (expected[0, :, :8] == 0).all() and (expected[0, :, 8:] != 0).any()
    assert torch.allclose(got.double(), expected, rtol=0, atol=3e-6)
