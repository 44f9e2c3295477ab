"""Published encodings by name: their formulas once more, and what holds for all of them."""

import copy
import inspect
import math
import pickle
import re

import oracles_presets as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm import presets
from posenc_mm.placed import Placed
from posenc_mm.positions import AugmentedGrid

GRID, VIDEO = (3, 5), (2, 3, 5)
HEADS = {"head_dim": 16, "heads": 3}
WIDE = ("flux", "flux2", "hunyuan_video", "qwen_image", "qwen2_vl_text", "qwen2_5_vl_text",
        "qwen3_vl_text", "glm4v_text", "ernie45_vl", "video_rope", "hope")  # fmt: skip
NEEDED = {"xcit": {"dim": 24}, "rope_vit_mixed": HEADS, "mochi": HEADS, "ltx": HEADS, "ltx2": HEADS}
NEEDED |= {name: {"head_dim": 128} for name in WIDE} | {"qwen3_5_text": {"head_dim": 256}}


def made(name, **arguments):
    function = getattr(presets, name)
    first = next(iter(inspect.signature(function).parameters))
    return function(**{first: 48, **NEEDED.get(name, {}), **arguments})


def axes_of(placed):
    for part in placed.encoding.modules():
        if isinstance(part, pm.Concat) and part.axes is not None:
            return len(part.axes)
        if hasattr(part, "axes") and isinstance(part.axes, int):
            return part.axes
    raise AssertionError(placed)


def sizes_of(placed):
    return {3: VIDEO, 4: (*VIDEO, 2)}.get(axes_of(placed), GRID)


def read(placed, *sizes):
    return placed.encoding(placed.positions(*sizes).double())


# Read at whole positions nothing is rounded before the sine; elsewhere coordinates are float32.
EXACT, ROUNDED = 1e-12, 5e-6


def near(ours, wanted, atol=EXACT):
    torch.testing.assert_close(ours, wanted, rtol=0, atol=atol, check_dtype=False)


# ------------------------------------------------------------ added to the tokens


@pytest.mark.parametrize(
    ("placed", "wanted"),
    [
        (presets.mae(16), oracles.mae(*GRID, 16)),
        (presets.mae(16, base=50.0), oracles.mae(*GRID, 16, 50.0)),
        (presets.moco_v3(16), oracles.moco_v3(*GRID, 16)),
        (presets.big_vision(16, base=99.0), oracles.big_vision(*GRID, 16, 99.0)),
        (presets.timm_sincos(16), oracles.timm(*GRID, 16)),
        (presets.timm_sincos(16, interleaved=True), oracles.moco_v3(*GRID, 16)),
        (presets.detr(16), oracles.detr(*GRID, 16)),
        (presets.detr(16, offset=0.5), oracles.detr(*GRID, 16, 0.5)),
        (presets.pixart(16, reference=7, scale=2.0), oracles.pixart(*GRID, 16, 7, 2.0)),
    ],
)
def test_sincos(placed, wanted):
    whole = not placed.positions(*GRID).is_floating_point()
    # Above all DETR's guard against a division by zero: 1e-6 beside 3 rows is 2e-6 rad.
    near(read(placed, *GRID), wanted, atol=EXACT if whole else ROUNDED)


@pytest.mark.parametrize(("dim", "uniform"), [(24, False), (24, True), (28, True), (26, True)])
def test_sincos_of_vjepa_with_the_last_block_cut_where_it_does_not_fit(dim, uniform):
    wanted = oracles.vjepa(VIDEO, dim, uniform)
    assert wanted.shape[-1] == dim
    near(read(presets.vjepa_sincos(dim, uniform=uniform), *VIDEO), wanted)


def test_sincos_of_cogvideox():
    placed = presets.cogvideox_sincos(48, spatial_scale=1.875, temporal_scale=2.0)
    near(read(placed, *VIDEO), oracles.cogvideox_sincos(VIDEO, 48, 1.875, 2.0), ROUNDED)


@pytest.mark.parametrize("layout", ["half", "axis_half"])
def test_a_block_may_have_more_sines_than_cosines(layout):
    rows = pm.axial(*[pm.geometric(3)] * 2)
    whole = pm.Sinusoidal(12, axes=2, layout=layout, frequencies=rows)(pm.grid(*GRID))
    cut = pm.Sinusoidal(8, axes=2, layout=layout, frequencies=rows)(pm.grid(*GRID))
    left = {"half": [0, 1, 2, 3, 4, 5, 6, 9], "axis_half": [0, 1, 2, 3, 6, 7, 8, 9]}
    assert torch.equal(cut, whole[:, left[layout]])


@pytest.mark.parametrize(
    ("layout", "count"), [("interleaved", 5), ("half", 3), ("half", 8), ("axis_half", 9)]
)
def test_a_block_of_sines_alone_is_refused(layout, count):
    """As comes of frequencies for twice the width: a mistake, not an encoding."""
    with pytest.raises(ValueError, match="frequencies must be 1 rows"):
        pm.Sinusoidal(8, layout=layout, frequencies=[pm.geometric(count)])


def test_no_two_orders_are_the_same_encoding():
    """That they share a name is why these presets exist."""
    codes = [read(make(16), *GRID) for make in (presets.mae, presets.moco_v3, presets.big_vision)]
    codes += [read(presets.timm_sincos(16), *GRID), read(presets.detr(16), *GRID)]
    for i, one in enumerate(codes):
        for other in codes[:i]:
            assert (one - other).abs().amax(0).gt(0.1).sum() >= 2


# ------------------------------------------------------------ turning queries and keys

ROTARY = {
    "eva02": (presets.eva02(16), oracles.eva02(*GRID, 16)),
    "eva02 elsewhere": (presets.eva02(16, reference=(7, 4)), oracles.eva02(*GRID, 16, (7, 4))),
    "rope_vit_axial": (presets.rope_vit_axial(16), oracles.column_first(*GRID, 16, 100.0)),
    "perception_encoder": (
        presets.perception_encoder(16),
        oracles.column_first(*GRID, 16, 10_000.0, 1),
    ),
    "llama4": (presets.llama4(16), oracles.column_first(*GRID, 16, 10_000.0, 1)),
    "pixtral": (presets.pixtral(16), oracles.pixtral(*GRID, 16)),
    "qwen2_vl": (presets.qwen2_vl(16), oracles.eva02(*GRID, 16)),
    "qwen3_vl": (presets.qwen3_vl(16, base=70.0), oracles.eva02(*GRID, 16, base=70.0)),
    "deepseek_vit": (presets.deepseek_vit(16), oracles.eva02(*GRID, 16)),
    "gemma4": (presets.gemma4(16), oracles.column_first(*GRID, 16, 100.0)),
    "timm_pixel log": (presets.timm_pixel(16), oracles.pixel(*GRID, 16, 224.0, True)),
    "timm_pixel linear": (
        presets.timm_pixel(16, resolution=10, bands="linear"),
        oracles.pixel(*GRID, 16, 10.0, False),
    ),
    "dinov3": (presets.dinov3(16), oracles.dinov3(*GRID, 16)),
    "dinov3 min": (presets.dinov3(16, by="min", base=30.0), oracles.dinov3(*GRID, 16, "min", 30.0)),
    "dinov3 max": (presets.dinov3(16, by="max"), oracles.dinov3(*GRID, 16, "max")),
    "dinov3 periods": (
        presets.dinov3(16, periods=(0.5, 90.0)),
        oracles.dinov3(*GRID, 16, periods=(0.5, 90.0)),
    ),
    "fit linear": (
        presets.fit(16, scale=(1.5, 2.0), rule="linear"),
        oracles.fit(*GRID, 16, (1.5, 2.0), "linear"),
    ),
    "fit ntk": (presets.fit(16, scale=(1.5, 2.0)), oracles.fit(*GRID, 16, (1.5, 2.0), "ntk")),
    "wan": (presets.wan(20), oracles.video(VIDEO, (8, 6, 6))),
    "cogvideox": (presets.cogvideox(32), oracles.video(VIDEO, (8, 12, 12))),
}


@pytest.mark.parametrize("name", ROTARY)
def test_queries_turn_by_the_published_angles(name):
    placed, angles = ROTARY[name]
    sizes = sizes_of(placed)
    x = torch.randn(2, 3, math.prod(sizes), placed.encoding.head_dim, dtype=torch.float64)
    ours = pm.rotate(x, read(placed, *sizes))
    wanted = oracles.turned(x, angles, placed.encoding.layout)
    whole = not placed.positions(*sizes).is_floating_point()
    near(ours, wanted, atol=EXACT if whole else ROUNDED)


def test_cogvideox_fits_another_grid_into_the_trained_one():
    placed = presets.cogvideox(16, reference=(30, 45))
    # 2 x 5 cells: 45 wide, 18 high, six rows down; ends short of the crop's by its own nth part.
    rows = [6.0, 24 * 1 / 2]
    columns = [45 * 4 / 5 * i / 4 for i in range(5)]
    near(
        read(placed, 3, 2, 5).cos,
        oracles.video((3, 2, 5), (4, 6, 6), (range(3), rows, columns)).cos(),
    )
    placed = presets.cogvideox(16, reference=(30, 45))
    near(placed.positions(1, 30, 45), pm.grid(1, 30, 45).float())


def test_vjepa2_is_what_its_checkpoints_were_trained_with():
    placed = presets.vjepa2(20)
    x = torch.randn(2, 3, math.prod(VIDEO), 20, dtype=torch.float64)
    ours = pm.rotate(x, read(placed, *VIDEO))
    near(ours, oracles.vjepa2(x, VIDEO), atol=1e-6)
    assert not torch.allclose(ours.norm(dim=-1), x.norm(dim=-1), atol=0.1)


def test_mixed_frequencies_of_a_checkpoint_have_the_column_first():
    placed = presets.rope_vit_mixed(16, heads=3)
    freqs = torch.randn(2, 3, 8)
    with torch.no_grad():
        placed.encoding.frequencies.copy_(freqs.transpose(0, 1).flip(1))
    rotation = read(placed, *GRID)
    for head in range(3):
        for token, (y, x) in enumerate(oracles.cells(*GRID)):
            angle = x * freqs[0, head].double() + y * freqs[1, head].double()
            near(rotation.cos[head, token], angle.cos())


# ------------------------------------------------------------ what holds for all


@pytest.mark.parametrize("name", presets.__all__)
def test_token_r_times_width_plus_c_carries_row_r_and_column_c(name):
    """An axis is read alone: tokens of one row share its part, whatever the column."""
    placed = made(name)
    if name == "rope_vit_mixed":
        with torch.no_grad():
            placed.encoding.frequencies[:, :, :4].mul_(torch.tensor([1.0, 0.0])[:, None])
            placed.encoding.frequencies[:, :, 4:].mul_(torch.tensor([0.0, 1.0])[:, None])
    if name == "mochi":
        with torch.no_grad():
            placed.encoding.frequencies[:, :, :3] = torch.eye(3)
    if name == "xcit":
        placed = Placed(placed.encoding.features, placed.positions)
    sizes = sizes_of(placed)
    got = read(placed, *sizes)
    codes = torch.cat((got.cos, got.sin), -1) if isinstance(got, pm.Rotation) else got
    if name in ("ltx", "ltx2", "mh_rope"):  # whose heads look along axes of their own
        codes = codes.transpose(0, 1).flatten(1)
    codes = codes.reshape(-1, *sizes, codes.shape[-1])
    readers = {}
    for axis in range(len(sizes)):
        change = codes - codes.narrow(1 + axis, 0, 1)
        readers[axis] = set(
            change.abs().flatten(0, -2).amax(0).gt(1e-9).nonzero().flatten().tolist()
        )
        assert readers[axis] or (name, axis) == ("hope", 0), f"no channel reads axis {axis}"
    for axis, own in readers.items():
        others = set().union(*(r for other, r in readers.items() if other != axis))
        assert not own & others, "a channel reads two axes"


@pytest.mark.parametrize("name", presets.__all__)
def test_a_preset_can_be_pickled_copied_and_saved(name):
    placed = made(name)
    sizes = sizes_of(placed)
    for other in (pickle.loads(pickle.dumps(placed)), copy.deepcopy(placed)):
        for mine, theirs in zip(read(placed, *sizes), read(other, *sizes), strict=True):
            same = torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs
            assert same
    learned = name in ("xcit", "rope_vit_mixed", "mochi")
    assert bool(placed.encoding.state_dict()) == learned


@pytest.mark.parametrize("name", presets.__all__)
def test_positions_are_made_where_they_are_wanted(name):
    placed = made(name)
    sizes = sizes_of(placed)
    points = placed.positions(*sizes, device="meta")
    assert points.device.type == "meta"
    assert points.shape == (math.prod(sizes), len(sizes))


@pytest.mark.parametrize("name", presets.__all__)
def test_a_preset_takes_no_width_that_does_not_fit(name):
    first = next(iter(inspect.signature(getattr(presets, name)).parameters))
    for width in (0, 5) if name != "xcit" else (0,):
        with pytest.raises(ValueError, match=r"dim|frequencies"):
            made(name, **{first: width})


def test_augmented_coordinates_come_with_the_preset_that_draws_them():
    placed = presets.dinov3(16, shift=0.1, jitter=1.5, rescale=2.0)
    assert placed.positions == AugmentedGrid(placed.positions.grid, 0.1, 1.5, 2.0)
    near(placed.positions(*GRID), presets.dinov3(16).positions(*GRID), atol=0)


def test_the_table_of_presets_is_complete(root):
    text = (root / "docs" / "presets.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", text, re.M))
    assert list(rows) and set(rows) == set(presets.__all__)
    for name, row in rows.items():
        (address,) = re.findall(r"\]\((https://[^)]+)\)", row)
        assert address in getattr(presets, name).__doc__, f"{name} does not refer to {address}"
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    namespace = {}
    for block in blocks:
        exec(compile(block, "docs/presets.md", "exec"), namespace)
    assert namespace["rotation"].cos.shape == (14 * 20, 32)
    named = (root / "README.md").read_text(encoding="utf-8")
    assert not [name for name in presets.__all__ if f"`{name}`" not in named]
