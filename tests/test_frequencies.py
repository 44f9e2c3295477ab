"""How fast each pair turns: the published rows and matrices."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm import frequencies as fq

COUNTS = st.integers(1, 40)
BASES = st.floats(1.5, 1e7)


def is_row(row, count):
    return isinstance(row, tuple) and len(row) == count and all(type(f) is float for f in row)


@given(count=COUNTS, base=BASES)
def test_geometric_falls_from_one_by_a_constant_ratio(count, base):
    row = fq.geometric(count, base)
    assert is_row(row, count)
    assert row == pytest.approx([1 / base ** (i / count) for i in range(count)], rel=1e-12)
    assert row[0] == 1.0


@given(count=COUNTS, base=BASES, extra=st.integers(0, 9))
def test_geometric_over_a_width_uses_that_width(count, base, extra):
    width = 2 * count + extra
    row = fq.geometric(count, base, width=width)
    assert row == pytest.approx([1 / base ** (2 * i / width) for i in range(count)], rel=1e-12)


@given(count=st.integers(2, 40), base=BASES)
def test_geometric_with_endpoint_ends_at_one_over_base(count, base):
    row = fq.geometric(count, base, endpoint=True)
    assert row[0] == 1.0
    assert row == pytest.approx([base ** -(i / (count - 1)) for i in range(count)], rel=1e-12)
    assert row[-1] == pytest.approx(1 / base, rel=1e-12)


def test_width_64_at_the_usual_base():
    row = fq.geometric(32)
    assert row[1] == pytest.approx(0.7498942, abs=5e-8)
    assert row[31] == pytest.approx(1.333521e-4, abs=5e-11)


@given(count=st.integers(2, 20), low=st.floats(-50, 50), span=st.floats(0.1, 100))
def test_linear_reaches_both_ends_in_equal_steps(count, low, span):
    row = fq.linear(count, low, low + span)
    assert is_row(row, count)
    expected = [low + span * i / (count - 1) for i in range(count)]
    assert row == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(count=COUNTS, period=st.floats(0.1, 1e6))
def test_harmonics_return_after_one_period(count, period):
    row = fq.harmonics(count, period)
    assert is_row(row, count)
    for k, frequency in enumerate(row, start=1):
        assert frequency * period == pytest.approx(2 * math.pi * k, rel=1e-12)


def test_octaves_double_from_pi():
    assert fq.octaves(5) == pytest.approx([math.pi * 2**k for k in range(5)], rel=1e-15)


def test_neighbours_on_a_cycle_are_equally_far_apart():
    """Also the last and the first: dividing by period - 1 makes Sunday fall on Monday."""
    for period, expected in ((7, 0.8677675), (24, 0.2610524)):
        turned = pm.angles(pm.sequence(period).double(), (fq.harmonics(1, period),)).flatten()
        points = torch.stack([turned.cos(), turned.sin()], -1)
        apart = (points - points.roll(-1, 0)).norm(dim=-1)
        torch.testing.assert_close(apart, torch.full_like(apart, expected), rtol=0, atol=5e-8)


def test_gaussian_is_scaled_normal_noise_that_its_seed_fixes():
    matrix = fq.gaussian(2000, 2, scale=3.0, seed=5)
    assert len(matrix) == 2 and all(is_row(row, 2000) for row in matrix)
    assert matrix == fq.gaussian(2000, 2, scale=3.0, seed=5)
    assert matrix != fq.gaussian(2000, 2, scale=3.0, seed=6)
    unit = torch.tensor(matrix, dtype=torch.float64) / (2 * math.pi * 3.0)
    ordered, chance = unit.flatten().sort().values, torch.arange(1, 4001).double() / 4001
    normal = torch.special.ndtri(chance)
    assert (ordered - normal)[40:-40].abs().max() < 0.15
    assert (unit[0] * unit[1]).mean().abs() < 0.1


def test_gaussian_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    fq.gaussian(8, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_gaussian_scales_the_same_draw():
    one, four = fq.gaussian(6, 3, scale=1.0, seed=2), fq.gaussian(6, 3, scale=4.0, seed=2)
    for a, b in zip(one, four, strict=True):
        assert b == pytest.approx([4 * f for f in a], rel=1e-6)


@given(st.lists(st.lists(st.floats(-9, 9), min_size=1, max_size=4), min_size=1, max_size=4))
def test_axial_gives_each_axis_its_own_pairs(rows):
    matrix = fq.axial(*map(tuple, rows))
    assert len(matrix) == len(rows)
    start = 0
    for axis, row in enumerate(rows):
        for other, line in enumerate(matrix):
            block = list(line[start : start + len(row)])
            assert block == (row if other == axis else [0.0] * len(row))
        start += len(row)
    assert all(is_row(line, start) for line in matrix)


@pytest.mark.parametrize("count", [2, 8, 10])
def test_mixed_starts_with_two_orthogonal_directions_per_head(count):
    """Heo et al. 2024: half of the pairs along one random direction, half across it."""
    torch.manual_seed(3)
    matrix = fq.mixed(count, heads=5, base=10.0).double()
    assert matrix.shape == (5, 2, count)
    half = count // 2
    speed = torch.tensor([10 ** (-i / half) for i in range(half)], dtype=torch.float64)
    for head in matrix:
        along, across = head[:, :half], head[:, half:]
        for part in (along, across):
            torch.testing.assert_close(part.norm(dim=0), speed, rtol=1e-6, atol=0)
            direction = part / speed
            torch.testing.assert_close(direction, direction[:, :1].expand(2, half))
        dots = (along / speed * across / speed).sum(0)
        torch.testing.assert_close(dots, torch.zeros(half).double(), rtol=0, atol=1e-6)
    directions = matrix[:, :, 0]
    assert torch.cdist(directions, directions).fill_diagonal_(1).min() > 1e-3


def test_mixed_draws_from_the_global_random_state():
    torch.manual_seed(1)
    first, second = fq.mixed(4, heads=3), fq.mixed(4, heads=3)
    torch.manual_seed(1)
    assert first.dtype == torch.float32
    assert torch.equal(fq.mixed(4, heads=3), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: fq.geometric(-1), "count"),
        (lambda: fq.geometric(4, base=0.0), "base"),
        (lambda: fq.geometric(4, base=-2.0), "base"),
        (lambda: fq.geometric(4, base=math.nan), "base"),
        (lambda: fq.geometric(4, width=0), "width"),
        (lambda: fq.linear(-2, 0.0, 1.0), "count"),
        (lambda: fq.linear(3, math.nan, 1.0), "low"),
        (lambda: fq.linear(3, 0.0, math.inf), "high"),
        (lambda: fq.harmonics(-1, 7.0), "count"),
        (lambda: fq.harmonics(2, 0.0), "period"),
        (lambda: fq.harmonics(2, math.nan), "period"),
        (lambda: fq.octaves(-1), "count"),
        (lambda: fq.gaussian(-4, 2), "count"),
        (lambda: fq.gaussian(4, 0), "axes"),
        (lambda: fq.gaussian(4, 2, scale=math.nan), "scale"),
        (lambda: fq.mixed(-4, heads=2), "count"),
        (lambda: fq.mixed(4, heads=0), "heads"),
        (lambda: fq.mixed(4, heads=2, axes=0), "axes"),
        (lambda: fq.mixed(4, heads=2, base=-1.0), "base"),
    ],
)
def test_frequencies_refuse_numbers_that_mean_nothing(make, name):
    with pytest.raises(ValueError, match=name):
        make()
