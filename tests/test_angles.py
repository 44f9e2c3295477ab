"""Angles stay exact however far away, whatever the type of the positions."""

import math

import mpmath
import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm import frequencies as fq

FAR = st.integers(-10_000_000, 10_000_000)
RATES = st.floats(-1.0, 1.0) | st.sampled_from(fq.geometric(32))


def reduced(position, frequency):
    """The exact product of the two floats, less whole turns, at 60 digits."""
    with mpmath.workdps(60):
        product = mpmath.mpf(position) * mpmath.mpf(frequency)
        turn = 2 * mpmath.pi
        return float(product - turn * mpmath.nint(product / turn))


def off(got, expected):
    """Distance on the circle."""
    return abs(math.remainder(got - expected, 2 * math.pi))


@given(position=FAR, frequency=RATES)
def test_integer_positions_to_ten_million_turn_exactly(position, frequency):
    angle = pm.angles(torch.tensor([[position]]), ((frequency,),))
    assert angle.dtype == torch.float32
    assert off(angle.item(), reduced(position, frequency)) < 1e-6
    assert abs(angle.item()) <= math.pi + 1e-6


@given(position=st.floats(-1e7, 1e7), frequency=RATES)
def test_float64_positions_give_float64_angles(position, frequency):
    angle = pm.angles(torch.tensor([[position]], dtype=torch.float64), ((frequency,),))
    assert angle.dtype == torch.float64
    assert off(angle.item(), reduced(position, frequency)) < 1e-8
    assert abs(angle.item()) <= math.pi + 1e-8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_positions_count_as_they_come(dtype):
    positions = torch.tensor([[-3.3], [0.1], [998.3897], [2049.0], [65504.0]]).to(dtype)
    row = fq.geometric(16)
    angle = pm.angles(positions, (row,))
    assert angle.dtype == torch.float32
    for line, (position,) in zip(angle.tolist(), positions.double().tolist(), strict=True):
        assert all(off(a, reduced(position, f)) < 1e-6 for a, f in zip(line, row, strict=True))


@pytest.mark.parametrize("autocast", [False, True])
def test_every_far_position_has_its_own_angle(autocast):
    """Rounded to a 16-bit type 2048 and 2049 meet, and 65520 becomes infinite."""
    positions = torch.tensor([[2048], [2049], [4097], [65504], [65520]])
    row = fq.geometric(16)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        angle = pm.angles(positions, (row,))
    assert torch.isfinite(angle).all() and angle.dtype == torch.float32
    assert len({tuple(line) for line in angle.tolist()}) == 5
    for line, (position,) in zip(angle.tolist(), positions.tolist(), strict=True):
        assert all(off(a, reduced(position, f)) < 1e-6 for a, f in zip(line, row, strict=True))


def test_pair_one_at_position_1857():
    angle = pm.angles(torch.tensor([[1857]]), (fq.geometric(16),))[0, 1].item()
    assert off(angle, 1044.2678408784782) < 1e-6
    assert math.cos(angle) == pytest.approx(0.3066928, abs=1e-6)


@given(
    data=st.data(),
    axes=st.integers(1, 3),
    pairs=st.integers(1, 4),
    leading=st.lists(st.integers(1, 3), max_size=2),
)
def test_angles_sum_over_the_axes_for_any_leading_shape(data, axes, pairs, leading):
    number = st.floats(-50, 50)
    matrix = data.draw(st.tuples(*[st.tuples(*[number] * pairs)] * axes))
    count = math.prod(leading) * 4 * axes
    flat = data.draw(st.lists(number, min_size=count, max_size=count))
    positions = torch.tensor(flat, dtype=torch.float64).reshape(*leading, 4, axes)
    got = pm.angles(positions, matrix)
    assert got.shape == (*leading, 4, pairs)
    expected = oracles.turning_angles(positions.reshape(-1, axes), matrix).reshape(got.shape)
    turns = (got - expected) / (2 * math.pi)
    torch.testing.assert_close(turns, turns.round(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("heads", [None, 2, 3])
@pytest.mark.parametrize("batch", [None, 2, 3])
def test_a_frequency_tensor_gives_one_set_of_angles_per_head(heads, batch):
    """Batch and heads of equal size must not be taken for one another."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, 5) if heads is None else (heads, 2, 5)
    frequencies = torch.randn(shape, generator=generator, dtype=torch.float64)
    positions = torch.randn(
        (7, 2) if batch is None else (batch, 7, 2), generator=generator, dtype=torch.float64
    )
    got = pm.angles(positions, frequencies)
    per_sample = positions[None] if batch is None else positions
    per_head = frequencies[None] if heads is None else frequencies
    expected = torch.stack([oracles.mixed_angles(p, per_head) for p in per_sample])
    expected = expected if heads is not None else expected[:, 0]
    expected = expected if batch is not None else expected[0]
    assert got.shape == expected.shape
    turns = (got - expected) / (2 * math.pi)
    torch.testing.assert_close(turns, turns.round(), rtol=0, atol=1e-11)


def test_learned_frequencies_get_the_gradient_of_the_angle():
    frequencies = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
    positions = torch.tensor([[2.0, -3.0], [0.5, 7.0]], dtype=torch.float64)
    pm.angles(positions, frequencies)[:, 1, :].sum().backward()
    expected = positions[1][None, :, None].expand(3, 2, 5)
    torch.testing.assert_close(frequencies.grad, expected, rtol=1e-12, atol=0)


def test_no_positions_give_no_angles():
    assert pm.angles(torch.zeros(0, 2), ((1.0, 2.0), (3.0, 4.0))).shape == (0, 2)
    assert pm.angles(torch.zeros(0, 4, 1), ((1.0, 2.0),)).shape == (0, 4, 2)


@pytest.mark.parametrize(
    "positions",
    [
        torch.zeros(4, 1),
        torch.zeros(4, 3),
        torch.zeros(4, 2, dtype=torch.bool),
        torch.zeros(4, 2, dtype=torch.complex64),
        torch.zeros(2),
    ],
)
def test_angles_refuse_positions_that_do_not_fit(positions):
    with pytest.raises(ValueError, match="positions"):
        pm.angles(positions, ((1.0, 2.0), (3.0, 4.0)))


@pytest.mark.parametrize(
    "frequencies", [((1.0, 2.0), (3.0,)), torch.zeros(2), torch.zeros(1, 1, 2, 3)]
)
def test_angles_refuse_what_is_not_a_matrix(frequencies):
    with pytest.raises(ValueError, match="frequencies"):
        pm.angles(torch.zeros(4, 2), frequencies)
