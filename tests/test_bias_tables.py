"""Added to the logits: T5's buckets and tables of offsets, and what every bias refuses."""

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# ------------------------------------------------------------ T5's buckets


@given(
    relative=st.lists(st.integers(-(2**40), 2**40) | st.integers(-300, 300), min_size=1),
    half=st.integers(2, 20),
    factor=st.integers(2, 100),
    both=st.booleans(),
)
def test_buckets_are_those_of_exact_arithmetic(relative, half, factor, both):
    arguments = {"buckets": 2 * half, "max_distance": half * factor, "bidirectional": both}
    got = pm.t5_buckets(torch.tensor(relative), **arguments)
    expected = [oracles.t5_bucket(r, 2 * half, half * factor, both) for r in relative]
    assert got.dtype == torch.int64 and got.tolist() == expected


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (64, 256), (12, 1000)])
def test_every_near_and_far_distance_has_its_bucket(buckets, far, both):
    relative = torch.arange(-1100, 1101)
    got = pm.t5_buckets(relative, buckets=buckets, max_distance=far, bidirectional=both)
    assert got.tolist() == [oracles.t5_bucket(r, buckets, far, both) for r in relative.tolist()]
    past = got[relative <= 0]
    assert past[-1] == 0 and (past.diff() <= 0).all() and got.max() == buckets - 1


def test_keys_to_the_right_have_the_upper_buckets():
    block = pm.t5_buckets(torch.arange(10) - torch.arange(10)[:, None])
    assert block[0].tolist() == [0, 17, 18, 19, 20, 21, 22, 23, 24, 24]
    assert block[9].tolist() == [8, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert torch.equal(block[1:, 1:], block[:-1, :-1])
    assert pm.t5_buckets(torch.tensor([-127, 127, -1000, 1000])).tolist() == [15, 31, 15, 31]
    # a logarithm in floats could fall one short at exact powers
    assert pm.t5_buckets(-torch.tensor([8, 16, 32, 64])).tolist() == [8, 10, 12, 14]


def test_causal_buckets_know_no_future_and_end_at_the_last():
    relative = torch.tensor([1, 5, 1000, 0, -1, -15, -16, -127, -128, -1000])
    got = pm.t5_buckets(relative, bidirectional=False)
    assert got.tolist() == [0, 0, 0, 0, 1, 15, 16, 31, 31, 31]


def test_fractional_distances_fall_into_the_bucket_of_their_whole_steps():
    """0.4 is no step to the right: that side's bucket of distance 0 is one no integer trains."""
    relative = torch.tensor([0.4, -0.4, 1.5, -1.5, 100.9, -0.0, 7.99])
    for both in (True, False):
        got = pm.t5_buckets(relative, bidirectional=both)
        assert torch.equal(got, pm.t5_buckets(relative.trunc().long(), bidirectional=both))


# ------------------------------------------------------------ T5's bias


@pytest.mark.parametrize("both", [True, False])
def test_t5_bias_reads_the_bucket_of_key_minus_query(both):
    torch.manual_seed(0)
    bias = pm.T5Bias(3, buckets=12, max_distance=40, bidirectional=both).double()
    assert bias.weight.shape == (12, 3)
    queries, keys = [0, 17, -60, 5], [3, 3, -1, 100, 17]
    got = bias(torch.tensor(queries)[:, None], torch.tensor(keys)[:, None])
    expected = oracles.t5(queries, keys, bias.weight.detach(), 40, both)
    assert torch.equal(got, expected)
    far = bias(torch.tensor(queries)[:, None] + 1000, torch.tensor(keys)[:, None] + 1000)
    assert torch.equal(far, got)


def test_t5_bias_per_sample_and_its_gradient():
    bias = pm.T5Bias(2).double()
    positions = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])[..., None]
    got = bias(positions, positions)
    assert got.shape == (2, 2, 5, 5)
    for b in range(2):
        row = positions[b, :, 0].tolist()
        assert torch.equal(got[b], oracles.t5(row, row, bias.weight.detach()))
    got.sum().backward()
    used = pm.t5_buckets(positions.mT - positions).flatten()
    counts = torch.bincount(used, minlength=32).double()[:, None].expand(32, 2)
    assert torch.equal(bias.weight.grad, counts)


# ------------------------------------------------------------ tables of offsets


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    clip=st.sampled_from([None, True]),
    data=st.data(),
)
def test_offset_table_at_and_between_its_entries(sizes, clip, data):
    bias = pm.RelativeBias(2, tuple(sizes), clip=clip).double()
    assert bias.sizes == tuple(sizes)
    assert bias.table.shape == (*(2 * size - 1 for size in sizes), 2)
    outside = 3.0 if clip or len(sizes) == 1 else 0.0
    place = st.tuples(*[st.floats(-outside, size - 1 + outside) for size in sizes])
    places = st.lists(place, min_size=1, max_size=3)
    queries, keys = data.draw(places), data.draw(places)
    got = bias(oracles.tensor(queries), oracles.tensor(keys))
    expected = oracles.relative_table(queries, keys, bias.table.detach())
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [(3, 5), (4, 4)])
def test_window_bias_is_read_by_query_minus_key_row_first(sizes):
    """Liu et al.: index (dy + H - 1) (2 W - 1) + dx + W - 1, with dy, dx = query - key."""
    bias = pm.RelativeBias(3, sizes).double()
    flat, (height, width) = bias.table.detach().flatten(0, 1), sizes
    got = bias(pm.grid(*sizes), pm.grid(*sizes))
    for i in range(height * width):
        for j in range(height * width):
            dy, dx = i // width - j // width, i % width - j % width
            index = (dy + height - 1) * (2 * width - 1) + dx + width - 1
            assert torch.equal(got[:, i, j], flat[index])


@pytest.mark.parametrize("keys", [6, 9])
def test_offsets_of_a_sequence_are_right_on_both_sides_of_the_diagonal(keys):
    """Shifting rows, made for causal models, mixes rows above the diagonal."""
    bias = pm.RelativeBias(2, 9).double()
    got = bias(pm.sequence(6), pm.sequence(keys))
    for i in range(6):
        for j in range(keys):
            assert torch.equal(got[:, i, j], bias.table.detach()[i - j + 8])


def test_offsets_beyond_a_sequence_table_share_its_ends():
    bias = pm.RelativeBias(2, 3).double()
    table = bias.table.detach()
    got = bias(torch.tensor([[0], [2**40]]), torch.tensor([[0], [3], [2**40]]))
    assert torch.equal(got[:, 0].T, table[[2, 0, 0]])
    assert torch.equal(got[:, 1].T, table[[4, 4, 2]])


@pytest.mark.parametrize(("sizes", "clip"), [((3, 4), None), ((3, 4), False), (5, False)])
def test_offsets_beyond_a_window_are_refused(sizes, clip):
    bias = pm.RelativeBias(2, sizes, clip=clip)
    last = pm.grid(*bias.sizes)
    assert bias(last, last).shape[0] == 2
    for axis, size in enumerate(bias.sizes):
        for offset in (-size, size):
            far = torch.zeros(1, len(bias.sizes), dtype=torch.int64)
            far[0, axis] = offset
            with pytest.raises(ValueError, match="size") as error:
                bias(far, torch.zeros_like(far))
            # the numbers are the caller's, not rows of the table inside
            assert str(bias.sizes) in str(error.value) and str(offset) in str(error.value)


@pytest.mark.parametrize("shape", [(8, 6), (5, 7), (2, 9), (4, 3)])
def test_window_bias_serves_other_grids_through_rescaled_positions(shape):
    """Offsets between cells are in between; those of the outermost half cells still are inside."""
    bias = pm.RelativeBias(2, (4, 3)).double()
    moved = pm.rescale(pm.grid(*shape).double(), shape, bias.sizes)
    expected = oracles.relative_table(moved, moved, bias.table.detach())
    torch.testing.assert_close(bias(moved, moved), expected, rtol=0, atol=1e-12)
    same = pm.rescale(pm.grid(4, 3), (4, 3), bias.sizes)
    assert torch.equal(bias(same, same), bias(pm.grid(4, 3), pm.grid(4, 3)))


def test_window_bias_depends_on_differences_only_and_trains_what_it_reads():
    bias = pm.RelativeBias(2, (3, 4)).double()
    queries, keys = pm.grid(2, 2), pm.grid(2, 3)
    got = bias(queries, keys)
    assert torch.equal(bias(queries + 10**6, keys + 10**6), got)
    got.sum().backward()
    counts = torch.zeros(5, 7, 2, dtype=torch.float64)
    for q in queries.tolist():
        for k in keys.tolist():
            counts[q[0] - k[0] + 2, q[1] - k[1] + 3] += 1
    assert torch.equal(bias.table.grad, counts)


# ------------------------------------------------------------ refusals

BIASES = [pm.ALiBi(3), pm.LearnedALiBi(3), pm.T5Bias(3), pm.RelativeBias(3, (9,))]


@pytest.mark.parametrize("bias", BIASES, ids=lambda bias: type(bias).__name__)
@pytest.mark.parametrize("side", ["q_positions", "k_positions"])
@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(5, 2),
        torch.zeros(5, dtype=torch.int64),
        torch.zeros(5, 1, dtype=torch.bool),
        torch.zeros(5, 1, dtype=torch.complex64),
    ],
    ids=["two axes", "no tokens", "bool", "complex"],
)
def test_biases_refuse_positions_that_cannot_be_compared(bias, side, wrong):
    positions = {"q_positions": pm.sequence(5), "k_positions": pm.sequence(4)} | {side: wrong}
    with pytest.raises(ValueError, match="positions"):
        bias(**positions)


@pytest.mark.parametrize("bias", BIASES, ids=lambda bias: type(bias).__name__)
def test_biases_of_nothing_are_empty(bias):
    assert bias(pm.sequence(0), pm.sequence(4)).shape == (3, 0, 4)
    assert bias(pm.sequence(4), pm.sequence(0)).shape == (3, 4, 0)
    none = torch.zeros(0, 4, 1, dtype=torch.int64)
    assert bias(none, none).shape == (0, 3, 4, 4)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.alibi_slopes(0), "heads"),
        (lambda: pm.ALiBi(0), "heads"),
        (lambda: pm.ALiBi(4, distance="euclidean"), "distance"),
        (lambda: pm.ALiBi(4, biased_heads=5), "biased_heads"),
        (lambda: pm.ALiBi(4, biased_heads=-1), "biased_heads"),
        (lambda: pm.LearnedALiBi(-2), "heads"),
        (lambda: pm.LearnedALiBi(4, distance="L1"), "distance"),
        (lambda: pm.T5Bias(0), "heads"),
        (lambda: pm.T5Bias(4, buckets=0), "buckets"),
        (lambda: pm.T5Bias(4, buckets=32, max_distance=8), "max_distance"),
        (lambda: pm.T5Bias(4, buckets=32, max_distance=16, bidirectional=False), "max_distance"),
        (lambda: pm.t5_buckets(torch.tensor([1]), buckets=1), "buckets"),
        (lambda: pm.t5_buckets(torch.tensor([1]), max_distance=0), "max_distance"),
        (lambda: pm.RelativeBias(0, 3), "heads"),
        (lambda: pm.RelativeBias(2, 0), "sizes"),
        (lambda: pm.RelativeBias(2, (3, -1)), "sizes"),
        (lambda: pm.RelativeBias(2, ()), "sizes"),
    ],
)
def test_biases_refuse_impossible_counts_and_misspelt_names(make, name):
    with pytest.raises(ValueError, match=name):
        make()


def test_tables_refuse_another_number_of_axes_than_theirs():
    for bias, positions in ((pm.RelativeBias(2, (3, 4)), (3,)), (pm.T5Bias(2), (2, 2))):
        with pytest.raises(ValueError, match="positions"):
            bias(pm.grid(*positions), pm.grid(*positions))
