"""How tables are resized in use: precision, graphs, refusals; patch kernels; whole encodings."""

import copy

import pytest
import torch
from timm.layers import resample_patch_embed
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn import functional as F

import posenc_mm as pm
from posenc_mm.resizing import (
    RULES,
    Rule,
    matrix,
    resize_bias_table,
    resize_patch_kernel,
    resize_table,
    resized,
    unresize_table,
)


def assert_near(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# ------------------------------------------------------------ precision and graphs


def test_autocast_and_bfloat16_round_once():
    table = torch.randn(20, 6, dtype=torch.bfloat16)
    wanted = resize_table(table.double(), (4, 5), (7, 3)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = resize_table(table, (4, 5), (7, 3))
        wide = resize_table(table.float(), (4, 5), (7, 3))
    assert torch.equal(found, wanted)
    assert torch.equal(wide, resize_table(table.float(), (4, 5), (7, 3)))


def test_meta_tables_have_their_shape():
    table = torch.empty(1, 21, 6, device="meta")
    out = resize_table(table, (4, 5), (7, 3), prefix=1)
    assert out.shape == (1, 22, 6) and out.is_meta
    bias = resize_bias_table(torch.empty(63, 2, device="meta"), (4, 5), (2, 3))
    assert bias.shape == (15, 2) and bias.is_meta


class Reading(nn.Module):
    """A model that resizes its table to whatever image comes."""

    def __init__(self, rule):
        super().__init__()
        self.table, self.rule = nn.Parameter(torch.randn(1 + 20, 6)), rule

    def forward(self, x):
        out = resize_table(self.table, (4, 5), (x.shape[1], x.shape[2]), rule=self.rule, prefix=1)
        return x.flatten(1, 2) + out[1:]


@pytest.mark.parametrize("rule", ["timm", "dinov2", "qwen3", "naflex", "area", "nearest"])
def test_exported_graphs_resize_to_sizes_they_never_saw(rule):
    model = Reading(rule)
    sides = {1: torch.export.Dim("h", min=2, max=40), 2: torch.export.Dim("w", min=2, max=40)}
    program = torch.export.export(model, (torch.randn(2, 7, 3, 6),), dynamic_shapes=(sides,))
    for height, width in ((7, 3), (4, 5), (9, 12), (4, 11)):
        x = torch.randn(2, height, width, 6)
        assert_near(program.module()(x), model(x), 5e-6)


def test_compiled_in_one_graph_for_every_size():
    torch._dynamo.reset()
    model, counter = Reading("dinov2"), CompileCounter()
    fast = torch.compile(model, fullgraph=True, backend=counter)
    for height, width in ((7, 3), (8, 6), (4, 5), (9, 13), (10, 11)):
        x = torch.randn(2, height, width, 6)
        assert_near(fast(x), model(x), 5e-6)
    assert counter.frame_count <= 2


# ------------------------------------------------------------ refusals


def test_a_table_that_does_not_fit_its_grid_is_refused():
    for shape, prefix in (((37, 3), 0), ((36, 3), 1), ((6, 6, 3), 0), ((2, 36, 3), 0), ((36,), 0)):
        with pytest.raises(ValueError, match=r"36 cells of the grid \(4, 9\)"):
            resize_table(torch.zeros(shape), (4, 9), (8, 18), prefix=prefix)
    with pytest.raises(ValueError, match="same number of axes"):
        resize_table(torch.zeros(36, 3), (4, 9), 8)
    with pytest.raises(ValueError, match="at least 1"):
        resize_table(torch.zeros(36, 3), (4, 9), (0, 8))
    with pytest.raises(ValueError, match="at least 0"):
        resize_table(torch.zeros(36, 3), (4, 9), (4, 8), prefix=-1)
    with pytest.raises(ValueError, match="'timm'"):
        resize_table(torch.zeros(36, 3), (4, 9), (4, 9), rule="bicubik")
    with pytest.raises(ValueError, match="36 cells"):
        unresize_table(torch.zeros(35, 3), (2, 3), (4, 9))
    with pytest.raises(ValueError, match="at least 1"):
        matrix(0, 3)


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match="kernel must be one of"):
        Rule("lanczos")
    for settings in ({"antialias": True}, {"align_corners": True}, {"offset": 0.1}):
        with pytest.raises(ValueError, match="'cubic' and 'linear'"):
            Rule("area", **settings)
    for settings in ({"antialias": True}, {"offset": 0.1}):
        with pytest.raises(ValueError, match="align_corners excludes"):
            Rule("linear", align_corners=True, **settings)
    for offset in (-0.1, float("nan")):
        with pytest.raises(ValueError, match="offset must be"):
            Rule(offset=offset)


# ------------------------------------------------------------ patch kernels

PATCHES = [(8, 8), (32, 32), (14, 20), (24, 10)]


@pytest.mark.parametrize("target", PATCHES)
@pytest.mark.parametrize(
    ("rule", "options"),
    [("timm", {}), ("flexivit", {"interpolation": "bilinear", "antialias": False})],
)
def test_patch_kernels_are_timms(target, rule, options):
    weight = torch.randn(6, 3, 16, 16)
    wanted = resample_patch_embed(weight, list(target), **options)
    assert_near(resize_patch_kernel(weight, target, rule=rule), wanted, 5e-5)


@pytest.mark.parametrize("rule", ["timm", "flexivit", "mae", "area", "nearest"])
def test_a_larger_kernel_embeds_a_larger_patch_as_before(rule):
    weight, patch = (torch.randn(*lead, 4, 6, dtype=torch.float64) for lead in ((5, 3), (2, 3)))
    larger = resize_patch_kernel(weight, (9, 7), rule=rule)
    grid = resize_table(patch.movedim((0, 1), (-2, -1)).flatten(-2), (4, 6), (9, 7), rule=rule)
    image = grid.unflatten(-1, (2, 3)).movedim((-2, -1), (0, 1))
    assert_near(F.conv2d(image, larger).flatten(1), F.conv2d(patch, weight).flatten(1))


def test_a_smaller_kernel_comes_nearest_over_white_noise():
    weight = torch.randn(1, 1, 6, 8, dtype=torch.float64)
    found = resize_patch_kernel(weight, (3, 5)).flatten()
    down = torch.kron(matrix(6, 3), matrix(8, 5))
    wanted = torch.linalg.lstsq(down.T, weight.reshape(-1, 1), driver="gelsd").solution
    assert_near(found, wanted.flatten(), 1e-11)


def test_kernels_of_videos_dtypes_and_refusals():
    weight = torch.randn(5, 3, 2, 4, 6, dtype=torch.bfloat16)
    out = resize_patch_kernel(weight, (1, 8, 3))
    assert out.shape == (5, 3, 1, 8, 3) and out.dtype == torch.bfloat16 and out.is_contiguous()
    assert resize_patch_kernel(weight, (2, 4, 6)) is weight
    for target in ((8, 8), 8):
        with pytest.raises(ValueError, match="one axis for each"):
            resize_patch_kernel(weight, target)
    with pytest.raises(ValueError, match="one axis for each"):
        resize_patch_kernel(torch.zeros(5, 3), 8)


# ------------------------------------------------------------ encodings


@pytest.mark.parametrize("joint", [True, False])
def test_a_learned_encoding_of_other_sizes_says_what_the_table_says(joint):
    learned = pm.Learned(6, (4, 9), joint=joint, std=0.5).double().requires_grad_(False)
    before, state = copy.deepcopy(learned.state_dict()), torch.get_rng_state()
    other = resized(learned, (8, 5), rule="bilinear")
    assert torch.equal(state, torch.get_rng_state())
    assert other.sizes == (8, 5) and learned.sizes == (4, 9)
    assert not any(p.requires_grad for p in other.parameters())
    wanted = learned(pm.rescale(pm.grid(8, 5).double(), (8, 5), (4, 9)))
    assert_near(other(pm.grid(8, 5)), wanted, 1e-7)
    same = resized(learned, (4, 9))
    with torch.no_grad():
        for parameter in [*same.parameters(), *other.parameters()]:
            parameter.add_(1)
    for name, table in learned.state_dict().items():
        assert torch.equal(table, before[name])


def test_a_relative_bias_of_another_window_is_geometric_unless_told_otherwise():
    bias = pm.RelativeBias(3, (4, 6), std=0.5, clip=True)
    for rule, options in ((None, {}), ("swin", {"rule": "swin"})):
        other = resized(bias, (7, 3), rule=rule)
        assert (other.sizes, other.heads, other.clip) == ((7, 3), 3, True)
        flat = resize_bias_table(bias.table.flatten(0, 1), (4, 6), (7, 3), **options)
        assert torch.equal(other.table.flatten(0, 1), flat)
        assert other(pm.grid(7, 3), pm.grid(7, 3)).shape == (3, 21, 21)


def test_only_tables_for_a_grid_are_resized():
    with pytest.raises(ValueError, match="Learned or a RelativeBias"):
        resized(pm.Sinusoidal(8), 4)
    with pytest.raises(ValueError, match="same number of axes"):
        resized(pm.Learned(8, (2, 3)), 4)
    with pytest.raises(ValueError, match="rule must be"):
        resized(pm.Learned(8, (2, 3)), (4, 4), rule="geometric")


def test_rules_are_values():
    assert RULES["mae"] == Rule("cubic") and hash(RULES["mae"]) == hash(Rule("cubic"))
    with pytest.raises(AttributeError):
        RULES["mae"].kernel = "linear"
