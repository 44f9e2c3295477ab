"""Tables of absolute positions at another size: every rule, against loops, PyTorch and peers."""

import oracles_resizing as oracles
import pytest
import torch
from timm.layers import resample_abs_pos_embed
from torch import nn
from torch.nn import functional as F

from posenc_mm.resizing import RULES, matrix, resize_table, unresize_table

GRIDS = [
    ((1, 1), (2, 3)),
    ((4, 9), (8, 18)),
    ((14, 11), (7, 16)),
    ((5, 3), (1, 7)),
    ((2, 8), (4, 4)),
]
grids = pytest.mark.parametrize(("source", "target"), GRIDS)
rules = pytest.mark.parametrize("name", RULES)
# PyTorch's name of each rule; nearest is left to the loops, as PyTorch rounds at ties.
TORCH = {
    "timm": {"mode": "bicubic", "antialias": True},
    "bicubic": {"mode": "bicubic"},
    "bilinear": {"mode": "bilinear"},
    "mae": {"mode": "bicubic"},
    "deit": {"mode": "bicubic"},
    "swin": {"mode": "bicubic"},
    "dinov2_reg": {"mode": "bicubic", "antialias": True},
    "flexivit": {"mode": "bilinear"},
    "radio": {"mode": "bilinear"},
    "pe": {"mode": "bilinear"},
    "big_vision": {"mode": "bilinear", "align_corners": True},
    "naflex": {"mode": "bilinear", "antialias": True},
    "qwen3": {"mode": "bilinear", "align_corners": True},
    "vjepa2_video": {"mode": "bilinear"},
    "area": {"mode": "area"},
}


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def flat(grid, source, target, rule, **options):
    rows = resize_table(grid.reshape(-1, grid.shape[-1]), source, target, rule=rule, **options)
    return rows.reshape(*target, -1)


def interpolated(grid, **options):
    return F.interpolate(grid.movedim(-1, 0)[None], **options)[0].movedim(0, -1)


def assert_near(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# ------------------------------------------------------------ values


@rules
@grids
def test_every_rule_is_its_formula(name, source, target):
    rule = RULES[name]
    if rule.keep_aspect:
        target = (3 * source[0], 3 * source[1])
    grid = drawn(*source, 2)
    settings = {"antialias": rule.antialias, "align_corners": rule.align_corners}
    settings["offset"] = rule.offset if source != target else 0.0
    for channel in range(2):
        wanted = oracles.resize_grid(grid[..., channel].tolist(), *target, rule.kernel, **settings)
        found = flat(grid, source, target, name)[..., channel]
        assert_near(found, torch.tensor(wanted, dtype=torch.float64))


@pytest.mark.parametrize("name", TORCH)
@grids
def test_rules_are_pytorchs(name, source, target):
    grid = drawn(*source, 3)
    assert_near(flat(grid, source, target, name), interpolated(grid, size=target, **TORCH[name]))


def test_every_rule_but_these_has_a_peer_above():
    assert set(RULES) - set(TORCH) == {"dinov2", "vjepa2", "nearest"}


@grids
def test_dinov2_is_its_scale_factor(source, target):
    grid = drawn(*source, 3)
    factors = tuple((new + 0.1) / old for old, new in zip(source, target, strict=True))
    found = flat(grid, source, target, "dinov2")
    assert_near(found, interpolated(grid, scale_factor=factors, mode="bicubic"))
    assert not torch.allclose(found, flat(grid, source, target, "bicubic")) or source == (1, 1)


def test_a_scale_factor_of_any_size_gives_that_size():
    table = drawn(14 * 14, 1, dtype=torch.float32)
    for n in range(1, 129):
        assert resize_table(table, (14, 14), (n, n), rule="dinov2").shape == (n * n, 1)


def test_vjepa2_keeps_the_aspect_or_refuses():
    grid = drawn(4, 6, 3)
    # One factor for both axes, the root of the ratio of the numbers of patches.
    wanted = interpolated(grid, scale_factor=(8 * 12 / 24) ** 0.5, mode="bicubic")
    assert_near(resize_table(grid, (4, 6), (8, 12), rule="vjepa2"), wanted)
    with pytest.raises(ValueError, match="aspect"):
        resize_table(grid, (4, 6), (6, 4), rule="vjepa2")


@pytest.mark.parametrize("target", [(7, 5), (20, 31), (1, 14)])
def test_big_vision_is_scipys_zoom(target):
    ndimage = pytest.importorskip("scipy.ndimage")
    grid = drawn(14, 9, 2)
    zoom = (target[0] / 14, target[1] / 9, 1)
    wanted = torch.from_numpy(ndimage.zoom(grid.numpy(), zoom, order=1))
    assert_near(resize_table(grid, (14, 9), target, rule="big_vision"), wanted)


@pytest.mark.parametrize("axes", [1, 3])
def test_one_axis_and_three_are_linear_and_trilinear(axes):
    source, target = (3, 5, 4)[:axes], (6, 2, 7)[:axes]
    grid = drawn(*source, 2)
    wanted = interpolated(grid, size=target, mode="linear" if axes == 1 else "trilinear")
    assert_near(resize_table(grid, source, target, rule="bilinear"), wanted)


def test_nearest_is_pytorchs_exact_but_for_its_rounding_at_ties():
    for n in range(1, 20):
        line = torch.arange(float(n), dtype=torch.float64)[None, None]
        for m in range(1, 20):
            wanted = F.interpolate(line, size=m, mode="nearest-exact")[0, 0]
            found = matrix(n, m, "nearest").argmax(1)
            tie = torch.tensor([(2 * i + 1) * n % (2 * m) == 0 for i in range(m)])
            assert torch.equal(found[~tie].double(), wanted[~tie])


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_timm_is_timms_function_bfloat16_included(prefix):
    for dtype, atol in ((torch.float32, 2e-6), (torch.bfloat16, 0.04)):
        table = drawn(1, prefix + 36, 8).to(dtype)
        found = resize_table(table, (4, 9), (8, 5), prefix=prefix)
        wanted = resample_abs_pos_embed(table, [8, 5], [4, 9], prefix)
        assert found.dtype == dtype
        assert_near(found, wanted, atol)


def test_transformers_resizes_dinov2_without_the_offset():
    found = pytest.importorskip("transformers.models.dinov2.modeling_dinov2")
    config = found.Dinov2Config(hidden_size=8, image_size=70, patch_size=14, num_attention_heads=2)
    peer = found.Dinov2Embeddings(config).double()
    nn.init.normal_(peer.position_embeddings)
    wanted = peer.interpolate_pos_encoding(torch.zeros(1, 1 + 3 * 8, 8), 3 * 14, 8 * 14)
    table = peer.position_embeddings
    assert_near(resize_table(table, (5, 5), (3, 8), rule="bicubic", prefix=1), wanted, 1e-5)


def test_rows_and_columns_of_a_table_stay_what_they_are():
    row, column = torch.meshgrid(torch.arange(4.0), torch.arange(9.0), indexing="ij")
    for prefix in (1, 5):
        table = torch.cat([torch.randn(prefix, 2), torch.stack([row, column], -1).reshape(36, 2)])
        for name in set(RULES) - {"vjepa2"}:
            out = resize_table(table, (4, 9), (8, 18), rule=name, prefix=prefix)
            assert out.shape == (prefix + 144, 2)
            assert torch.equal(out[:prefix], table[:prefix])
            cells = out[prefix:].reshape(8, 18, 2).double()
            assert_near(cells[..., 1], cells[:1, :, 1].expand(8, 18), 2e-6)
            assert_near(cells[..., 0], cells[:, :1, 0].expand(8, 18), 2e-6)
            if name != "timm" and RULES[name].kernel != "cubic":
                assert (cells[0, 1:, 1] >= cells[0, :-1, 1] - 1e-6).all()
        exact = resize_table(table, (4, 9), (8, 18), rule="bilinear", prefix=prefix)
        assert exact[prefix : prefix + 5, 1].tolist() == [0, 0.25, 0.75, 1.25, 1.75]
    assert resize_table(torch.randn(50 * 63, 2), (50, 63), (30, 40)).shape == (1200, 2)


def test_the_number_of_cells_says_nothing():
    table = torch.randn(1, 16, 3)
    same = resize_table(table, (2, 8), (2, 8))
    other = resize_table(table, (2, 8), (4, 4))
    assert same is table
    assert_near(other, resample_abs_pos_embed(table, [4, 4], [2, 8], 0), 1e-6)
    assert not torch.allclose(other, table)


def test_tokens_stay_in_order_of_rows():
    row, column = torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="ij")
    table = torch.stack([row, column], -1).reshape(12, 2)
    out = resize_table(table, (3, 4), (6, 8), rule="nearest")
    for r in range(6):
        for c in range(8):
            assert out[r * 8 + c].tolist() == [r // 2, c // 2]
    square = resize_table(table[:9].reshape(3, 3, 2), (3, 3), (6, 6), rule="nearest")
    swapped = table[:9].reshape(3, 3, 2).transpose(0, 1)
    assert torch.equal(
        resize_table(swapped, (3, 3), (6, 6), rule="nearest"), square.transpose(0, 1)
    )


# ------------------------------------------------------------ laws


@rules
def test_weights_sum_to_one(name):
    for n, m in ((1, 4), (5, 5), (16, 7), (7, 16), (3, 1)):
        found = matrix(n, m, name)
        assert found.shape == (m, n) and found.dtype == torch.float64
        assert_near(found.sum(1), torch.ones(m, dtype=torch.float64))


def test_interpolation_shrinks_a_rough_table_unless_told_otherwise():
    table = torch.randn(14 * 14, 400)
    cases = {("bilinear", 28): 0.66, ("bicubic", 28): 0.87, ("timm", 7): 0.42, ("mae", 7): 0.69}
    for (name, size), left in cases.items():
        out = resize_table(table, (14, 14), (size, size), rule=name)
        kept = resize_table(table, (14, 14), (size, size), rule=name, keep_norm=True)
        rms = [t.square().mean().sqrt().item() for t in (table, out, kept)]
        assert rms[1] / rms[0] == pytest.approx(left, abs=0.02)
        assert rms[2] == pytest.approx(rms[0], rel=1e-5)
        assert_near(kept / rms[0], out / rms[1], 1e-4)
    zero = resize_table(torch.zeros(4, 3), (2, 2), (3, 3), keep_norm=True)
    assert torch.equal(zero, torch.zeros(9, 3))


@pytest.mark.parametrize("shape", [(2 + 12, 5), (1, 2 + 12, 5), (3, 4, 5), (1, 3, 4, 5)])
@pytest.mark.parametrize("name", ["timm", "bilinear", "dinov2", "qwen3", "area", "nearest"])
def test_what_was_enlarged_comes_back(shape, name):
    table, prefix = drawn(*shape), 2 if 14 in shape else 0
    larger = resize_table(table, (3, 4), (6, 9), rule=name, prefix=prefix)
    back = unresize_table(larger, (3, 4), (6, 9), rule=name, prefix=prefix)
    assert back.shape == table.shape
    assert_near(back, table, 1e-11)
    if prefix:
        assert torch.equal(back.reshape(-1, 5)[:2], table.reshape(-1, 5)[:2])


def test_what_was_lost_is_refused_or_comes_near():
    table = drawn(6 * 9, 5)
    less = resize_table(table, (6, 9), (3, 4))
    with pytest.raises(ValueError, match=r"keeps \(3, 4\) of \(6, 9\)"):
        unresize_table(less, (6, 9), (3, 4))
    near = unresize_table(less, (6, 9), (3, 4), exact=False)
    whole = torch.kron(matrix(6, 3), matrix(9, 4))
    assert_near(near, torch.linalg.lstsq(whole, less, driver="gelsd").solution, 1e-10)
    assert_near(resize_table(near, (6, 9), (3, 4)), less, 1e-11)


def test_gradients_are_those_of_the_product():
    table = drawn(7, 2).requires_grad_()
    options = {"rule": "timm", "prefix": 1, "keep_norm": True}
    assert torch.autograd.gradcheck(lambda t: resize_table(t, (2, 3), (4, 2), **options), table)
