"""Checkpoints of a plain ``nn.TransformerEncoder`` over patches, run by timm's VisionTransformer.

timm's own blocks normalise before attention and MLP. ``nn.TransformerEncoderLayer`` does so after,
unless told otherwise, which takes one more block; everything else is a change of names.
"""

import math
import re
from functools import partial
from typing import Any

import torch
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

# What a layer's parameters are called there, and here.
LAYER = {
    "self_attn.in_proj_": "attn.qkv.",
    "self_attn.out_proj.": "attn.proj.",
    "linear1.": "mlp.fc1.",
    "linear2.": "mlp.fc2.",
    "norm1.": "norm1.",
    "norm2.": "norm2.",
}
# What a class token, a table and a cut into patches are called in such files.
STEM = {
    "cls_token": "cls_token",
    "pos_embed": "pos_embed",
    "pos_embedding": "pos_embed",
    "patch_embed.proj.weight": "patch_embed.proj.weight",
    "patch_embed.proj.bias": "patch_embed.proj.bias",
}
_LAYER = re.compile(r"^(?:.*\.)?layers\.(\d+)\.(\w.*)$")
_HEAD = re.compile(r"^(?:.*\.)?(?:mlp_head|head|classifier|fc)\.(?:(\d+)\.)?(weight|bias)$")
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class PostNormBlock(Block):
    """timm's block with its norms after the sums, as in Vaswani et al. (2017).

    Its parameters carry timm's names, and its attention is timm's: encodings attach to it.
    """

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        attended = self.attn(x, attn_mask=attn_mask, is_causal=is_causal)
        x = self.norm1(x + self.drop_path1(self.ls1(attended)))
        return self.norm2(x + self.drop_path2(self.ls2(self.mlp(x))))


def is_encoder(state: dict[str, Tensor]) -> bool:
    """Tell by its names whether a state dict is of an ``nn.TransformerEncoder`` over patches.

    Args:
        state: parameters by name.

    Returns:
        The answer.
    """
    return any(".self_attn.in_proj_weight" in f".{name}" for name in state)


def host_encoder(
    state: dict[str, Tensor],
    grid: tuple[int, int],
    *,
    heads: int,
    activation: str = "relu",
    norm_first: bool = False,
) -> VisionTransformer:
    """Build timm's VisionTransformer around such a state dict.

    Args:
        state: parameters by name: ``patch_embed.proj``, ``cls_token`` if there is one,
            ``pos_embed``, layers, and a head, with a norm before it or without.
        grid: patches per column and per row of the images it was trained on.
        heads: of its attention; the file does not say.
        activation: ``"relu"`` or ``"gelu"``; the file does not say.
        norm_first: whether its layers normalise first; the file does not say.

    Returns:
        The model, with these weights, for images of any whole number of patches.

    Raises:
        ValueError: a parameter is missing or has no place, or ``heads`` does not divide the width.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation must be one of {sorted(ACTIVATIONS)}, got activation={activation!r}"
        )
    named = renamed(state)
    needed = {"patch_embed.proj.weight", "pos_embed", "blocks.0.mlp.fc1.weight"} - named.keys()
    if needed:
        raise ValueError(
            f"the checkpoint must hold {sorted(needed)} under these or the names {sorted(STEM)}, "
            f"found {sorted(state)[:8]} and {max(len(state) - 8, 0)} more"
        )
    weight, table = named["patch_embed.proj.weight"], named["pos_embed"]
    dim, channels, *patch = weight.shape
    prefix = int("cls_token" in named)
    if heads < 1 or dim % heads:
        raise ValueError(f"heads must divide the width {dim}, got heads={heads}")
    if table.numel() != (prefix + math.prod(grid)) * dim:
        raise ValueError(
            f"the table must have {prefix} + {grid[0]} x {grid[1]} rows of {dim}, got shape "
            f"{tuple(table.shape)}; state the size that it was trained at"
        )
    head, normed = named.get("head.weight"), "norm.weight" in named
    if normed and not prefix:  # the mean over patches comes first, and then the norm
        for part in ("weight", "bias"):
            named[f"fc_norm.{part}"] = named.pop(f"norm.{part}")
    model = VisionTransformer(
        img_size=(grid[0] * patch[0], grid[1] * patch[1]),
        patch_size=tuple(patch),
        in_chans=channels,
        num_classes=0 if head is None else len(head),
        global_pool="token" if prefix else "avg",
        embed_dim=dim,
        depth=1 + max(int(name.split(".")[1]) for name in named if name.startswith("blocks.")),
        num_heads=heads,
        mlp_ratio=len(named["blocks.0.mlp.fc1.weight"]) / dim,
        class_token=bool(prefix),
        fc_norm=normed and not prefix,
        final_norm=normed,
        dynamic_img_size=True,
        act_layer=ACTIVATIONS[activation],
        norm_layer=partial(nn.LayerNorm, eps=1e-5),
        block_fn=Block if norm_first else PostNormBlock,
    )
    named["pos_embed"] = table.reshape(1, -1, dim)
    answer: Any = model.load_state_dict(named, strict=False)
    if answer.missing_keys or answer.unexpected_keys:
        raise ValueError(
            f"the checkpoint must be of patches, an encoder and a head; missing "
            f"{answer.missing_keys[:5]}, without a place {answer.unexpected_keys[:5]}"
        )
    return model.eval()


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the parameters of such a state dict timm's names; unknown ones keep theirs.

    Args:
        state: parameters by name.

    Returns:
        The same tensors by other names.
    """
    heads = [found for found in map(_HEAD.match, state) if found]
    # A head of several parts is a norm, of one axis, and then a linear layer, of two.
    parts = {found[1]: state[found.string].ndim for found in heads if found[2] == "weight"}
    called = {part: "head" if axes == 2 else "norm" for part, axes in parts.items()}
    out = {}
    for name, value in state.items():
        layer, head = _LAYER.match(name), _HEAD.match(name)
        new = STEM.get(name, name)
        if layer:
            new = f"blocks.{layer[1]}.{layer[2]}"
            for theirs, ours in LAYER.items():
                new = new.replace(f".{theirs}", f".{ours}")
        elif head and head[1] in called:
            new = f"{called[head[1]]}.{head[2]}"
        out[new] = value.detach().to(torch.float32)
    return out
