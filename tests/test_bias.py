"""Added to the logits: ALiBi and T5 depend on differences, as published."""

import math

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm

PLACES = st.lists(st.tuples(st.floats(-500, 500), st.floats(-500, 500)), min_size=1, max_size=4)
FAR = st.integers(-10_000_000, 10_000_000)


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# ------------------------------------------------------------ slopes


@pytest.mark.parametrize(
    ("heads", "logarithms"),
    [
        (1, [-8]),
        (2, [-4, -8]),
        (3, [-4, -8, -2]),
        (6, [-2, -4, -6, -8, -1, -3]),
        (8, [-1, -2, -3, -4, -5, -6, -7, -8]),
        (12, [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5]),
        (40, [-(h + 1) / 4 for h in range(32)] + [-(2 * h + 1) / 8 for h in range(8)]),
    ],
)
def test_slopes_between_powers_of_two_follow_the_authors(heads, logarithms):
    slopes = pm.alibi_slopes(heads)
    assert isinstance(slopes, tuple) and all(type(slope) is float for slope in slopes)
    assert [math.log2(slope) for slope in slopes] == pytest.approx(logarithms, abs=1e-12)


@given(heads=st.integers(1, 300))
def test_slopes_for_any_number_of_heads(heads):
    slopes = pm.alibi_slopes(heads)
    assert slopes == pytest.approx(oracles.alibi_slopes(heads), rel=1e-12)
    assert len(set(slopes)) == heads


# ------------------------------------------------------------ ALiBi


@given(queries=PLACES, keys=PLACES, distance=st.sampled_from(["l1", "l2"]))
def test_alibi_on_two_axes_is_the_published_one(queries, keys, distance):
    got = pm.ALiBi(6, distance=distance)(oracles.tensor(queries), oracles.tensor(keys))
    expected = oracles.alibi(queries, keys, oracles.alibi_slopes(6), distance)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    back = pm.ALiBi(6, distance=distance)(oracles.tensor(keys), oracles.tensor(queries))
    assert torch.equal(back, got.mT)


def test_alibi_per_sample_keeps_batch_heads_queries_and_keys_apart():
    """As many samples as heads, and one side shared by the batch."""
    queries, keys = noise(3, 5, 2) * 9, noise(3, 4, 2, seed=1) * 9
    bias, slopes = pm.ALiBi(3), oracles.alibi_slopes(3)
    got, shared = bias(queries, keys), bias(queries, keys[0])
    assert got.shape == shared.shape == (3, 3, 5, 4)
    for b in range(3):
        expected = oracles.alibi(queries[b], keys[b], slopes)
        torch.testing.assert_close(got[b], expected, rtol=1e-12, atol=1e-12)
        expected = oracles.alibi(queries[b], keys[0], slopes)
        torch.testing.assert_close(shared[b], expected, rtol=1e-12, atol=1e-12)


@given(distance=st.sampled_from(["l1", "l2"]), shift=FAR, axis=st.integers(0, 1))
def test_moving_everything_changes_no_integer_bias(distance, shift, axis):
    queries, keys = pm.grid(3, 2), pm.grid(2, 5)
    step = torch.zeros(2, dtype=torch.int64)
    step[axis] = shift
    bias = pm.ALiBi(4, distance=distance)
    assert torch.equal(bias(queries + step, keys + step), bias(queries, keys))


@given(places=PLACES, distance=st.sampled_from(["l1", "l2"]))
def test_farther_is_never_higher_and_nearest_is_free(places, distance):
    keys = oracles.tensor(places)
    bias = pm.ALiBi(5, distance=distance)(torch.zeros(1, 2).double(), keys)[:, 0]
    assert (pm.ALiBi(5, distance=distance)(keys, keys).diagonal(dim1=1, dim2=2) == 0).all()
    apart = keys.abs().sum(-1) if distance == "l1" else keys.norm(dim=-1)
    in_order = bias[:, apart.argsort()]
    assert (in_order.diff(dim=-1) <= 1e-12).all() and (bias <= 0).all()


def test_straight_line_distance_does_not_mind_turning_the_picture():
    queries, keys = noise(4, 2) * 9, noise(6, 2, seed=1) * 9
    turn = torch.tensor([[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]]).double()
    for distance, same in (("l2", True), ("l1", False)):
        bias = pm.ALiBi(2, distance=distance)
        turned = bias(queries @ turn.T, keys @ turn.T)
        assert torch.allclose(turned, bias(queries, keys), rtol=0, atol=1e-5) == same


@pytest.mark.parametrize("biased", [0, 3, 8])
def test_heads_without_a_penalty_see_no_distance(biased):
    got = pm.ALiBi(8, biased_heads=biased)(pm.sequence(5), pm.sequence(7)).double()
    slopes = oracles.alibi_slopes(biased) if biased else []
    expected = oracles.alibi(pm.sequence(5), pm.sequence(7), slopes + [0.0] * (8 - biased))
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("length", "start"), [(1, 19), (4, 16), (8, 0), (20, 0)])
def test_bias_of_cached_queries_is_rows_of_the_whole(length, start):
    """A query alone at the end stands 19 rows from the first key, not 0."""
    queries, keys = pm.sequence(length, offset=start), pm.sequence(20)
    torch.manual_seed(0)
    for bias in (pm.ALiBi(2), pm.LearnedALiBi(2), pm.T5Bias(2), pm.RelativeBias(2, 8)):
        whole = bias(keys, keys)
        assert torch.equal(bias(queries, keys), whole[:, start : start + length])
    alone = pm.ALiBi(2)(pm.sequence(1, offset=19), keys)[:, 0].tolist()
    assert alone == [[-m * (19 - j) for j in range(20)] for m in (2**-4, 2**-8)]


def test_bias_inside_a_packed_or_padded_row_is_that_of_the_document():
    rows = pm.packed(torch.tensor([0, 20, 32, 33, 33, 40]))
    padded = pm.from_mask(torch.tensor([[0, 0, 0, 1, 1, 1, 1]]).bool())[0]
    torch.manual_seed(0)
    for bias in (pm.ALiBi(3), pm.T5Bias(3), pm.RelativeBias(3, 30)):
        packed, alone = bias(rows, rows), bias(pm.sequence(12), pm.sequence(12))
        assert torch.equal(packed[:, 20:32, 20:32], alone)
        assert torch.equal(packed[:, 20:32, 20:32], packed[:, :12, :12])
        assert torch.equal(bias(padded, padded)[:, 3:, 3:], alone[:, :4, :4])


def test_low_precision_positions_give_exact_distances():
    positions = torch.tensor([[0.0], [1.0], [255.0], [256.0]])
    near = torch.tensor([[0.5]])
    exact = pm.ALiBi(8)(near.double(), positions.double()).float()
    assert torch.equal(pm.ALiBi(8)(near.bfloat16(), positions.bfloat16()), exact)
    expected = pm.ALiBi(8)(positions.double(), positions.double()).float()
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int32, torch.int16):
        got = pm.ALiBi(8)(positions.to(dtype), positions.to(dtype))
        assert got.dtype == torch.float32 and torch.equal(got, expected)
    assert torch.equal(pm.ALiBi(8).bfloat16()(positions, positions), expected)
    small = pm.ALiBi(8)(positions[:3].byte(), positions[:3].byte())
    assert torch.equal(small, expected[:, :3, :3])


@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_learned_alibi_starts_as_alibi_and_trains_its_slopes(distance):
    bias = pm.LearnedALiBi(6, distance=distance).double()
    queries, keys = noise(4, 2) * 9, noise(5, 2, seed=1) * 9
    fixed = pm.ALiBi(6, distance=distance)(queries, keys)
    torch.testing.assert_close(bias(queries, keys), fixed, rtol=1e-6, atol=0)
    assert bias.log_slopes.shape == (6,)
    bias(queries, keys).sum().backward()
    torch.testing.assert_close(bias.log_slopes.grad, fixed.sum((1, 2)), rtol=1e-6, atol=0)
    with torch.no_grad():
        bias.log_slopes.copy_(torch.tensor([2.0, 1, 0, -1, -2, -3]))
    assert (bias(queries, keys) < 0).all()
    expected = oracles.alibi(queries, keys, bias.log_slopes.exp().tolist(), distance)
    torch.testing.assert_close(bias(queries, keys), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_gradient_of_distance_is_finite_where_tokens_coincide(distance):
    positions = torch.tensor([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]]).double().requires_grad_()
    keys = positions.detach()
    pm.ALiBi(2, distance=distance)(positions, keys).sum().backward()
    assert torch.isfinite(positions.grad).all()
