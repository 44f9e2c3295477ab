"""Angles on a device that has no float64, tried here by denying it to the CPU."""

import math

import pytest
import torch

import posenc_mm as pm
from posenc_mm.frequencies import turning


@pytest.fixture
def without_float64(monkeypatch):
    monkeypatch.setattr(turning, "_WITHOUT_FLOAT64", ("cpu",))


def turn_apart(a: torch.Tensor, b: torch.Tensor) -> float:
    apart = torch.remainder(a.double() - b.double() + math.pi, 2 * math.pi) - math.pi
    return float(apart.abs().max())


LADDER = pm.axial(pm.geometric(32), pm.geometric(16, base=100.0))


@pytest.mark.parametrize("scale", [1, 1_000, 10_000_000])
def test_two_terms_stay_within_a_millionth_of_a_radian(without_float64, scale: int):
    at = torch.randint(-scale, scale + 1, (500, 2))
    result = pm.angles(at, LADDER)
    matrix = torch.tensor(LADDER, dtype=torch.float64)
    exact = at[:, :1].double() * matrix[0] + at[:, 1:].double() * matrix[1]
    assert result.dtype == torch.float32
    assert result.abs().max() <= math.pi + 1e-6
    assert turn_apart(result, exact) < 1e-6


def test_fractional_positions_are_as_exact(without_float64):
    at = (torch.rand(500, 2) - 0.5) * 1e5
    matrix = torch.tensor(LADDER, dtype=torch.float64)
    exact = at[:, :1].double() * matrix[0] + at[:, 1:].double() * matrix[1]
    assert turn_apart(pm.angles(at, LADDER), exact) < 1e-6


def test_learned_frequencies_keep_their_gradient(without_float64):
    at = torch.randint(0, 50, (7, 2))
    frequencies = torch.rand(3, 2, 5, requires_grad=True)
    result = pm.angles(at, frequencies)
    assert result.shape == (3, 7, 5)
    (gradient,) = torch.autograd.grad(result.sum(), frequencies)
    wanted = at.sum(0).float()[None, :, None].expand(3, 2, 5)
    assert torch.allclose(gradient, wanted, rtol=1e-5)
    exact = (at[None, :, :, None].double() * frequencies.detach()[:, None].double()).sum(2)
    assert turn_apart(result.detach(), exact) < 1e-4
