"""Attention under every mask, rotation and bias equals the loop from the paper."""

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm

BACKENDS = ["auto", "dense"]


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def qkv(batch=2, heads=4, groups=4, queries=5, keys=7, dim=6, width=6):
    return (
        noise(batch, heads, queries, dim, seed=1),
        noise(batch, groups, keys, dim, seed=2),
        noise(batch, groups, keys, width, seed=3),
    )


def close(got, expected, limit=1e-11):
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=limit)


@st.composite
def masked(draw):
    """Shapes, and any of the masks together."""
    batch, groups, more = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    keys = draw(st.integers(1, 6))
    queries = draw(st.integers(1, keys))
    starts = st.integers(0, keys - queries)
    options = {
        "causal": draw(st.booleans()),
        "window": draw(st.none() | st.integers(1, 7)),
        "scale": draw(st.none() | st.sampled_from([1.0, 0.3])),
        "q_start": draw(st.none() | starts | st.lists(starts, min_size=batch, max_size=batch)),
    }
    if draw(st.booleans()):
        row = st.lists(st.booleans(), min_size=keys, max_size=keys)
        options["key_mask"] = torch.tensor(draw(st.lists(row, min_size=batch, max_size=batch)))
    if draw(st.booleans()):
        row = st.lists(st.integers(0, 2), min_size=keys, max_size=keys).map(sorted)
        per_sample = st.lists(row, min_size=batch, max_size=batch)
        options["segments"] = torch.tensor(draw(row | per_sample))
    heads = groups * more
    shape = draw(st.sampled_from([None, (heads, queries, keys), (batch, heads, queries, keys)]))
    options["bias"] = None if shape is None else noise(*shape, seed=4) * 2
    return qkv(batch, heads, groups, queries, keys, dim=4, width=3), options


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=masked())
def test_attention_under_any_masks_is_the_published_one(backend, case):
    (q, k, v), options = case
    expected = oracles.attention(q, k, v, **options)
    if isinstance(options["q_start"], list):
        options = options | {"q_start": torch.tensor(options["q_start"])}
    got = pm.attend(q, k, v, backend=backend, **options)
    assert got.dtype == torch.float64
    close(got, expected)


@given(case=masked())
def test_the_fused_path_is_exact_or_refuses(case):
    (q, k, v), options = case
    expected = oracles.attention(q, k, v, **options)
    if isinstance(options["q_start"], list):
        options = options | {"q_start": torch.tensor(options["q_start"])}
    try:
        got = pm.attend(q, k, v, backend="sdpa", **options)
    except ValueError as error:
        assert "sdpa" in str(error)
    else:
        close(got, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_fused_path_takes_plain_and_causal_attention(groups, causal):
    q, k, v = qkv(groups=groups, queries=6, keys=6)
    expected = oracles.attention(q, k, v, causal=causal)
    for backend in ("auto", "dense", "sdpa"):
        close(pm.attend(q, k, v, causal=causal, backend=backend), expected)


def test_last_query_stands_beside_the_last_key_unless_told():
    """Aligned at the top instead, a single decoded token would see the first key alone."""
    q, k, v = qkv(queries=1, keys=7)
    close(pm.attend(q, k, v, causal=True), oracles.attention(q, k, v))
    first = pm.attend(q, k, v, causal=True, q_start=0)
    close(first, v[:, :, :1])


def test_window_counts_rows_on_either_side():
    q, k = torch.zeros(1, 1, 5, 2).double(), torch.zeros(1, 1, 5, 2).double()
    v = torch.eye(5).double()[None, None]
    seen = pm.attend(q, k, v, window=2)[0, 0] > 0
    assert seen.int().tolist() == [[int(abs(i - j) < 2) for j in range(5)] for i in range(5)]
    seen = pm.attend(q, k, v, window=2, causal=True)[0, 0] > 0
    assert seen.int().tolist() == [[int(0 <= i - j < 2) for j in range(5)] for i in range(5)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "options",
    [
        {"key_mask": torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]]).bool()},
        {"key_mask": torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]).bool(), "causal": True},
        {"q_start": torch.tensor([-3, 0]), "causal": True},
    ],
    ids=["no key is real", "left padding", "before the first key"],
)
def test_queries_that_see_nothing_give_zeros_and_clean_gradients(options, backend):
    q, k, v = (part.requires_grad_() for part in qkv(2, 2, 1, 4, 4, dim=3, width=5))
    bias = noise(2, 4, 4).requires_grad_()
    plain = options | {"q_start": options.get("q_start", torch.tensor([0, 0])).tolist()}
    for extra in (None, bias):
        got = pm.attend(q, k, v, bias=extra, backend=backend, **options)
        expected = oracles.attention(q.detach(), k.detach(), v.detach(), extra, **plain)
        close(got, expected)
        empty = (expected == 0).all(-1)
        assert empty.any() and (got[empty] == 0).all()

    def attended(q, k, v, bias):
        return pm.attend(q, k, v, bias=bias, backend=backend, **options)

    assert torch.autograd.gradcheck(attended, (q, k, v, bias))


def test_more_queries_than_keys_leave_the_first_without_any():
    q, k, v = qkv(queries=6, keys=4)
    got = pm.attend(q, k, v, causal=True)
    close(got, oracles.attention(q, k, v, causal=True))
    assert (got[:, :, :2] == 0).all() and (got[:, :, 2:] != 0).any(-1).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_behind_a_mask_cannot_leak_however_large(backend):
    q, k, v = qkv(queries=3, keys=6)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]]).bool().expand(2, -1)
    expected = oracles.attention(q, k, v, key_mask=mask)
    k[:, :, 4:], v[:, :, 4:] = 1e30, 1e30
    close(pm.attend(q, k, v, key_mask=mask, backend=backend), expected)


# ------------------------------------------------------------ axes that look alike


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_heads_queries_and_keys_of_one_size_stay_apart(backend):
    q, k, v = qkv(3, 3, 3, 3, 3, dim=3, width=3)
    per_head, per_sample = noise(3, 3, 3), noise(3, 3, 3, 3, seed=5)
    mask = torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1]]).bool()
    documents = torch.tensor([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
    for options in (
        {"bias": per_head},
        {"bias": per_sample},
        {"key_mask": mask},
        {"segments": documents},
        {"bias": per_head, "key_mask": mask, "segments": documents, "causal": True},
    ):
        got = pm.attend(q, k, v, backend=backend, **options)
        close(got, oracles.attention(q, k, v, **options))


def test_a_bias_without_heads_serves_all_of_them():
    q, k, v = qkv()
    bias = noise(5, 7)
    expected = oracles.attention(q, k, v, bias.expand(4, 5, 7))
    close(pm.attend(q, k, v, bias=bias), expected)
    close(pm.attend(q, k, v, bias=bias[None, None]), expected)


def test_grouped_queries_share_neighbouring_heads():
    q, k, v = qkv(heads=8, groups=2)
    repeated = [part.repeat_interleave(4, dim=1) for part in (k, v)]
    close(pm.attend(q, k, v), oracles.attention(q, *repeated))


# ------------------------------------------------------------ number types


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [None, pm.ALiBi(4), pm.T5Bias(4)], ids=["none", "ALiBi", "T5"])
def test_attention_takes_a_float32_encoding_beside_queries_of_any_type(bias, dtype, autocast):
    q, k, v = (part.to(dtype) for part in qkv(2, 4, 4, 16, 16, dim=32, width=32))
    p = pm.sequence(16)
    rotation = pm.Rotary(32)(p)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = pm.attend(q, k, v, rotation=rotation, bias=bias, q_positions=p, causal=True)
    assert got.dtype == dtype or autocast
    angles = oracles.turning_angles(p, oracles.rope_matrix(32))
    turned = [oracles.rotate(part, angles, "half") for part in (q, k)]
    expected = oracles.attention(
        *turned, v, None if bias is None else bias(p, p).detach(), causal=True
    )
    eps = torch.finfo(torch.bfloat16 if autocast else dtype).eps
    close(got, expected, max(4 * eps * v.abs().max().item(), 1e-5))
