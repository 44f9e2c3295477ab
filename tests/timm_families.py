"""The smallest model of every family of timm, with weights that make a difference."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from timm.layers import DiffAttention
from timm.models import (
    beit,
    eva,
    hiera,
    hieradet_sam2,
    naflexvit,
    swin_transformer,
    swin_transformer_v2,
    vision_transformer_relpos,
    vision_transformer_sam,
)
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import (
    DiffParallelScalingBlock,
    ParallelScalingBlock,
    ParallelThingsBlock,
    VisionTransformer,
)

import posenc_mm as pm

DIM, HEADS, WIDTH = 32, 2, 16
GRID, WINDOW = (6, 10), (3, 5)
SIZE = (24, 40)


class Member(NamedTuple):
    """How a family's smallest model is made, and what differs from a plain ViT.

    ``works`` are the slots that it carries, ``sizes`` other images that it takes, ``heads`` those
    of each list entry, ``width`` the channels that turn.
    """

    make: Callable[..., Any]
    works: str = "additive rotary bias"
    sizes: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = (HEADS,)
    width: int = WIDTH
    window: tuple[int, int] = GRID
    kind: str = "VisionTransformer"


COLUMN = {"img_size": SIZE, "patch_size": 4, "embed_dim": DIM, "depth": 2, "num_heads": HEADS}
STAGES = {"img_size": SIZE, "patch_size": 4, "embed_dim": DIM, "depths": (2, 2)}
SWIN = STAGES | {"num_heads": (2, 4), "window_size": WINDOW, "drop_path_rate": 0.0}
VIT = partial(VisionTransformer, **COLUMN, dynamic_img_size=True)
BEIT = partial(beit.Beit, **COLUMN)
RELPOS = partial(vision_transformer_relpos.VisionTransformerRelPos, **COLUMN)
# Its patch kernel covers one patch, so that the grid is the images' in quarters.
HIERA = partial(
    hiera.Hiera, img_size=(16, 24), embed_dim=DIM, num_heads=1, stages=(1, 1), q_pool=1,
    mask_unit_size=(2, 2), mask_unit_attn=(True, False),
)  # fmt: skip
NAFLEX = partial(
    naflexvit.NaFlexVit, patch_size=4, embed_dim=DIM, depth=2, num_heads=HEADS,
    pos_embed_grid_size=GRID, class_token=True, reg_tokens=2,
)  # fmt: skip
OTHERS = ((16, 24), (40, 12))

FAMILIES = {
    "vit": Member(VIT, sizes=OTHERS),
    "deit distilled": Member(
        partial(VisionTransformerDistilled, **COLUMN, dynamic_img_size=True), sizes=OTHERS,
        kind="VisionTransformerDistilled",
    ),
    "vit parallel": Member(partial(VIT, block_fn=ParallelScalingBlock), sizes=OTHERS),
    "vit branches": Member(partial(VIT, block_fn=ParallelThingsBlock), sizes=OTHERS),
    "vit differential": Member(
        partial(VIT, attn_layer=DiffAttention), sizes=OTHERS, width=WIDTH // 2
    ),
    "vit differential parallel": Member(
        partial(VIT, block_fn=DiffParallelScalingBlock), sizes=OTHERS, width=WIDTH // 2
    ),
    "eva02": Member(
        partial(eva.Eva, **COLUMN, dynamic_img_size=True, use_rot_pos_emb=True), sizes=OTHERS,
        kind="Eva",
    ),
    "naflex": Member(NAFLEX, sizes=OTHERS, kind="NaFlexVit"),
    "naflex rope": Member(
        partial(NAFLEX, rope_type="mixed", pos_embed="factorized"), sizes=OTHERS, kind="NaFlexVit"
    ),
    "beit": Member(partial(BEIT, use_rel_pos_bias=True), kind="Beit"),
    "beit shared": Member(
        partial(BEIT, use_shared_rel_pos_bias=True, use_abs_pos_emb=False, init_values=0.5),
        kind="Beit",
    ),
    "relpos": Member(RELPOS, kind="VisionTransformerRelPos"),
    "relpos shared": Member(
        partial(RELPOS, shared_rel_pos=True, rel_pos_type="bias", class_token=True, qk_norm=True),
        kind="VisionTransformerRelPos",
    ),
    "swin": Member(
        partial(swin_transformer.SwinTransformer, **SWIN), heads=(2, 4), window=WINDOW,
        kind="SwinTransformer",
    ),
    "swin dynamic": Member(
        partial(swin_transformer.SwinTransformer, **SWIN, dynamic_img_size=True),
        sizes=((28, 44), (48, 60)), heads=(2, 4), window=WINDOW, kind="SwinTransformer",
    ),
    "swin v2": Member(
        partial(swin_transformer_v2.SwinTransformerV2, **SWIN), heads=(2, 4), window=WINDOW,
        kind="SwinTransformerV2",
    ),
    "sam": Member(
        partial(
            vision_transformer_sam.VisionTransformerSAM, **COLUMN, use_rel_pos=True, window_size=4,
            global_attn_indexes=(1,), neck_chans=8,
        ),
        "additive rotary", sizes=OTHERS, kind="VisionTransformerSAM",
    ),
    "hiera": Member(HIERA, "additive", kind="Hiera"),
    "hiera of windows": Member(
        partial(HIERA, abs_win_pos_embed=True, global_pos_size=(3, 2)), "additive", kind="Hiera"
    ),
    "hieradet": Member(
        partial(
            hieradet_sam2.HieraDet, embed_dim=DIM, num_heads=1, stages=(1, 1, 1, 1),
            global_pos_size=(3, 2), window_spec=(8, 4, 4, 2), global_att_blocks=(),
        ),
        "additive", kind="HieraDet",
    ),
}  # fmt: skip


def make(name, **kwargs):
    model = FAMILIES[name].make(num_classes=5, **kwargs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def images(name, batch=2, size=None, seed=0):
    if FAMILIES[name].kind == "Hiera":
        size = (16, 24)
    elif FAMILIES[name].kind == "HieraDet":
        size = (64, 96)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, *(size or SIZE), generator=generator)


def encodings(name, slot):
    """Learned encodings that fill a slot: one, or one for each stage."""
    member = FAMILIES[name]
    several: dict[str, list[torch.nn.Module]] = {
        "additive": [pm.Learned(DIM, (4, 7), std=0.5)],
        "rotary": [pm.MixedRotary(member.width, own) for own in turning(member)],
        "bias": [pm.RelativeBias(own, member.window, std=0.5) for own in member.heads],
    }
    return several[slot][0] if len(several[slot]) == 1 else several[slot]


def turning(member):
    """Heads whose queries turn: twice as many of half the channels in differential attention."""
    return [own * WIDTH // member.width for own in member.heads]


def all_of(name):
    """An encoding in every slot that the family carries."""
    return {slot: encodings(name, slot) for slot in FAMILIES[name].works.split()}


CASES = [(name, slot) for name, member in FAMILIES.items() for slot in member.works.split()]
