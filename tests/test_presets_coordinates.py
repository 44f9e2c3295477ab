"""Coordinates that presets are read at: stretched, cropped, merged, augmented, and in a host."""

import copy
import math
import pickle
from functools import partial

import pytest
import torch

import posenc_mm as pm
from posenc_mm import presets
from posenc_mm.placed import Placed
from posenc_mm.positions import AugmentedGrid, cropped_grid, merged_grid, stretched_grid

GRID = (3, 5)


def test_a_stretched_grid_keeps_its_first_cell_and_its_spacing():
    points = stretched_grid(3, 5, length=(6, 2.5)).reshape(3, 5, 2)
    assert points[:, 2, 0].tolist() == [0.0, 2.0, 4.0]
    assert points[1, :, 1].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    half = stretched_grid(3, 5, length=(3, 5), offset=0.5)
    assert torch.equal(half, pm.grid(3, 5) + 0.5)


def test_a_stretched_grid_is_plain_at_its_own_size():
    assert torch.equal(stretched_grid(3, 5, length=(3, 5)), pm.grid(3, 5).float())


@pytest.mark.parametrize(("merge", "sizes"), [(1, (3, 5)), (2, (4, 6)), (3, (3, 9))])
def test_a_merged_grid_holds_each_cell_once_block_by_block(merge, sizes):
    points = merged_grid(*sizes, merge=merge).tolist()
    assert sorted(points) == pm.grid(*sizes).tolist()
    blocks = [(row // merge, column // merge) for row, column in points]
    assert blocks == sorted(blocks)


def test_a_cropped_grid_lies_inside_the_base_and_in_its_middle():
    for sizes in [(2, 5), (7, 3), (30, 45), (1, 1)]:
        points = cropped_grid(2, *sizes, base=(30, 45))
        assert (points[:, 0] == torch.arange(2).repeat_interleave(math.prod(sizes))).all()
        rows, columns = points[:, 1], points[:, 2]
        assert rows.min() >= 0 and columns.min() >= 0
        assert rows.max() < 30 and columns.max() < 45
        assert min(rows.min(), columns.min()) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: stretched_grid(0, 2, length=1.0),
        lambda: stretched_grid(2, 2, length=(1.0, 2.0, 3.0)),
        lambda: stretched_grid(2, 2, length=math.inf),
        lambda: stretched_grid(2, 2, length=1.0, offset=math.nan),
        lambda: cropped_grid(4, base=(3, 3)),
        lambda: cropped_grid(4, 4, base=(3, 3, 3)),
        lambda: merged_grid(4, 5, merge=2),
        lambda: merged_grid(4, 4, merge=0),
        lambda: AugmentedGrid(shift=-0.1),
        lambda: AugmentedGrid(jitter=0.5),
        lambda: AugmentedGrid(rescale=math.inf),
        lambda: AugmentedGrid(rescale=2.0)(2, 2, samples=3),
        lambda: AugmentedGrid(rescale=2.0)(2, 2, generator=torch.Generator()),
        lambda: AugmentedGrid(rescale=2.0)(2, 2, training=True, samples=0),
        lambda: presets.dinov3(16, base=2.0, periods=(1.0, 2.0)),
        lambda: presets.dinov3(16, by="rows"),
        lambda: presets.timm_pixel(16, bands="octaves"),
        lambda: presets.fit(16, rule="yarn"),
        lambda: presets.fit(16, scale=(1.0, 2.0, 3.0)),
        lambda: presets.fit(4),
        lambda: presets.eva02(16, reference=(0, 3)),
        lambda: presets.vjepa_sincos(14, uniform=True),
        lambda: presets.vjepa_sincos(20),
        lambda: presets.big_vision(4),
        lambda: presets.xcit(24, hidden=5),
        lambda: presets.qwen2_vl(16, merge=0),
        lambda: presets.cogvideox(16, reference=(3, 0)),
    ],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(ValueError, match="got"):
        call()


# ------------------------------------------------------------ augmented

BY_HAND = {"shift": 0.3, "jitter": 1.4, "rescale": 2.0}


@pytest.mark.parametrize("names", [[], ["shift"], ["jitter"], ["rescale"], list(BY_HAND)])
def test_draws_come_in_the_authors_order_and_only_for_what_is_given(names):
    augmented = AugmentedGrid(**{name: BY_HAND[name] for name in names})
    torch.manual_seed(5)
    wanted = pm.normalised_grid(*GRID)
    if "shift" in names:
        wanted = wanted + torch.empty(2).uniform_(-0.3, 0.3)
    if "jitter" in names:
        wanted = wanted * torch.empty(2).uniform_(-math.log(1.4), math.log(1.4)).exp()
    if "rescale" in names:
        wanted = wanted * torch.empty(1).uniform_(-math.log(2.0), math.log(2.0)).exp()
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(augmented(*GRID, training=True), wanted)
    assert torch.equal(torch.rand(1), after), "another number of draws"


def test_nothing_is_drawn_unless_asked_for():
    augmented = AugmentedGrid(**BY_HAND)
    state = torch.get_rng_state()
    assert torch.equal(augmented(*GRID), pm.normalised_grid(*GRID))
    assert torch.equal(torch.get_rng_state(), state)
    generator = torch.Generator().manual_seed(1)
    first = augmented(*GRID, training=True, generator=generator)
    assert torch.equal(torch.get_rng_state(), state), "the generator given is the one that draws"
    again = augmented(*GRID, training=True, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first, again)


def test_each_sample_has_a_draw_of_its_own_that_its_tokens_share():
    plain = pm.normalised_grid(*GRID).double()
    points = AugmentedGrid(**BY_HAND)(*GRID, training=True, samples=64).double()
    assert points.shape == (64, 15, 2)
    scale = (points[:, -1] - points[:, 0]) / (plain[-1] - plain[0])
    start = points[:, 0] - scale * plain[0]
    rebuilt = scale[:, None] * plain + start[:, None]
    torch.testing.assert_close(points, rebuilt, rtol=0, atol=1e-5)
    assert len(scale[:, 0].unique()) == len(scale[:, 1].unique()) == 64
    shift, ratio = start / scale, scale[:, 0] / scale[:, 1]
    assert shift.abs().max() <= 0.3 + 1e-5 and shift.std(0).min() > 0.1
    assert ratio.max() <= 1.4**2 + 1e-5 and ratio.min() >= 1.4**-2 - 1e-5
    assert scale.max() <= 1.4 * 2 + 1e-5 and scale.min() >= 1 / 2.8 - 1e-5
    assert ratio.std() > 0.1 and scale.std(0).min() > 0.3


def test_scales_are_log_uniform():
    """As often below one as above, and evenly so in the logarithm."""
    generator = torch.Generator().manual_seed(0)
    points = AugmentedGrid(rescale=4.0)(1, 2, training=True, samples=4000, generator=generator)
    drawn = (points[:, 1, 1] / 0.5).log() / math.log(4.0)
    counts = torch.histc(drawn, bins=8, min=-1, max=1)
    assert counts.sum() == 4000 and (counts - 500).abs().max() < 100


def test_any_positions_can_be_augmented():
    augmented = AugmentedGrid(partial(pm.grid, offset=1), shift=0.5)
    points = augmented(*GRID, training=True)
    offset = points - pm.grid(*GRID, offset=1)
    torch.testing.assert_close(offset, offset[:1].expand_as(offset), rtol=0, atol=1e-6)
    assert 0 < offset.abs().max() <= 0.5
    for other in (pickle.loads(pickle.dumps(augmented)), copy.deepcopy(augmented)):
        assert torch.equal(other(*GRID), augmented(*GRID))


# ------------------------------------------------------------ in graphs and in a host


class Read(torch.nn.Module):
    def __init__(self, placed):
        super().__init__()
        self.encoding, self.positions = placed

    def forward(self, patches):
        rotation = self.encoding(self.positions(*patches.shape[-2:], device=patches.device))
        return rotation if isinstance(rotation, torch.Tensor) else rotation.cos


@pytest.mark.parametrize(
    "placed",
    [presets.eva02(16, reference=(7, 4)), presets.detr(16), presets.dinov3(16, by="max")],
)
def test_sizes_stay_free_in_an_exported_graph(placed):
    height, width = torch.export.Dim("height", max=64), torch.export.Dim("width", max=64)
    module = Read(placed)
    program = torch.export.export(
        module, (torch.zeros(1, 4, 6),), dynamic_shapes=({1: height, 2: width},)
    )
    for sizes in [(4, 6), (9, 2)]:
        patches = torch.zeros(1, *sizes)
        torch.testing.assert_close(program.module()(patches), module(patches), rtol=0, atol=1e-6)


PEERS = {
    "eva02": (presets.eva02(16), {}),
    "perception_encoder": (
        presets.perception_encoder(16),
        {"rope_grid_indexing": "xy", "rope_grid_offset": 1.0},
    ),
    "rope_vit_axial": (
        presets.rope_vit_axial(16),
        {"rope_grid_indexing": "xy", "rope_temperature": 100.0},
    ),
    "dinov3": (
        presets.dinov3(16),
        {"rope_type": "dinov3", "rope_temperature": 100.0, "rope_rotate_half": True},
    ),
}


@pytest.mark.parametrize("name", PEERS)
def test_attached_to_a_model_without_it_a_preset_gives_the_native_model(name):
    """The peer's whole model, native encoding against ours, with the same weights."""
    timm = pytest.importorskip("timm")
    from posenc_mm.timm import attach

    placed, arguments = PEERS[name]
    sizes = {"img_size": (12, 20), "patch_size": 4, "embed_dim": 48, "depth": 2, "num_heads": 3}
    make = partial(timm.models.eva.Eva, **sizes, num_classes=7, attn_type="rope")
    native = make(use_rot_pos_emb=True, **arguments).eval()
    with torch.no_grad():
        for weight in native.parameters():
            if weight.ndim == 2:  # as made they attend to everything alike
                weight.normal_(std=0.3)
    ours = make(use_rot_pos_emb=False).eval()
    ours.load_state_dict(native.state_dict())
    attach(ours, rotary=placed, keep_native=True)
    pictures = torch.randn(2, 3, 12, 20)
    with torch.no_grad():
        wanted = native(pictures)
        torch.testing.assert_close(ours(pictures), wanted, rtol=0, atol=1e-5)
        without = make(use_rot_pos_emb=False).eval()
        without.load_state_dict(native.state_dict())
        assert (without(pictures) - wanted).abs().max() > 0.1


def test_an_attached_model_trains_on_augmented_coordinates_of_each_sample():
    timm = pytest.importorskip("timm")
    from posenc_mm.timm import attach

    sizes = {"img_size": (12, 20), "patch_size": 4, "embed_dim": 48, "depth": 1, "num_heads": 3}
    model = timm.models.vision_transformer.VisionTransformer(**sizes, num_classes=7)
    torch.nn.init.normal_(model.blocks[0].attn.qkv.weight, std=0.3)
    placed = presets.dinov3(16, rescale=2.0)
    drawn = partial(placed.positions, training=True, samples=2)
    attach(model, rotary=Placed(placed.encoding, drawn))
    with torch.no_grad():
        pictures = torch.randn(1, 3, 12, 20).expand(2, -1, -1, -1)
        torch.manual_seed(1)
        first = model(pictures)
        torch.manual_seed(1)
        assert torch.equal(model(pictures), first)
        assert (first[0] - first[1]).abs().max() > 1e-6, "two samples, two draws"
        assert (model(pictures) - first).abs().max() > 1e-6


def test_placed_is_read_where_it_is_placed():
    placed = Placed(pm.Rotary(16, axes=2), partial(pm.grid, offset=3))
    assert torch.equal(placed.positions(2, 3), pm.grid(2, 3) + 3)
