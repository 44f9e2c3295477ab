"""Fourier features, fixed and learned, and what every additive encoding refuses."""

import math

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm import frequencies as fq

POSITIONS = [[0.3, -0.9], [0.0, 0.0], [-1.0, 1.0], [0.71, 0.25]]


def arranged(cosines, sines, layout):
    if layout == "half":
        return torch.cat([cosines, sines], -1)
    return torch.stack([cosines, sines], -1).flatten(-2)


# ------------------------------------------------------------ fixed features


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("scale", [1.0, 3.5])
def test_gaussian_features_are_cosines_and_sines_of_the_drawn_matrix(layout, scale):
    encoding = pm.Fourier(14, 2, scale=scale, seed=4, layout=layout)
    matrix = fq.gaussian(7, 2, scale=scale, seed=4)
    expected = arranged(*oracles.fourier(POSITIONS, matrix), layout)
    torch.testing.assert_close(encoding(oracles.tensor(POSITIONS)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("scale", [1.0, 8.0])
@pytest.mark.parametrize("bands", ["linear", "octaves"])
def test_banded_features_give_each_axis_its_own_bands(bands, scale, layout):
    """Perceiver: evenly from pi to scale pi. NeRF: doubling from scale pi on."""
    if bands == "linear":
        row = [math.pi * (1 + (scale - 1) * i / 2) for i in range(3)]
    else:
        row = [math.pi * scale * 2**i for i in range(3)]
    matrix = [row + [0.0] * 3, [0.0] * 3 + row]
    encoding = pm.Fourier(12, 2, bands=bands, scale=scale, layout=layout)
    expected = arranged(*oracles.fourier(POSITIONS, matrix), layout)
    torch.testing.assert_close(encoding(oracles.tensor(POSITIONS)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bands", ["gaussian", "linear", "octaves"])
def test_products_of_fourier_features_depend_on_differences_only(bands):
    encoding = pm.Fourier(24, 2, bands=bands, scale=2.0)
    p = oracles.tensor(POSITIONS)
    shift = torch.tensor([0.37, -1.21], dtype=torch.float64)
    still, moved = encoding(p) @ encoding(p).T, encoding(p + shift) @ encoding(p + shift).T
    torch.testing.assert_close(moved, still, rtol=0, atol=1e-11)
    torch.testing.assert_close(still.diagonal(), torch.full((4,), 12.0).double())


def test_fourier_features_are_fixed_by_their_seed_and_hold_nothing():
    positions = pm.normalised_grid(3, 5)
    one, same, other = (pm.Fourier(8, 2, seed=seed)(positions) for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.allclose(one, other)
    assert one.shape == (15, 8) and one.dtype == torch.float32
    encoding = pm.Fourier(8, 2)
    assert not list(encoding.parameters()) and not list(encoding.buffers())


# ------------------------------------------------------------ learned features


def learned_parts(encoding, axes, features, hidden, dim):
    """The parameters by their shapes, which are all different."""
    by_shape = {tuple(p.shape): p for p in encoding.parameters()}
    assert len(by_shape) == 5
    pairs = features // 2
    frequencies = by_shape.get((axes, pairs))
    frequencies = by_shape[(pairs, axes)].T if frequencies is None else frequencies
    rest = [by_shape[s] for s in ((hidden, features), (hidden,), (dim, hidden), (dim,))]
    return [part.detach() for part in (frequencies, *rest)]


@pytest.mark.parametrize("axes", [1, 2])
def test_learned_fourier_is_the_published_network(axes):
    """Li et al. 2021, equation 2: the root of the count of features, cosines and sines together."""
    torch.manual_seed(0)
    encoding = pm.LearnedFourier(4, axes, features=10, hidden=7, scale=2.0).double()
    positions = torch.rand(6, axes, dtype=torch.float64) * 2 - 1
    expected = oracles.learned_fourier(positions, *learned_parts(encoding, axes, 10, 7, 4))
    torch.testing.assert_close(encoding(positions), expected, rtol=1e-10, atol=1e-12)


def test_learned_fourier_starts_at_the_asked_sharpness():
    torch.manual_seed(0)
    encoding = pm.LearnedFourier(4, 3, features=4000, hidden=7, scale=5.0)
    values = learned_parts(encoding, 3, 4000, 7, 4)[0].double().flatten().abs()
    within = [(values < 5 * z).double().mean().item() for z in (0.5, 1.0, 1.5, 2.0)]
    assert within == pytest.approx([0.383, 0.683, 0.866, 0.954], abs=0.025)


def test_learned_fourier_trains_every_parameter_and_its_positions():
    encoding = pm.LearnedFourier(4, 2, features=10, hidden=7).double()
    positions = oracles.tensor(POSITIONS).requires_grad_()
    encoding(positions).square().sum().backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in encoding.parameters())
    assert torch.isfinite(positions.grad).all() and (positions.grad != 0).any()


def test_learned_fourier_takes_any_leading_shape():
    encoding = pm.LearnedFourier(5, 2)
    positions = torch.rand(3, 4, 2)
    got = encoding(positions)
    assert got.shape == (3, 4, 5)
    torch.testing.assert_close(got[1], encoding(positions[1]), rtol=1e-5, atol=1e-6)
    assert encoding(positions[:, :0]).shape == (3, 0, 5)


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.Sinusoidal(0), "dim"),
        (lambda: pm.Sinusoidal(7, 2), "dim"),
        (lambda: pm.Sinusoidal(8, 0), "axes"),
        (lambda: pm.Sinusoidal(8, base=-1.0), "base"),
        (lambda: pm.Sinusoidal(8, base=math.nan), "base"),
        (lambda: pm.Sinusoidal(8, layout="interleave"), "layout"),
        (lambda: pm.Learned(0, 5), "dim"),
        (lambda: pm.Learned(4, 0), "sizes"),
        (lambda: pm.Learned(4, (3, -1)), "sizes"),
        (lambda: pm.Learned(4, ()), "sizes"),
        (lambda: pm.Learned(4, 5, std=-0.1), "std"),
        (lambda: pm.Fourier(7, 1), "dim"),
        (lambda: pm.Fourier(0, 1), "dim"),
        (lambda: pm.Fourier(10, 2, bands="linear"), "dim"),
        (lambda: pm.Fourier(10, 2, bands="octaves"), "dim"),
        (lambda: pm.Fourier(8, 0), "axes"),
        (lambda: pm.Fourier(8, 2, bands="gauss"), "bands"),
        (lambda: pm.Fourier(8, 2, layout="halves"), "layout"),
        (lambda: pm.Fourier(8, 2, scale=0.0), "scale"),
        (lambda: pm.Fourier(8, 2, scale=math.nan), "scale"),
        (lambda: pm.LearnedFourier(0, 2), "dim"),
        (lambda: pm.LearnedFourier(8, 0), "axes"),
        (lambda: pm.LearnedFourier(8, 2, features=5), "features"),
        (lambda: pm.LearnedFourier(8, 2, hidden=0), "hidden"),
        (lambda: pm.LearnedFourier(8, 2, scale=-1.0), "scale"),
    ],
)
def test_additive_encodings_refuse_impossible_widths_and_misspelt_names(make, name):
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize(
    "encoding",
    [pm.Sinusoidal(8, 2), pm.Learned(8, (3, 4)), pm.Fourier(8, 2), pm.LearnedFourier(8, 2)],
    ids=lambda encoding: type(encoding).__name__,
)
@pytest.mark.parametrize(
    "positions",
    [
        torch.zeros(5, 1),
        torch.zeros(5, 3),
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(5, 2, dtype=torch.bool),
        torch.zeros(5, 2, dtype=torch.complex64),
    ],
    ids=["one axis", "three axes", "no tokens", "bool", "complex"],
)
def test_additive_encodings_refuse_positions_of_another_kind(encoding, positions):
    with pytest.raises(ValueError, match="positions"):
        encoding(positions)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("row", [[3, 0], [0, 4], [-1, 0], [0, -1], [0, 999]])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_learned_table_never_wraps_or_clamps_a_position_outside(joint, row, dtype):
    encoding = pm.Learned(8, (3, 4), joint=joint)
    wrong = next(p for p, size in zip(row, (3, 4), strict=True) if not 0 <= p < size)
    with pytest.raises(ValueError, match="size") as error:
        encoding(torch.tensor([[1, 2], row], dtype=dtype))
    assert str(wrong) in str(error.value)
    assert "3" in str(error.value) and "4" in str(error.value)


@given(past=st.floats(1e-3, 100), low=st.booleans())
def test_learned_table_ends_half_a_cell_outside(past, low):
    encoding = pm.Learned(2, 6)
    encoding(torch.tensor([[-0.5], [5.5]]))
    with pytest.raises(ValueError, match="size"):
        encoding(torch.tensor([[-0.5 - past if low else 5.5 + past]]).double())


def test_learned_table_refuses_a_position_that_is_no_number():
    with pytest.raises(ValueError, match="position"):
        pm.Learned(2, 6)(torch.tensor([[math.nan]]))


@pytest.mark.parametrize(
    "positions", [[[50]], [[0], [49]], [[0], [15], [16], [49]], [[16]]], ids=str
)
def test_every_call_past_the_table_meets_the_same_error(positions):
    encoding = pm.Learned(4, 16)
    assert encoding(pm.sequence(16)).shape == (16, 4)
    with pytest.raises(ValueError, match="16"):
        encoding(torch.tensor(positions))
