"""Positions of kept, resized, padded and packed tokens."""

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))


@given(source=SIZES, target=SIZES)
def test_rescale_keeps_the_place_in_the_picture(source, target):
    moved = pm.rescale(pm.grid(*source).double(), source, target)
    for got, cell in zip(moved.tolist(), oracles.grid(source), strict=True):
        for place, index, size, new in zip(got, cell, source, target, strict=True):
            assert (place + 0.5) / new == pytest.approx((index + 0.5) / size, abs=1e-12)


@given(source=SIZES, target=SIZES)
def test_rescale_there_and_back_returns(source, target):
    positions = pm.grid(*source).double()
    back = pm.rescale(pm.rescale(positions, source, target), target, source)
    torch.testing.assert_close(back, positions, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64, torch.bfloat16])
def test_rescale_to_the_same_size_changes_nothing(dtype):
    positions = pm.grid(4, 9).to(dtype)
    same = pm.rescale(positions, (4, 9), (4, 9))
    assert same.dtype == dtype
    assert torch.equal(same, positions)


def test_rescale_turns_integers_into_half_pixel_centres():
    moved = pm.rescale(pm.grid(8, 18), (8, 18), (4, 9))
    assert moved.dtype == torch.float32
    assert moved[:5, 1].tolist() == [-0.25, 0.25, 0.75, 1.25, 1.75]
    assert moved[0::18, 0].tolist() == [-0.25, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.25]


def test_rescale_stretches_each_axis_by_its_own_sizes():
    """36 tokens are 4 by 9 and 6 by 6: only the sizes tell which."""
    moved = pm.rescale(pm.grid(6, 6), (6, 6), (4, 9))
    expected = [[(r + 0.5) * 4 / 6 - 0.5, (c + 0.5) * 9 / 6 - 0.5] for r, c in oracles.grid((6, 6))]
    torch.testing.assert_close(moved.double(), oracles.tensor(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("source", "target"), [((4,), (4, 9)), ((4, 9), (8,)), ((0, 9), (4, 9)), ((4, 9), (4, -9))]
)
def test_rescale_refuses_sizes_that_do_not_describe_the_positions(source, target):
    with pytest.raises(ValueError, match="source|target"):
        pm.rescale(pm.grid(4, 9), source, target)


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_padding_takes_no_position(masks):
    positions = pm.from_mask(torch.tensor(masks))
    assert positions.dtype == torch.int64
    assert positions.shape == (len(masks), 6, 1)
    assert positions.squeeze(-1).tolist() == [oracles.counted(mask) for mask in masks]


def test_left_padded_row_counts_its_real_tokens():
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]).bool()
    expected = [[0, 0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6]]
    assert pm.from_mask(mask).squeeze(-1).tolist() == expected


def test_mask_of_zeros_and_ones_counts_as_booleans():
    mask = torch.tensor([[0, 0, 1, 0, 1], [1, 1, 1, 0, 0]])
    for dtype in (torch.int64, torch.int32, torch.uint8):
        assert pm.from_mask(mask.to(dtype))[..., 0].tolist() == [[0, 0, 0, 0, 1], [0, 1, 2, 2, 2]]


@pytest.mark.parametrize(
    "mask", [torch.ones(2, 3), torch.ones(3).bool(), torch.ones(1, 2, 3).bool()]
)
def test_from_mask_refuses_what_is_not_a_boolean_batch(mask):
    with pytest.raises(ValueError, match="mask"):
        pm.from_mask(mask)


def test_each_packed_document_starts_again():
    """Among them a document of one token and an empty one."""
    cumulative = torch.tensor([0, 20, 32, 33, 33, 40])
    positions, documents = oracles.restarting(cumulative.tolist())
    assert positions == [*range(20), *range(12), 0, *range(7)]
    assert pm.packed(cumulative).tolist() == [[p] for p in positions]
    assert pm.packed(cumulative).dtype == torch.int64
    assert pm.segments(cumulative).tolist() == documents
    assert pm.segments(cumulative).dtype == torch.int64


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_packing_any_lengths(lengths):
    cumulative = [sum(lengths[:k]) for k in range(len(lengths) + 1)]
    positions, documents = oracles.restarting(cumulative)
    assert pm.packed(torch.tensor(cumulative)).flatten().tolist() == positions
    assert pm.packed(torch.tensor(cumulative)).shape == (cumulative[-1], 1)
    assert pm.segments(torch.tensor(cumulative)).tolist() == documents


@pytest.mark.parametrize("make", [pm.packed, pm.segments])
@pytest.mark.parametrize("cumulative", [[1, 5], [0, 5, 3], []])
def test_packing_refuses_lengths_that_are_not_cumulative(make, cumulative):
    with pytest.raises(ValueError, match="cumulative"):
        make(torch.tensor(cumulative, dtype=torch.int64))


@pytest.mark.parametrize("make", [pm.packed, pm.segments])
def test_packing_refuses_fractions_and_tables(make):
    for cumulative in (torch.tensor([0.0, 2.0]), torch.tensor([[0, 2], [0, 3]])):
        with pytest.raises(ValueError, match="cumulative"):
            make(cumulative)


@pytest.mark.parametrize("batched", [False, True])
def test_kept_tokens_keep_their_positions(batched):
    """Different tokens per sample, in any order."""
    positions = pm.grid(4, 6)
    if batched:
        positions = positions + torch.tensor([0, 100, 200])[:, None, None]
    indices = torch.stack([torch.randperm(24)[:10] for _ in range(3)])
    kept = pm.keep(positions, indices)
    assert kept.shape == (3, 10, 2) and kept.dtype == positions.dtype
    for b in range(3):
        for k in range(10):
            source = positions[b] if batched else positions
            assert kept[b, k].tolist() == source[indices[b, k]].tolist()


@pytest.mark.parametrize(
    "indices",
    [torch.zeros(2, 3), torch.zeros(3).long(), torch.ones(2, 3).bool()],
    ids=["float", "one row", "bool"],
)
def test_keep_refuses_what_is_not_one_row_of_indices_per_sample(indices):
    with pytest.raises(ValueError, match="indices"):
        pm.keep(pm.grid(4, 6), indices)


@pytest.mark.parametrize("index", [-1, 24])
def test_keep_never_wraps_around(index):
    """-1 marks no token in many loaders; the last token's position would be silently wrong."""
    with pytest.raises(ValueError, match="indices"):
        pm.keep(pm.grid(4, 6), torch.tensor([[0, index], [1, 2]]))


def test_keep_refuses_another_batch():
    with pytest.raises(ValueError, match="indices"):
        pm.keep(pm.grid(4, 6).expand(3, -1, -1), torch.zeros(2, 5).long())
