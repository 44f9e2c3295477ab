"""Attention with its encodings in use: cached, padded, packed, and what it refuses."""

import oracles
import pytest
import torch

import posenc_mm as pm


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def qkv(batch=2, heads=4, groups=2, queries=12, keys=12, dim=8):
    shapes = ((heads, queries), (groups, keys), (groups, keys))
    return [noise(batch, *shape, dim, seed=i) for i, shape in enumerate(shapes, start=1)]


def encodings():
    """Each kind: (rotary, bias), the learned ones with numbers that matter."""
    torch.manual_seed(0)
    t5, relative = pm.T5Bias(4, buckets=8, max_distance=10).double(), pm.RelativeBias(4, 5).double()
    with torch.no_grad():
        t5.weight.normal_()
        relative.table.normal_()
    return {
        "nothing": (None, None),
        "Rotary": (pm.Rotary(8), None),
        "ALiBi": (None, pm.ALiBi(4)),
        "T5Bias": (None, t5),
        "RelativeBias": (None, relative),
        "both": (pm.Rotary(8, layout="interleaved", rotary_dim=4), pm.ALiBi(4)),
    }


NAMES = list(encodings())


def attend(name, q, k, v, p, r, **options):
    """As a host does: evaluate each encoding at the positions, once."""
    rotary, bias = encodings()[name]
    if rotary is not None:
        options |= {"rotation": rotary(p), "k_rotation": rotary(r)}
    if bias is not None:
        options |= {"bias": bias, "q_positions": p, "k_positions": r}
    return pm.attend(q, k, v, **options)


def close(got, expected, limit=1e-11):
    torch.testing.assert_close(got, expected, rtol=0, atol=limit)


# ------------------------------------------------------------ one pass, many ways


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_attend_applies_rotation_and_bias_as_defined(name, causal):
    rotary, bias = encodings()[name]
    q, k, v = qkv(queries=5)
    p, r = pm.sequence(5, offset=7).double(), pm.sequence(12).double()
    turned, dense = (q, k), None if bias is None else bias(p, r).detach()
    if rotary is not None:
        matrix = oracles.rope_matrix(rotary.rotary_dim)
        sides = ((q, p), (k, r))
        turned = [
            oracles.rotate(x, oracles.turning_angles(at, matrix), rotary.layout) for x, at in sides
        ]
    expected = oracles.attention(*turned, v, dense, causal=causal)
    for backend in ("auto", "dense"):
        close(attend(name, q, k, v, p, r, causal=causal, backend=backend), expected)
    if bias is not None and rotary is None:
        close(pm.attend(q, k, v, bias=dense, causal=causal), expected)


@pytest.mark.parametrize("pieces", [[1] * 12, [4, 4, 4], [7, 1, 1, 3]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_cached_decoding_equals_the_whole_pass(name, pieces):
    q, k, v = qkv()
    p = pm.sequence(12).double()
    whole, start = attend(name, q, k, v, p, p, causal=True), 0
    for length in pieces:
        stop = start + length
        seen = (q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], p[start:stop], p[:stop])
        close(attend(name, *seen, causal=True), whole[:, :, start:stop])
        # a cache sized in advance: later rows are there but out of sight
        sized = (q[:, :, start:stop], k, v, p[start:stop], p)
        got = attend(name, *sized, causal=True, q_start=start)
        close(got, whole[:, :, start:stop])
        starts = torch.full((2,), start)
        close(attend(name, *sized, causal=True, q_start=starts), whole[:, :, start:stop])
        start = stop


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", NAMES)
def test_padding_on_either_side_changes_nothing(name, side, causal):
    """A row of 4 real tokens beside one of 7, in one batch."""
    q, k, v = qkv(queries=7, keys=7)
    real = slice(3, 7) if side == "left" else slice(0, 4)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[0] = False
    mask[0, real] = True
    p = pm.from_mask(mask).double()
    got = attend(name, q, k, v, p, p, causal=causal, key_mask=mask)
    assert torch.isfinite(got).all()
    alone, short = pm.sequence(7).double(), pm.sequence(4).double()
    row = [x[:1, :, real] for x in (q, k, v)]
    close(got[:1, :, real], attend(name, *row, short, short, causal=causal))
    close(got[1:], attend(name, q[1:], k[1:], v[1:], alone, alone, causal=causal))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 4}], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_packed_documents_attend_as_if_alone(name, options):
    """Among them one of a single token and an empty one; two are the same document."""
    lengths = [0, 6, 9, 10, 10, 12]
    q, k, v = qkv()
    for x in (q, k, v):
        x[:, :, 6:9] = x[:, :, :3]
    cumulative = torch.tensor(lengths)
    p = pm.packed(cumulative).double()
    documents = pm.segments(cumulative)
    got = attend(name, q, k, v, p, p, segments=documents, **options)
    per_sample = documents.expand(2, -1)
    close(attend(name, q, k, v, p, p, segments=per_sample, **options), got)
    for start, stop in zip(lengths, lengths[1:], strict=False):
        part = [x[:, :, start:stop] for x in (q, k, v)]
        at = pm.sequence(stop - start).double()
        close(got[:, :, start:stop], attend(name, *part, at, at, **options))
    if options.get("causal"):
        close(got[:, :, 6:9], got[:, :, :3])


def test_samples_at_different_places_in_their_caches_decode_in_one_call():
    q, k, v = qkv(batch=3, queries=1, keys=9)
    starts = torch.tensor([2, 8, 0])
    p, r = pm.sequence(1, offset=starts).double(), pm.sequence(9).double()
    for name in NAMES:
        got = attend(name, q, k, v, p, r.expand(3, -1, -1), causal=True, q_start=starts)
        for b, start in enumerate(starts.tolist()):
            seen = (q[b : b + 1], k[b : b + 1, :, : start + 1], v[b : b + 1, :, : start + 1])
            alone = attend(name, *seen, pm.sequence(1, offset=start).double(), r[: start + 1])
            close(got[b : b + 1], alone)


def test_rotation_of_the_queries_serves_the_keys_beside_them():
    q, k, v = qkv()
    rotation = pm.Rotary(8)(pm.sequence(12).double())
    both = pm.attend(q, k, v, rotation=rotation, k_rotation=rotation)
    assert torch.equal(pm.attend(q, k, v, rotation=rotation), both)


@pytest.mark.parametrize("shape", [(0, 4, 5, 7), (2, 4, 0, 7), (2, 4, 0, 0), (2, 4, 5, 0)], ids=str)
def test_attention_over_nothing_is_empty_or_zero(shape):
    batch, heads, queries, keys = shape
    q, k, v = (x.requires_grad_() for x in qkv(batch, heads, 2, queries, keys))
    got = pm.attend(q, k, v)
    assert got.shape == (batch, heads, queries, 8) and (got == 0).all()
    got.sum().backward()
    assert torch.isfinite(k.grad).all()


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"backend": "fused"}, "backend"),
        ({"window": 0}, "window"),
        ({"window": -3}, "window"),
        ({"key_mask": torch.ones(2, 5).bool()}, "key_mask"),
        ({"key_mask": torch.ones(3, 7).bool()}, "key_mask"),
        ({"key_mask": torch.ones(2, 7)}, "key_mask"),
        ({"segments": torch.zeros(5).long()}, "segments"),
        ({"segments": torch.zeros(3, 7).long()}, "segments"),
        ({"q_start": torch.zeros(3).long(), "causal": True}, "q_start"),
        ({"q_start": torch.tensor([0.5, 1.0]), "causal": True}, "q_start"),
        ({"bias": torch.zeros(4, 5, 6)}, "bias"),
        ({"bias": torch.zeros(3, 5, 7)}, "bias"),
        ({"bias": torch.zeros(3, 4, 5, 7)}, "bias"),
        ({"bias": torch.zeros(4, 1, 7)}, "bias"),
        ({"bias": torch.zeros(4, 5, 1)}, "bias"),
        ({"bias": pm.ALiBi(4)}, "q_positions"),
        (
            {
                "bias": pm.ALiBi(3),
                "q_positions": pm.sequence(5),
                "k_positions": pm.sequence(7),
            },
            "bias|head",
        ),
        (
            {
                "bias": pm.ALiBi(4),
                "q_positions": pm.sequence(5),
                "k_positions": pm.sequence(6),
            },
            "bias|k_positions",
        ),
        ({"bias": pm.ALiBi(4), "q_positions": pm.sequence(5)}, "bias|k_positions"),
        ({"backend": "sdpa", "key_mask": torch.ones(2, 7).bool()}, "sdpa"),
        ({"rotation": pm.Rotary(8)(pm.sequence(5))}, "k_rotation|token"),
        ({"rotation": pm.Rotary(8)(pm.sequence(1))}, "k_rotation|token"),
    ],
)
def test_attend_refuses_options_that_do_not_fit(options, name):
    q, k, v = (x.float() for x in qkv(queries=5, keys=7))
    with pytest.raises(ValueError, match=name):
        pm.attend(q, k, v, **options)


@pytest.mark.parametrize(
    ("shapes", "word"),
    [
        (((2, 4, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)), "head"),
        (((2, 2, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)), "head"),
        (((2, 4, 5, 8), (2, 4, 7, 8), (2, 2, 7, 8)), "head|v"),
        (((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 6, 8)), "k|v|token"),
        (((2, 4, 5, 8), (2, 4, 7, 6), (2, 4, 7, 8)), "channel|D|wid"),
        (((2, 4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 8)), "batch|B|sample"),
        (((2, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 8)), "batch|B|sample"),
        (((4, 5, 8), (4, 7, 8), (4, 7, 8)), "q|dim|shape"),
    ],
    ids=str,
)
def test_attend_refuses_tensors_that_do_not_belong_together(shapes, word):
    with pytest.raises(ValueError, match=word):
        pm.attend(*(torch.zeros(shape) for shape in shapes))


def test_attend_refuses_mixed_layouts_and_mixed_types():
    q, k, v = qkv()
    one, other = (
        pm.Rotary(8, layout=layout)(pm.sequence(12)) for layout in ("half", "interleaved")
    )
    with pytest.raises(ValueError, match="layout"):
        pm.attend(q, k, v, rotation=one, k_rotation=other)
    with pytest.raises(ValueError, match="dtype|type"):
        pm.attend(q, k.float(), v)
