"""Every way of computing attention equals the loop from the papers, forward and backward."""

import oracles
import oracles_attention as loops
import pytest
import torch

import posenc_mm as pm
from posenc_mm.attention import attend, blocked, choosing, explain, surveying

B, H, K, D, E = 2, 4, 2, 6, 5
FOLDS = {"alibi", "alibi steps", "learned alibi", "alibi sum"}


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def drawn(module):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(noise(*parameter.shape, seed=9 + i).to(parameter.dtype) / 2)
    return module.double()


def modules():
    """Each bias: its module, its loop of (module, q, p, r), and its number of axes."""
    slopes = oracles.alibi_slopes(H)
    return {
        "none": (None, lambda m, q, p, r: lambda b, h, i, j: 0.0, 1),
        "alibi": (pm.ALiBi(H), lambda m, q, p, r: loops.distance(slopes, p, r), 2),
        "alibi steps": (
            pm.ALiBi(H, step=2.5),
            lambda m, q, p, r: loops.distance(slopes, p, r, 2.5),
            1,
        ),
        "learned alibi": (
            drawn(pm.LearnedALiBi(H)),
            lambda m, q, p, r: loops.distance(m.log_slopes.exp(), p, r),
            1,
        ),
        "t5": (
            drawn(pm.T5Bias(H, buckets=8, max_distance=10)),
            lambda m, q, p, r: loops.buckets(m.weight, p, r),
            1,
        ),
        "clipped": (
            drawn(pm.RelativeBias(H, 4)),
            lambda m, q, p, r: loops.clipped(m.table, p, r),
            1,
        ),
        "variate": (
            drawn(pm.AnyVariateBias(H)),
            lambda m, q, p, r: loops.same(m.weight, p, r),
            1,
        ),
        "alibi sum": (
            drawn(pm.BiasSum([pm.ALiBi(H), pm.LearnedALiBi(H)])),
            lambda m, q, p, r: added(
                loops.distance(slopes, p, r), loops.distance(m.biases[1].log_slopes.exp(), p, r)
            ),
            1,
        ),
        "time and variate": (
            drawn(pm.BiasSum([pm.LearnedALiBi(H), pm.AnyVariateBias(H)], axes=[[0], [1]])),
            lambda m, q, p, r: added(
                loops.distance(m.biases[0].log_slopes.exp(), first(p), first(r)),
                loops.same(m.biases[1].weight, p, r),
            ),
            2,
        ),
        "decomposed": (
            drawn(pm.DecomposedBias(H, D, (30, 12))),
            lambda m, q, p, r: loops.met(q, list(m.tables), p, r),
            2,
        ),
    }


def added(one, other):
    return lambda b, h, i, j: one(b, h, i, j) + other(b, h, i, j)


def first(positions):
    return [[row[:1] for row in sample] for sample in positions]


REAL = torch.tensor([[0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0], [1] * 11 + [0] * 2]).bool()
DOCUMENTS = torch.tensor([[0] * 5 + [1] * 4 + [2] * 4, [0] * 1 + [1] * 12])
MASKS = {
    "all": {},
    "causal": {"causal": True},
    "causal scaled": {"causal": True, "scale": 1.0},
    "padded": {"key_mask": REAL},
    "causal padded": {"causal": True, "key_mask": REAL},
    "window": {"window": 3},
    "causal window": {"causal": True, "window": 5},
    "packed": {"causal": True, "segments": DOCUMENTS},
    "everything": {"causal": True, "segments": DOCUMENTS[0], "window": 6, "key_mask": REAL},
    "chunk": {"causal": True, "queries": 6},
    "chunk inside": {"causal": True, "queries": 6, "q_start": 4},
    "starts": {"causal": True, "queries": 6, "q_start": [7, -2]},
    "last": {"causal": True, "queries": 1},
}


def asked(name, masks, per_sample):
    """Keyword arguments of attend, and the loop's."""
    options = dict(MASKS[masks])
    queries, keys = options.pop("queries", 13), 13
    start = options.get("q_start", keys - queries)
    axes = modules()[name][2]
    r = torch.stack([torch.arange(keys) + 5, torch.arange(keys) // 2][:axes], -1)
    rows = torch.tensor(start if isinstance(start, list) else [start])[:, None]
    rows = rows.clamp(min=0) + torch.arange(queries)
    r = r + 1000 * torch.arange(B)[:, None, None] if per_sample else r
    p = r.expand(B, keys, axes).gather(1, rows.expand(B, -1)[..., None].expand(-1, -1, axes))
    r_loop = r.expand(B, -1, -1).tolist()
    given = {"q_positions": p if per_sample or len(rows) > 1 else p[0], "k_positions": r}
    if isinstance(start, list):
        given["q_start"] = torch.tensor(start)
    return queries, options | given, options, p.tolist(), r_loop


@pytest.fixture(autouse=True)
def small_blocks_and_no_size_too_small(monkeypatch):
    monkeypatch.setattr(choosing, "WORTH", 0)
    monkeypatch.setattr(surveying, "WORTH", 0)
    monkeypatch.setattr(blocked, "MOST", 4)
    monkeypatch.setattr(blocked, "FEWEST", 3)
    monkeypatch.setattr(blocked, "AT_ONCE", 1)


def folds(name, masks):
    """Which questions have an exact low-rank form."""
    alone = masks in ("causal", "causal scaled", "causal padded", "last")
    return (name in FOLDS and alone) or (name == "none" and masks in ("padded", "causal padded"))


@pytest.mark.parametrize("per_sample", [False, True], ids=["shared", "per sample"])
@pytest.mark.parametrize("masks", list(MASKS))
@pytest.mark.parametrize("name", list(modules()))
def test_backends_are_the_loop_forward_and_backward(name, masks, per_sample):
    module, loop, _ = modules()[name]
    queries, given, options, p, r = asked(name, masks, per_sample)
    inputs = [
        noise(B, heads, rows, width, seed=i).requires_grad_()
        for i, (heads, rows, width) in enumerate(((H, queries, D), (K, 13, D), (K, 13, E)))
    ]
    parameters = [] if module is None else list(module.parameters())
    out = noise(B, H, queries, E, seed=8)
    expected = loops.attention(*inputs, loop(module, inputs[0], p, r), **options)
    wanted = torch.autograd.grad(expected, inputs + parameters, out)
    if module is not None:
        given = given | {"bias": module}
        floats = (given["q_positions"].double(), given["k_positions"].double())
        given["q_positions"], given["k_positions"] = floats
    for backend in ("factors", "blocks", "dense", "auto"):
        if backend == "factors" and not folds(name, masks):
            with pytest.raises(ValueError, match="factors"):
                attend(*inputs, backend=backend, **given)
            assert "factors" in explain(*inputs, **given).refused
            continue
        got = attend(*inputs, backend=backend, **given)
        assert torch.allclose(got, expected, rtol=0, atol=1e-12), backend
        grads = torch.autograd.grad(got, inputs + parameters, out)
        for grad, want in zip(grads, wanted, strict=True):
            assert torch.allclose(grad, want, rtol=0, atol=1e-11), backend
        with torch.no_grad():
            again = attend(*inputs, backend=backend, **given)
        assert torch.allclose(again, expected, rtol=0, atol=1e-12), backend


@pytest.mark.parametrize("masks", ["causal", "packed", "causal padded", "starts"])
@pytest.mark.parametrize("backend", ["blocks", "auto", "dense"])
def test_weights_beside_the_softmax_come_through_blocks(masks, backend):
    module = drawn(pm.ERPE(H, 20))
    queries, given, *_ = asked("variate", masks, per_sample=False)
    q, k, v = noise(B, H, queries, D), noise(B, K, 13, D, seed=1), noise(B, K, 13, E, seed=2)
    at = (given.pop("q_positions"), given.pop("k_positions"))
    said = module(*at).detach()
    got = attend(
        q, k, v, bias=module, q_positions=at[0], k_positions=at[1], backend=backend, **given
    )
    plain = attend(q, k, v, backend="dense", **given)
    every = pm.attend(q, k, torch.eye(13).double().expand(B, K, 13, 13), backend="dense", **given)
    weights = said * (every > 0)
    assert torch.allclose(got, plain + weights @ v.repeat_interleave(2, 1), atol=1e-12)


@pytest.mark.parametrize("name", ["alibi", "t5", "none"])
def test_a_tensor_as_bias_is_cut_into_blocks(name):
    module = modules()[name][0]
    p = pm.sequence(13)
    q, k, v = noise(B, H, 13, D), noise(B, K, 13, D, seed=1), noise(B, K, 13, E, seed=2)
    bias = noise(H, 13, 13) if module is None else module(p, p).double()
    for options in ({}, {"causal": True}, {"window": 4}, {"key_mask": REAL}):
        expected = oracles.attention(q, k, v, bias.detach(), **options)
        got = attend(q, k, v, bias=bias, backend="blocks", **options)
        assert torch.allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("p", "r"),
    [
        (torch.arange(13).expand(2, 13) + torch.tensor([[0], [5]]), torch.arange(13)),
        (torch.arange(13) * 2, torch.arange(13) * 2),
        (torch.arange(13) // 2, torch.arange(13)),
        (torch.arange(13) + 0.5, torch.arange(13)),
    ],
    ids=["another offset per sample", "every other", "repeated", "between"],
)
def test_a_table_serves_no_positions_that_are_not_consecutive(p, r):
    q, k, v = noise(B, H, 13, D), noise(B, K, 13, D, seed=1), noise(B, K, 13, E, seed=2)
    module = modules()["t5"][0]
    bias = module(p[..., None], r[..., None]).detach()
    expected = oracles.attention(q, k, v, bias)
    options = {"q_positions": p[..., None], "k_positions": r[..., None], "bias": module}
    got = attend(q, k, v, backend="blocks", **options)
    assert torch.allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_a_scale_that_turns_logits_round_is_not_folded(scale):
    q = noise(B, H, 13, D)
    options = {"causal": True, "key_mask": REAL, "scale": scale}
    with pytest.raises(ValueError, match="scale above zero"):
        attend(q, q, q, backend="factors", **options)
    expected = attend(q, q, q, backend="dense", **options)
    assert torch.allclose(attend(q, q, q, **options), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key_mask": torch.ones(B, 12).bool()},
        {"segments": torch.zeros(14).long()},
        {"window": 0},
        {"bias": noise(H, 13, 14)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_blocks_refuse_what_the_dense_form_refuses(wrong):
    q, k = noise(B, H, 13, D), noise(B, K, 13, D)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        attend(q, k, k, backend="blocks", **wrong)
