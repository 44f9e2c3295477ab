"""Added to the tokens: sinusoids and learned tables equal their published definitions."""

import math

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm


def points(count, axes, low=-40.0, high=40.0, seed=0):
    noise = torch.rand(count, axes, generator=torch.Generator().manual_seed(seed))
    return (low + (high - low) * noise).double()


# ------------------------------------------------------------ sinusoids


@given(
    axes=st.integers(1, 3),
    block=st.integers(1, 9),
    base=st.sampled_from([10.0, 1e4]),
    layout=st.sampled_from(["interleaved", "half"]),
    endpoint=st.booleans(),
)
def test_sinusoid_of_any_width_is_the_published_one(axes, block, base, layout, endpoint):
    encoding = pm.Sinusoidal(axes * block, axes, base=base, layout=layout, endpoint=endpoint)
    positions = points(7, axes)
    expected = oracles.sinusoid(positions, axes * block, base, layout, endpoint)
    torch.testing.assert_close(encoding(positions), expected, rtol=0, atol=1e-11)


@given(position=st.integers(-10_000_000, 10_000_000))
def test_sinusoid_is_exact_at_far_integer_positions(position):
    got = pm.Sinusoidal(16)(torch.tensor([[position]]))
    assert got.dtype == torch.float32
    expected = oracles.sinusoid([[position]], 16)
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-6)


def test_odd_width_ends_with_a_sine():
    row = pm.Sinusoidal(29)(torch.tensor([[7]]))[0].tolist()
    assert len(row) == 29
    assert row[0] == pytest.approx(0.656987, abs=1e-6)
    assert row[1] == pytest.approx(0.753902, abs=1e-6)
    assert row[27] == pytest.approx(0.999998, abs=1e-6)
    assert row[28] == pytest.approx(0.000962, abs=1e-6)
    for dim in (1, 3):
        far = pm.Sinusoidal(dim)(pm.sequence(10_000))
        expected = oracles.sinusoid([[9_999]], dim)[0]
        torch.testing.assert_close(far[-1].double(), expected, rtol=0, atol=1e-6)


def test_image_sinusoid_puts_rows_before_columns():
    """Sine and cosine of the row, then of the column; on 4 x 4 too, where shapes hide it."""
    for height, width in ((3, 4), (4, 4)):
        table = pm.Sinusoidal(8, axes=2)(pm.grid(height, width)).unflatten(0, (height, width))
        rows, columns = table.split(4, dim=-1)
        assert torch.equal(rows, rows[:, :1].expand_as(rows))
        assert torch.equal(columns, columns[:1].expand_as(columns))
        assert rows[2, 0, 0].item() == pytest.approx(math.sin(2), abs=1e-6)
        assert columns[0, 3, 1].item() == pytest.approx(math.cos(3), abs=1e-6)


def test_half_layout_puts_all_sines_before_all_cosines():
    row, column = 2.0, 5.0
    got = pm.Sinusoidal(8, axes=2, layout="half")(torch.tensor([[row, column]]).double())[0]
    angles = [row, row / 100, column, column / 100]
    expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    torch.testing.assert_close(got, oracles.tensor(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_sinusoids_have_unit_pairs_and_relative_products(layout):
    """Vaswani et al.: moving both positions leaves the product of two codes alone."""
    encoding = pm.Sinusoidal(24, axes=3, layout=layout)
    p, q, shift = points(5, 3), points(5, 3, seed=1), points(1, 3, seed=2)
    torch.testing.assert_close(encoding(p).square().sum(-1), torch.full((5,), 12.0).double())
    still, moved = encoding(p) @ encoding(q).T, encoding(p + shift) @ encoding(q + shift).T
    torch.testing.assert_close(moved, still, rtol=0, atol=1e-11)


def test_sinusoid_per_sample_and_empty_shapes():
    encoding = pm.Sinusoidal(10, axes=2)
    positions = points(15, 2).reshape(3, 5, 2)
    one_by_one = torch.stack([encoding(sample) for sample in positions])
    assert torch.equal(encoding(positions), one_by_one)
    assert encoding(positions[:, :0]).shape == (3, 0, 10)
    assert encoding(positions[:0]).shape == (0, 5, 10)


def test_fixed_encodings_hold_no_tensors_and_have_no_length():
    """Nothing to save, so a checkpoint fits every length, and a call leaves nothing behind."""
    encoding = pm.Sinusoidal(6)
    far = encoding(pm.sequence(700))
    assert not list(encoding.state_dict()) and not list(encoding.buffers())
    assert torch.equal(pm.Sinusoidal(6)(pm.sequence(500)), far[:500])
    assert torch.equal(encoding(pm.sequence(1, offset=699)), far[699:])


# ------------------------------------------------------------ learned tables


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3), data=st.data())
def test_learned_table_between_its_cells(sizes, data):
    """Up to half a cell outside the edge value holds, as when an image is resized."""
    encoding = pm.Learned(3, tuple(sizes)).double()
    place = st.tuples(*[st.floats(-0.5, size - 0.5) for size in sizes])
    positions = data.draw(st.lists(place, min_size=1, max_size=4))
    got = encoding(oracles.tensor(positions))
    expected = oracles.table_lookup(encoding.table.detach(), positions)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float64])
def test_learned_table_at_its_cells(dtype):
    encoding = pm.Learned(5, (3, 4)).double()
    got = encoding(pm.grid(3, 4).to(dtype))
    assert torch.equal(got, encoding.table.detach().reshape(12, 5))


def test_factorised_table_sums_one_table_per_axis():
    encoding = pm.Learned(5, (3, 4, 2), joint=False).double()
    assert [tuple(t.shape) for t in encoding.tables] == [(3, 5), (4, 5), (2, 5)]
    positions = points(6, 3, -0.5, 1.5)
    expected = sum(
        oracles.table_lookup(table.detach(), positions[:, axis : axis + 1])
        for axis, table in enumerate(encoding.tables)
    )
    torch.testing.assert_close(encoding(positions), expected, rtol=0, atol=1e-12)
    t, r, c = (table.detach() for table in encoding.tables)
    whole = (t[:, None, None] + r[:, None] + c).reshape(24, 5)
    torch.testing.assert_close(encoding(pm.grid(3, 4, 2)), whole, rtol=0, atol=1e-15)


def test_learned_table_resized_from_a_grid_that_is_not_square():
    """4 x 9 is 36 cells, as 6 x 6 is: rows and columns must not be guessed from the count."""
    encoding = pm.Learned(2, (4, 9)).double()
    with torch.no_grad():
        encoding.table.copy_(pm.grid(4, 9).reshape(4, 9, 2))
    assert encoding.sizes == (4, 9)
    resized = encoding(pm.rescale(pm.grid(8, 18), (8, 18), encoding.sizes)).reshape(8, 18, 2)
    rows, columns = resized.unbind(-1)
    assert columns[0, :5].tolist() == [0, 0.25, 0.75, 1.25, 1.75]
    assert torch.equal(columns, columns[:1].expand(8, 18)) and (columns.diff(dim=1) >= 0).all()
    assert torch.equal(rows, rows[:, :1].expand(8, 18)) and (rows.diff(dim=0) >= 0).all()
    same = encoding(pm.rescale(pm.grid(4, 9), (4, 9), encoding.sizes))
    assert torch.equal(same, encoding.table.detach().reshape(36, 2))


@pytest.mark.parametrize("target", [(30, 40), (63, 50), (7, 80)])
def test_learned_resize_equals_bilinear_half_pixel_resampling(target):
    encoding = pm.Learned(3, (50, 63)).double()
    image = encoding.table.detach().permute(2, 0, 1)[None]
    expected = torch.nn.functional.interpolate(
        image, target, mode="bilinear", align_corners=False, antialias=False
    )
    got = encoding(pm.rescale(pm.grid(*target).double(), target, encoding.sizes))
    got = got.reshape(*target, 3).permute(2, 0, 1)[None]
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_learned_init_has_the_asked_spread():
    """A normal one; it may be cut off at two deviations, which moves these shares by 5 percent."""
    torch.manual_seed(0)
    table = pm.Learned(64, 400, std=0.3).table.detach().double().flatten()
    within = [(table.abs() < 0.3 * z).double().mean().item() for z in (0.5, 1.0, 1.5)]
    assert within == pytest.approx([0.383, 0.683, 0.866], rel=0.06)
    assert table.quantile(0.5).abs() < 0.01


@pytest.mark.parametrize("joint", [True, False])
def test_learned_gradient_reaches_only_the_cells_read(joint):
    encoding = pm.Learned(2, (3, 4), joint=joint).double()
    encoding(torch.tensor([[1, 2], [1, 2]])).sum().backward()
    grads = [parameter.grad for parameter in encoding.parameters()]
    if joint:
        expected = [torch.zeros(3, 4, 2).double()]
        expected[0][1, 2] = 2
    else:
        expected = [torch.zeros(3, 2).double(), torch.zeros(4, 2).double()]
        expected[0][1], expected[1][2] = 2, 2
    assert all(map(torch.equal, grads, expected))
