"""Rotations of queries and keys: the laws, then the published definition."""

import math

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm

LAYOUTS = ["interleaved", "half"]
EITHER = st.sampled_from(LAYOUTS)
PLACES = st.floats(-1000, 1000)


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def mixed(head_dim, heads, axes, layout, seed=0):
    torch.manual_seed(seed)
    return pm.MixedRotary(head_dim, heads, axes, layout=layout).double()


def encodings(axes, layout):
    """Axial, partial, and mixed rotations of 12 channels for 3 heads."""
    return [
        pm.Rotary(12, axes, layout=layout),
        pm.Rotary(12, axes, layout=layout, rotary_dim=2 * axes, freq_dim=8 * axes),
        mixed(12, 3, axes, layout),
    ]


# ------------------------------------------------------------ laws


@given(axes=st.integers(1, 3), layout=EITHER, far=st.floats(-1e7, 1e7))
def test_rotation_keeps_the_length_of_every_pair(axes, layout, far):
    x = noise(2, 3, 5, 12)
    for encoding in encodings(axes, layout):
        turned = pm.rotate(x, encoding(noise(5, axes) * far))
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=0)
        pairs = encoding(torch.zeros(5, axes)).cos.shape[-1]
        for i in range(pairs):
            pair = [2 * i, 2 * i + 1] if layout == "interleaved" else [i, i + pairs]
            before, after = x[..., pair].norm(dim=-1), turned[..., pair].norm(dim=-1)
            torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-14)


@given(axes=st.integers(1, 3), layout=EITHER, data=st.data())
def test_scores_depend_on_the_difference_of_each_axis_only(axes, layout, data):
    shift = oracles.tensor([data.draw(st.lists(PLACES, min_size=axes, max_size=axes))])
    q, k = noise(2, 3, 5, 12), noise(2, 3, 4, 12, seed=1)
    p, r = noise(5, axes, seed=2) * 30, noise(4, axes, seed=3) * 30
    for encoding in encodings(axes, layout):
        scores = [
            pm.rotate(q, encoding(p + s)) @ pm.rotate(k, encoding(r + s)).mT for s in (0, shift)
        ]
        torch.testing.assert_close(scores[1], scores[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_scores_depend_on_every_axis(axes, layout):
    q, k = noise(1, 3, 1, 12), noise(1, 3, 1, 12, seed=1)
    for encoding in encodings(axes, layout):
        still = q @ k.mT
        for axis in range(axes):
            step = torch.zeros(1, axes, dtype=torch.float64)
            step[0, axis] = 1.0
            moved = pm.rotate(q, encoding(step)) @ k.mT
            assert ((moved - still).abs() > 1e-3).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_position_zero_changes_nothing(axes, layout):
    x = noise(2, 3, 5, 12)
    for encoding in encodings(axes, layout):
        assert torch.equal(pm.rotate(x, encoding(torch.zeros(5, axes, dtype=torch.int64))), x)


@given(axes=st.integers(1, 3), layout=EITHER, data=st.data())
def test_turning_twice_is_turning_by_the_sum(axes, layout, data):
    rows = st.lists(PLACES, min_size=axes, max_size=axes)
    p, q = oracles.tensor([data.draw(rows)]), oracles.tensor([data.draw(rows)])
    x = noise(2, 3, 1, 12)
    for encoding in encodings(axes, layout):
        twice = pm.rotate(pm.rotate(x, encoding(p)), encoding(q))
        torch.testing.assert_close(twice, pm.rotate(x, encoding(p + q)), rtol=0, atol=1e-10)
        back = pm.rotate(pm.rotate(x, encoding(p)), encoding(p).inverse())
        torch.testing.assert_close(back, x, rtol=0, atol=1e-13)
        away = pm.rotate(x, encoding(-p))
        torch.testing.assert_close(away, pm.rotate(x, encoding(p).inverse()), rtol=0, atol=1e-13)


# ------------------------------------------------------------ the published definition


@given(
    axes=st.integers(1, 3),
    pairs=st.integers(1, 3),
    rest=st.integers(0, 5),
    wider=st.integers(0, 4),
    layout=EITHER,
    batched=st.booleans(),
)
def test_rotation_of_any_width_is_the_published_one(axes, pairs, rest, wider, layout, batched):
    rotary_dim, bases = 2 * axes * pairs, (10.0, 1e4, 500.0)[:axes]
    freq_dim = rotary_dim + 2 * axes * wider
    encoding = pm.Rotary(
        rotary_dim + rest,
        axes,
        base=bases,
        layout=layout,
        rotary_dim=rotary_dim,
        freq_dim=freq_dim,
    )
    matrix = oracles.rope_matrix(rotary_dim, axes, bases, freq_dim)
    positions = noise(3, 5, axes) * 20 if batched else noise(5, axes) * 20
    x = noise(3, 2, 5, rotary_dim + rest)
    turned = oracles.turning_angles(positions.reshape(-1, axes), matrix)
    angles = turned.reshape(*positions.shape[:-1], rotary_dim // 2)
    rotation = encoding(positions)
    assert rotation.layout == layout and rotation.cos.shape == angles.shape
    torch.testing.assert_close(rotation.cos, angles.cos(), rtol=0, atol=1e-12)
    torch.testing.assert_close(rotation.sin, angles.sin(), rtol=0, atol=1e-12)
    got = pm.rotate(x, rotation)
    torch.testing.assert_close(got, oracles.rotate(x, angles, layout), rtol=0, atol=1e-11)
    assert torch.equal(got[..., rotary_dim:], x[..., rotary_dim:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_explicit_frequencies_turn_the_pairs_as_given(layout):
    """A dense matrix, as for Gaussian frequencies: 5 pairs of a head of 10."""
    matrix = tuple(tuple(row) for row in noise(2, 5).tolist())
    positions, x = noise(7, 2) * 9, noise(3, 2, 7, 10, seed=1)
    got = pm.rotate(x, pm.Rotary(10, 2, layout=layout, frequencies=matrix)(positions))
    expected = oracles.rotate(x, oracles.turning_angles(positions, matrix), layout)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_zero_frequencies_leave_their_pairs_alone(layout):
    """The proportional rotary of Gemma: the slow half of the pairs does not turn at all."""
    row = (1.0, 0.1, 0.0, 0.0)
    positions, x = pm.sequence(5).double(), noise(2, 3, 5, 8)
    got = pm.rotate(x, pm.Rotary(8, layout=layout, frequencies=(row,))(positions))
    still = [4, 5, 6, 7] if layout == "interleaved" else [2, 3, 6, 7]
    assert torch.equal(got[..., still], x[..., still])
    expected = oracles.rotate(x, oracles.turning_angles(positions, [row]), layout)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_mixed_rotation_is_the_published_one(layout, axes, batched):
    encoding = mixed(12, 4, axes, layout)
    assert encoding.frequencies.shape == (4, axes, 6)
    positions, x = (noise(3, 5, axes) if batched else noise(5, axes)) * 9, noise(3, 4, 5, 12)
    samples = positions if batched else positions[None]
    angles = torch.stack([oracles.mixed_angles(p, encoding.frequencies.detach()) for p in samples])
    angles = angles if batched else angles[0]
    rotation = encoding(positions)
    assert rotation.per_head and rotation.cos.shape == angles.shape
    got = pm.rotate(x, rotation)
    expected = oracles.rotate(x, angles, layout, per_head=True)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_a_rotation_are_right(layout):
    encoding, x = mixed(4, 2, 2, layout), noise(2, 2, 3, 4).requires_grad_()
    positions = (noise(3, 2) * 2).requires_grad_()

    def turned(x, positions, frequencies):
        rotation = torch.func.functional_call(encoding, {"frequencies": frequencies}, (positions,))
        return pm.rotate(x, rotation)

    frequencies = encoding.frequencies.detach().requires_grad_()
    assert torch.autograd.gradcheck(turned, (x, positions, frequencies))


@given(position=st.integers(-10_000_000, 10_000_000), layout=EITHER)
def test_rotation_is_exact_at_far_integer_positions(position, layout):
    """In float32 arithmetic the fast pairs would be off by whole radians."""
    rotation = pm.Rotary(16, layout=layout)(torch.tensor([[position]]))
    angles = oracles.turning_angles([[position]], oracles.rope_matrix(16))
    assert rotation.cos.dtype == rotation.sin.dtype == torch.float32
    for got, expected in ((rotation.cos, angles.cos()), (rotation.sin, angles.sin())):
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-6)
    assert math.isfinite(rotation.cos.sum())
