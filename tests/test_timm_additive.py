"""Additive encodings on timm models; none at all; native ones beside; positions of one's own."""

import pytest
import torch
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from timm_models import (
    DEPTH,
    DIM,
    FAMILIES,
    GRID,
    HEAD_DIM,
    HEADS,
    MODELS,
    OTHER,
    PATCH,
    assert_near,
    images,
    size_of,
    tiny,
)
from torch.nn import functional as F

import posenc_mm as pm
from posenc_mm.timm import attach

every = pytest.mark.parametrize("name", MODELS)
families = pytest.mark.parametrize("name", FAMILIES)
fixed_or_dynamic = pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
AXIAL = {"axes": 2, "base": 100.0, "layout": "interleaved"}


# ------------------------------------------------------------ additive


def with_table(model, grid=GRID):
    """The model with no position for its prefix, and its patches' table as an encoding."""
    prefix = 0 if model.no_embed_class else model.num_prefix_tokens
    learned = pm.Learned(DIM, grid)
    with torch.no_grad():
        model.pos_embed[:, :prefix] = 0
        learned.table.copy_(model.pos_embed[0, prefix:].unflatten(0, grid))
    return model, learned


@fixed_or_dynamic
@pytest.mark.parametrize("name", [name for name in MODELS if name != "dinov3"])
def test_the_native_table_as_an_encoding_changes_nothing(name, dynamic):
    model, learned = with_table(
        tiny(
            name, dynamic=dynamic, **({"use_rot_pos_emb": False} if MODELS[name][0] is Eva else {})
        )
    )
    wanted = model(images())
    assert torch.equal(attach(model, additive=learned)(images()), wanted)


@families
def test_a_table_at_another_size_is_the_table_resized(name):
    model, learned = with_table(tiny(name))
    resized = F.interpolate(
        learned.table.detach().movedim(-1, 0)[None], size=OTHER, mode="bilinear"
    )
    native = tiny(name, grid=OTHER)
    weights = model.state_dict()
    prefix = model.num_prefix_tokens
    table = torch.cat((torch.zeros(1, prefix, DIM), resized.flatten(2).transpose(1, 2)), dim=1)
    native.load_state_dict(weights | {"pos_embed": table})
    attach(
        model,
        additive=learned,
        **({} if name == FAMILIES[0] else {"rotary": pm.Rotary(HEAD_DIM, **AXIAL)}),
    )
    assert_near(model(images(grid=OTHER)), native(images(grid=OTHER)))


@every
def test_prefix_tokens_get_no_position(name):
    model = attach(tiny(name), additive=pm.Sinusoidal(DIM, axes=2))
    seen = {}
    model.pos_drop.register_forward_hook(lambda m, args, out: seen.update(tokens=out))
    attached = model(images()), seen["tokens"]
    bare = tiny(name)
    bare.load_state_dict(model.state_dict())
    attach(bare).pos_drop.register_forward_hook(lambda m, args, out: seen.update(tokens=out))
    bare(images())
    change = attached[1] - seen["tokens"]
    prefix = model.num_prefix_tokens
    assert not change[:, :prefix].any()
    wanted = pm.Sinusoidal(DIM, axes=2)(pm.grid(*GRID))
    assert_near(change[:, prefix:], wanted.expand(len(change), -1, -1))


# ------------------------------------------------------------ none, native, other positions


@every
def test_no_encoding_at_all_cannot_tell_the_order_of_patches(name):
    model = attach(tiny(name))
    patches = images().unflatten(2, (GRID[0], PATCH)).unflatten(4, (GRID[1], PATCH))
    patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    shuffled = patches[:, torch.randperm(patches.shape[1])].unflatten(1, GRID)
    shuffled = shuffled.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
    assert_near(model(shuffled), model(images()))
    attach_rotary = tiny(name)
    attach(attach_rotary, rotary=pm.Rotary(HEAD_DIM, **AXIAL))
    assert (attach_rotary(shuffled) - attach_rotary(images())).abs().max() > 1e-3


@fixed_or_dynamic
@every
def test_native_encodings_stay_beside_where_asked(name, dynamic):
    model = tiny(name, dynamic=dynamic)
    grids = (GRID, OTHER) if dynamic else (GRID,)
    wanted = [model(images(grid=grid)) for grid in grids]
    rotary = pm.Rotary(HEAD_DIM, axes=2, frequencies=[[0.0] * (HEAD_DIM // 4)] * 2)
    nothing = {"additive": pm.Learned(DIM, GRID), "bias": pm.RelativeBias(HEADS, GRID)}
    for encoding in nothing.values():
        torch.nn.init.zeros_(encoding.table)
    attach(model, **nothing, rotary=rotary, keep_native=True)
    for grid, native in zip(grids, wanted, strict=True):
        assert_near(model(images(grid=grid)), native)


def test_a_vit_of_no_native_encoding_is_what_pos_embed_none_makes():
    model = tiny("vit")
    none = VisionTransformer(
        img_size=size_of(GRID),
        patch_size=PATCH,
        embed_dim=DIM,
        depth=DEPTH,
        num_heads=HEADS,
        num_classes=5,
        pos_embed="none",
    ).eval()
    none.load_state_dict(model.state_dict(), strict=False)
    assert torch.equal(attach(model)(images()), none(images()))


@families
def test_positions_of_ones_own(name):
    calls = []

    def halves(height, width, device):
        calls.append((int(height), int(width), device))
        return pm.grid(height, width, step=0.5, device=device)

    model = attach(tiny(name), rotary=pm.Rotary(HEAD_DIM, **AXIAL), positions=halves)
    slower = attach(
        tiny(name),
        rotary=pm.Rotary(
            HEAD_DIM,
            axes=2,
            layout="interleaved",
            frequencies=[[f / 2 for f in row] for row in pm.Rotary(HEAD_DIM, **AXIAL).frequencies],
        ),
    )
    slower.load_state_dict(model.state_dict())
    assert_near(model(images(grid=OTHER)), slower(images(grid=OTHER)))
    assert calls[-1] == (*OTHER, torch.device("cpu"))
    short = lambda height, width, device: pm.grid(height, 1, device=device)  # noqa: E731
    model.posenc.makers["rotary"] = [short]
    with pytest.raises(
        ValueError, match=r"positions must return \(14, A\) or .* for 7 x 2 patches"
    ):
        model(images(grid=OTHER))
