"""Tables of relative positions for another window: geometric as BEiT and timm, and by any rule."""

import oracles_resizing as oracles
import pytest
import torch
from timm.layers import pos_embed_rel
from torch.nn import functional as F

import posenc_mm as pm
from posenc_mm.resizing import RULES, resize_bias_table

WINDOWS = [
    ((7, 7), (12, 12)),
    ((3, 5), (6, 4)),
    ((12, 12), (7, 7)),
    ((4, 6), (4, 8)),
    ((3, 4), (20, 9)),
]
windows = pytest.mark.parametrize(("source", "target"), WINDOWS)
extras = pytest.mark.parametrize("extra", [0, 3])
# timm's interpolator indexes with a list, and searches in a tensor that is not contiguous.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:timm.layers.interpolate")


def drawn(window, extra=0, heads=4, dtype=torch.float32):
    return torch.randn((2 * window[0] - 1) * (2 * window[1] - 1) + extra, heads, dtype=dtype)


def timms(table, source, target, extra):
    count = (2 * target[0] - 1) * (2 * target[1] - 1) + extra
    shape = (count, table.shape[1])
    return pos_embed_rel.resize_rel_pos_bias_table(table, target, shape, source)


def assert_near(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@windows
@extras
def test_geometric_is_timms(source, target, extra):
    table = drawn(source, extra)
    found = resize_bias_table(table, source, target, extra=extra)
    assert_near(found, timms(table, source, target, extra), 5e-6)
    assert torch.equal(found[len(found) - extra :], table[len(table) - extra :])


@windows
@extras
def test_geometric_cubic_is_timms_with_scipy(monkeypatch, source, target, extra):
    interpolate = pytest.importorskip("scipy.interpolate")
    calls = []

    def interp2d(x, y, z, kind):
        # Gone from SciPy 1.14 on, which names this in its place for grids.
        calls.append(kind)
        spline = interpolate.RectBivariateSpline(y, x, z, kx=3, ky=3, s=0)
        return lambda dx, dy: spline(dy, dx)

    monkeypatch.setattr(interpolate, "interp2d", interp2d)
    monkeypatch.setattr(pos_embed_rel, "_USE_SCIPY", True, raising=False)
    table = drawn(source, extra)
    wanted = timms(table, source, target, extra)
    assert calls == ["cubic"] * 4
    found = resize_bias_table(table, source, target, rule="geometric_cubic", extra=extra)
    assert_near(found, wanted, 1e-5)


@pytest.mark.parametrize(("source", "target"), [*WINDOWS, ((1, 4), (5, 3)), ((2, 2), (9, 1))])
def test_geometric_is_its_formula(source, target):
    table = drawn(source, heads=2, dtype=torch.float64)
    grid = table.reshape(2 * source[0] - 1, 2 * source[1] - 1, 2)
    found = resize_bias_table(grid, source, target)
    for head in range(2):
        wanted = oracles.geometric(grid[..., head].tolist(), source, target)
        assert_near(found[..., head], torch.tensor(wanted, dtype=torch.float64), 1e-9)


def test_the_spline_keeps_what_a_cubic_is():
    line = torch.linspace(-1, 1, 9, dtype=torch.float64)
    places = torch.tensor(oracles.geometric_places(5, 9), dtype=torch.float64) / 8
    table = 2 * places**3 - places**2 + places
    found = resize_bias_table(table[:, None], 5, 9, rule="geometric_cubic")[:, 0]
    at = (torch.arange(-8.0, 9.0, dtype=torch.float64) / 8).clamp(places[0], places[-1])
    assert_near(found, 2 * at**3 - at**2 + at, 1e-10)
    assert len(line) == len(table)


@pytest.mark.parametrize("size", [(7, 12), (12, 7)])
@extras
def test_swins_is_bicubic_as_its_authors_and_timm_do_it(size, extra):
    source, target = (size[0],) * 2, (size[1],) * 2
    table = drawn(source, extra)
    count = (2 * size[1] - 1) ** 2 + extra
    wanted = pos_embed_rel.resize_rel_pos_bias_table_simple(table, target, (count, 4))
    assert_near(resize_bias_table(table, source, target, rule="swin", extra=extra), wanted, 2e-5)


def test_tiny_vits_is_timms():
    table = drawn((7, 7))
    wanted = pos_embed_rel.resize_rel_pos_bias_table_levit(table, (23**2, 4))
    assert_near(resize_bias_table(table, (7, 7), (12, 12), rule="timm"), wanted, 5e-6)


@pytest.mark.parametrize("rule", ["geometric", "geometric_cubic", *sorted(set(RULES) - {"vjepa2"})])
def test_the_offset_of_zero_stays_in_the_centre(rule):
    table = torch.arange(13.0, dtype=torch.float64)[:, None, None].expand(13, 13, 2)
    found = resize_bias_table(table, 2 * (7,), 2 * (12,), rule=rule)
    assert found.shape == (23, 23, 2)
    # DINOv2's 0.1 moves every centre a little.
    if rule != "dinov2":
        assert_near(found[11, 11], torch.full((2,), 6.0, dtype=torch.float64), 1e-9)
    assert_near(found, found[:, :1, :1].expand(23, 23, 2), 1e-9)


def test_geometric_keeps_near_offsets_where_bicubic_stretches_them():
    distance = torch.arange(-6.0, 7.0).abs()[:, None]
    table = -0.1 * distance
    kept = resize_bias_table(table, 7, 12)
    stretched = resize_bias_table(table, 7, 12, rule="bicubic")
    assert kept[12].item() == pytest.approx(-0.1, abs=1e-6)
    assert stretched[12].item() > -0.07


@pytest.mark.parametrize("target", [3, 9])
def test_decomposed_tables_are_sams(target):
    sam = pytest.importorskip("timm.models.vision_transformer_sam")
    rows = torch.randn(2 * 5 - 1, 6)
    found = resize_bias_table(rows, 5, target, rule="bilinear")
    distance = torch.arange(target)[:, None] - torch.arange(target) + target - 1
    assert_near(found[distance], sam.get_rel_pos(target, target, rows), 1e-5)
    wanted = F.interpolate(rows.T[None], size=2 * target - 1, mode="linear")[0].T
    assert_near(found, wanted, 1e-5)


def test_windows_of_one_axis_and_three():
    for source, target in (((4,), (7,)), ((2, 3, 4), (3, 3, 6))):
        shape = [2 * size - 1 for size in source]
        table = torch.randn(*shape, 2, dtype=torch.float64)
        found = resize_bias_table(table, source, target)
        assert found.shape == (*[2 * size - 1 for size in target], 2)
        rows = resize_bias_table(table.flatten(0, -2), source, target)
        assert torch.equal(rows, found.flatten(0, -2))
        for axis, (old, new) in enumerate(zip(source, target, strict=True)):
            one = torch.arange(1.0 - old, old).abs().double()
            line = one.reshape([-1 if k == axis else 1 for k in range(len(source) + 1)])
            there = resize_bias_table(line.expand(*shape, 2).contiguous(), source, target)
            middle = [n - 1 for n in target]
            middle[axis] = slice(None)
            alone = resize_bias_table(one[:, None], old, new) if old != new else None
            if alone is not None:
                assert_near(there[tuple(middle)][:, 0], alone[:, 0], 1e-9)


def test_the_same_window_returns_the_table_and_another_shape_is_refused():
    table = drawn((3, 5), 3)
    assert resize_bias_table(table, (3, 5), (3, 5), extra=3) is table
    for options in ({}, {"extra": 1}):
        with pytest.raises(ValueError, match="45 offsets"):
            resize_bias_table(table, (3, 5), (4, 5), **options)
    with pytest.raises(ValueError, match="45 offsets"):
        resize_bias_table(table[:45].reshape(9, 5, 4), (3, 5), (4, 5))
    with pytest.raises(ValueError, match="same number of axes"):
        resize_bias_table(table, (3, 5), 4, extra=3)
    with pytest.raises(ValueError, match="geometric"):
        resize_bias_table(table, (3, 5), (4, 5), rule="geometrik", extra=3)
    with pytest.raises(ValueError, match="at least 3 cells"):
        resize_bias_table(drawn((2, 5)), (2, 5), (4, 5), rule="geometric_cubic")


def test_tables_of_another_window_do_not_load():
    bias = pm.RelativeBias(3, (7, 7))
    with pytest.raises(RuntimeError, match="size mismatch"):
        pm.RelativeBias(3, (12, 12)).load_state_dict(bias.state_dict())
    assert set(bias.state_dict()) == {"table"}
