"""Where a token is: rows and columns in order, offsets, padding, packing, and other sizes."""

import math

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=3)
SPANS = st.floats(-100, 100)


def test_sequence_counts_in_exact_integers():
    positions = pm.sequence(5, offset=3)
    assert positions.dtype == torch.int64
    assert positions.tolist() == [[3], [4], [5], [6], [7]]
    far = pm.sequence(2, offset=2**53)
    assert far.tolist() == [[2**53], [2**53 + 1]]


def test_sequence_takes_one_offset_per_sample():
    positions = pm.sequence(3, offset=torch.tensor([0, 7, -2], dtype=torch.int32))
    assert positions.dtype == torch.int64
    assert positions.tolist() == [[[0], [1], [2]], [[7], [8], [9]], [[-2], [-1], [0]]]


def test_sequence_of_length_zero_is_empty():
    assert pm.sequence(0).shape == (0, 1)
    assert pm.sequence(0, offset=torch.tensor([1, 2])).shape == (2, 0, 1)
    assert pm.sequence(0).dtype == torch.int64


@pytest.mark.parametrize("length", [-1, -7])
def test_negative_lengths_are_refused(length):
    with pytest.raises(ValueError, match="length"):
        pm.sequence(length)


@pytest.mark.parametrize("offset", [torch.tensor([0.5]), torch.tensor([True]), torch.zeros(2, 2)])
def test_sequence_refuses_offsets_that_are_not_integers_per_sample(offset):
    with pytest.raises(ValueError, match="offset"):
        pm.sequence(3, offset=offset)


@given(sizes=SIZES)
def test_grid_is_row_major_on_any_number_of_axes(sizes):
    positions = pm.grid(*sizes)
    assert positions.dtype == torch.int64
    assert positions.shape == (math.prod(sizes), len(sizes))
    assert positions.tolist() == oracles.grid(sizes)


@pytest.mark.parametrize(("height", "width"), [(3, 4), (4, 4)])
def test_tokens_carry_their_row_then_their_column(height, width):
    """Square grids hide a transposed order from every shape check: the values must show it."""
    positions = pm.grid(height, width)
    for token in range(height * width):
        assert positions[token].tolist() == [token // width, token % width]


@given(sizes=SIZES, data=st.data())
def test_grid_moves_and_stretches_each_axis_on_its_own(sizes, data):
    numbers = st.lists(st.integers(-9, 9), min_size=len(sizes), max_size=len(sizes))
    offset, step = tuple(data.draw(numbers)), tuple(data.draw(numbers))
    positions = pm.grid(*sizes, offset=offset, step=step)
    assert positions.dtype == torch.int64
    assert positions.tolist() == oracles.grid(sizes, offset, step)


def test_grid_with_a_fraction_is_float32():
    positions = pm.grid(2, 3, offset=(0.5, 1), step=(1, 0.25))
    assert positions.dtype == torch.float32
    assert positions.tolist() == oracles.grid((2, 3), (0.5, 1), (1, 0.25))
    assert pm.grid(2, 3, offset=0.5).tolist() == oracles.grid((2, 3), (0.5, 0.5))


@pytest.mark.parametrize("name", ["offset", "step"])
@pytest.mark.parametrize("value", [math.nan, math.inf, (0, math.nan), (1,), (1, 2, 3)])
def test_grid_refuses_numbers_that_place_nothing(name, value):
    with pytest.raises(ValueError, match=name):
        pm.grid(2, 3, **{name: value})


@pytest.mark.parametrize("make", [pm.grid, pm.centred_grid, pm.normalised_grid])
@pytest.mark.parametrize("sizes", [(), (-1, 3), (3, -2), (0, 3), (3, 0)])
def test_grids_without_axes_or_cells_are_refused(make, sizes):
    with pytest.raises(ValueError, match="size"):
        make(*sizes)


@given(sizes=SIZES)
def test_centred_grid_has_its_origin_in_the_middle(sizes):
    positions = pm.centred_grid(*sizes)
    expected = [
        [i - (n - 1) / 2 for i, n in zip(c, sizes, strict=True)] for c in oracles.grid(sizes)
    ]
    assert positions.dtype == torch.float32
    assert positions.tolist() == expected
    assert torch.equal(positions.flip(0), -positions)


@given(sizes=SIZES, by=st.sampled_from(["axis", "min", "max"]))
def test_normalised_centres_are_the_published_ones(sizes, by):
    positions = pm.normalised_grid(*sizes, by=by)
    assert positions.dtype == torch.float32
    expected = oracles.tensor(oracles.cell_centres(sizes, by))
    torch.testing.assert_close(positions.double(), expected, rtol=0, atol=1e-6)


@given(sizes=st.lists(st.integers(2, 6), min_size=1, max_size=3))
def test_normalised_edges_reach_both_ends(sizes):
    positions = pm.normalised_grid(*sizes, ends="edges")
    expected = oracles.tensor(oracles.inclusive_ends(sizes))
    torch.testing.assert_close(positions.double(), expected, rtol=0, atol=1e-6)
    assert positions.min() == -1 and positions.max() == 1


def test_normalised_grid_on_one_shared_size_keeps_the_aspect():
    for by, size in (("min", 3), ("max", 5)):
        rows, columns = pm.normalised_grid(3, 5, by=by).double().unflatten(0, (3, 5)).unbind(-1)
        torch.testing.assert_close(rows.diff(dim=0), torch.full((2, 5), 2 / size).double())
        torch.testing.assert_close(columns.diff(dim=1), torch.full((3, 4), 2 / size).double())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ends", {"ends": "centers"}),
        ("by", {"by": "height"}),
        ("by", {"ends": "edges", "by": "min"}),
    ],
)
def test_normalised_grid_refuses_unknown_choices(name, arguments):
    with pytest.raises(ValueError, match=name):
        pm.normalised_grid(3, 4, **arguments)
