"""Encodings on timm models: the numbers are those of timm's own ways to the same encoding."""

import math

import pytest
import torch
from timm.models.eva import Eva
from timm_models import (
    DEPTH,
    DIM,
    FAMILIES,
    GRID,
    HEAD_DIM,
    HEADS,
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

families = pytest.mark.parametrize("name", FAMILIES)
fixed_or_dynamic = pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
AXIAL = {"axes": 2, "base": 100.0, "layout": "interleaved"}


# ------------------------------------------------------------ rotary


@fixed_or_dynamic
@pytest.mark.parametrize("registers", [0, 3])
def test_a_vit_with_rotary_is_the_eva_of_the_same_weights(dynamic, registers):
    vit = tiny("vit", dynamic=dynamic, pos_embed="none", reg_tokens=registers)
    options = {"use_abs_pos_emb": False, "use_rot_pos_emb": True, "rope_temperature": 100.0}
    eva = Eva(
        img_size=size_of(GRID),
        patch_size=PATCH,
        embed_dim=DIM,
        depth=DEPTH,
        num_heads=HEADS,
        num_classes=5,
        attn_type="rope",
        num_reg_tokens=registers,
        global_pool="token",
        dynamic_img_size=dynamic,
        **options,
    ).eval()
    eva.load_state_dict(vit.state_dict())
    attach(vit, rotary=pm.Rotary(HEAD_DIM, **AXIAL))
    for grid in (GRID, OTHER) if dynamic else (GRID,):
        assert_near(vit(images(grid=grid)), eva(images(grid=grid)))


def of_eva02(model):
    return pm.Rotary(HEAD_DIM, **AXIAL), None


def of_perception_encoder(model):
    def column_first(height, width, device):
        return pm.grid(height, width, offset=1, device=device).flip(-1)

    return pm.Rotary(HEAD_DIM, **AXIAL), column_first


def of_dinov3(model):
    ladder = [2 * math.pi / 100.0 ** (i / (HEAD_DIM / 4)) for i in range(HEAD_DIM // 4)]

    def centred(height, width, device):
        return pm.normalised_grid(height, width, device=device)

    return pm.Rotary(HEAD_DIM, axes=2, frequencies=pm.axial(ladder, ladder)), centred


def of_rope_vit(model):
    rotary = pm.MixedRotary(HEAD_DIM, HEADS)
    with torch.no_grad():
        model.rope.freqs.copy_(model.rope.freqs[:, :1].expand(-1, DEPTH, -1, -1))
        # timm's first row goes with the column.
        rotary.frequencies.copy_(model.rope.freqs[:, 0].flip(0).transpose(0, 1))
    return rotary, None


PUBLISHED = {
    "eva02": of_eva02,
    "perception encoder": of_perception_encoder,
    "dinov3": of_dinov3,
    "rope vit": of_rope_vit,
    "sapiens2": of_eva02,
    "eva post-norm": of_eva02,
}


@fixed_or_dynamic
@pytest.mark.parametrize("name", PUBLISHED)
def test_rotary_in_place_of_a_native_rope_gives_what_it_gave(name, dynamic):
    model = tiny(name, dynamic=dynamic, use_abs_pos_emb=False)
    rotary, positions = PUBLISHED[name](model)
    grids = (GRID, OTHER) if dynamic else (GRID,)
    wanted = [model(images(grid=grid)) for grid in grids]
    attach(model, rotary=rotary, positions=positions)
    for grid, native in zip(grids, wanted, strict=True):
        assert_near(model(images(grid=grid)), native)


def test_rotary_turns_after_the_norms_of_queries_and_keys():
    model = attach(tiny("vit with registers"), rotary=pm.Rotary(HEAD_DIM, **AXIAL))
    seen = []
    model.blocks[0].attn.q_norm.register_forward_hook(lambda m, args, out: seen.append(out))
    original = F.scaled_dot_product_attention
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            F,
            "scaled_dot_product_attention",
            lambda q, *args, **kw: (seen.append(q), original(q, *args, **kw))[1],
        )
        model(images())
    normed, turned = seen[:2]
    prefix = model.num_prefix_tokens
    assert torch.equal(turned[:, :, :prefix], normed[:, :, :prefix])
    rotation = pm.Rotary(HEAD_DIM, **AXIAL)(pm.grid(*GRID))
    assert torch.equal(turned[:, :, prefix:], pm.rotate(normed[:, :, prefix:], rotation))


# ------------------------------------------------------------ bias


def dense(bias, grid, prefix):
    at = pm.grid(*grid)
    return F.pad(bias(at, at), (prefix, 0, prefix, 0))


@pytest.mark.parametrize("fused", [True, False])
@families
def test_a_bias_is_the_same_mask_from_outside(name, fused):
    model, bias = tiny(name), pm.ALiBi(HEADS)
    for block in model.blocks:
        block.attn.fused_attn = fused
    attach(model, bias=bias, keep_native=True)
    outside = tiny(name)
    outside.load_state_dict(model.state_dict())
    for grid in (GRID, OTHER):
        mask = dense(bias, grid, model.num_prefix_tokens)
        assert_near(model(images(grid=grid)), outside(images(grid=grid), attn_mask=mask))


@families
def test_a_relative_table_is_read_at_other_sizes(name):
    model, bias = tiny(name), pm.RelativeBias(HEADS, GRID, std=0.5)
    small = attach(tiny(name), bias=bias)
    model.load_state_dict(small.state_dict(), strict=False)
    at = pm.rescale(pm.grid(*OTHER), OTHER, GRID)
    prefix = model.num_prefix_tokens
    mask = F.pad(bias(at, at), (prefix, 0, prefix, 0))
    attach(model)
    assert_near(small(images(grid=OTHER)), model(images(grid=OTHER), attn_mask=mask))
