"""Tiny models of the timm families that ``attach`` takes, with weights that make a difference."""

import torch
from timm.layers import RmsNorm
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.vision_transformer import ResPostBlock, VisionTransformer

import posenc_mm as pm

PATCH, DIM, HEADS, DEPTH = 4, 32, 2, 3
HEAD_DIM = DIM // HEADS
# Neither square nor of equal area: a mixed-up or guessed grid shows.
GRID, OTHER = (3, 5), (7, 2)

ROPE = {"use_rot_pos_emb": True, "rope_temperature": 100.0}
MODELS = {
    "vit": (VisionTransformer, {}),
    "vit without class token": (VisionTransformer, {"class_token": False, "global_pool": "avg"}),
    "vit with registers": (VisionTransformer, {"reg_tokens": 3, "qk_norm": True}),
    "deit3": (VisionTransformer, {"no_embed_class": True, "init_values": 0.5}),
    "deit distilled": (VisionTransformerDistilled, {}),
    "clip": (VisionTransformer, {"pre_norm": True, "block_fn": ResPostBlock}),
    "siglip": (VisionTransformer, {"class_token": False, "global_pool": "map"}),
    "eva": (Eva, {"global_pool": "token", "init_values": 0.5}),
    "eva02": (Eva, ROPE | {"swiglu_mlp": True, "scale_mlp": True, "qkv_fused": False}),
    "rope vit": (
        Eva,
        ROPE | {"attn_type": "rope", "rope_type": "mixed", "rope_grid_indexing": "xy"},
    ),
    "perception encoder": (
        Eva,
        ROPE
        | {"attn_type": "rope", "rope_grid_indexing": "xy", "rope_grid_offset": 1.0}
        | {"use_pre_transformer_norm": True, "global_pool": "map"},
    ),
    "dinov3": (
        Eva,
        ROPE
        | {"rope_type": "dinov3", "rope_rotate_half": True, "num_reg_tokens": 4}
        | {"use_abs_pos_emb": False, "no_embed_class": True},
    ),
    "sapiens2": (
        Eva,
        ROPE
        | {"attn_type": "rope", "qk_norm": True, "norm_layer": RmsNorm, "qkv_fused": False}
        | {"num_kv_heads": 1},
    ),
    "eva post-norm": (Eva, ROPE | {"use_post_norm": True, "class_token": False}),
}
# The two code paths of timm, for what does not depend on a model's details.
FAMILIES = ["vit with registers", "eva02"]


def size_of(grid):
    return tuple(PATCH * cells for cells in grid)


def images(batch=3, grid=GRID, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, *size_of(grid), generator=generator)


def tiny(name, *, dynamic=True, grid=GRID, **kwargs):
    kind, options = MODELS[name]
    sizes = {"img_size": size_of(grid), "patch_size": PATCH, "embed_dim": DIM, "depth": DEPTH}
    common = {"num_heads": HEADS, "num_classes": 5, "dynamic_img_size": dynamic}
    model = kind(**(sizes | common | options | kwargs))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def three(axes=2):
    """One encoding for each slot; two of them learn."""
    return {
        "additive": pm.Learned(DIM, GRID, std=0.5),
        "rotary": pm.Rotary(HEAD_DIM, axes=axes, base=100.0),
        "bias": pm.RelativeBias(HEADS, GRID, std=0.5),
    }


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_near(a, b, atol=1e-5):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def assert_same_gradients(found, wanted, atol=1e-6):
    """Equal up to ``atol`` of the largest entry of each."""
    assert found.keys() == wanted.keys()
    for key, gradient in wanted.items():
        scale = gradient.abs().max().clamp(min=1e-12)
        assert_near(found[key] / scale, gradient / scale, atol)
