"""What another image size changes in each family of timm: sizes by its own code, tables by ours."""

import warnings
from collections.abc import Callable
from typing import Any

from timm.models.beit import Beit
from timm.models.eva import Eva
from timm.models.hiera import Hiera
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_sam import VisionTransformerSAM
from torch import Tensor, nn

from posenc_mm.resizing import Rule, resize_bias_table, resize_patch_kernel, resize_table

Values = list[tuple[nn.Module, str, Tensor]]
Pair = tuple[int, int]

# What a name of timm's, architecture and tag, says of the rule that the authors resize by.
_CHECKPOINTS = {
    "reg4_dinov2": "dinov2_reg",
    "dinov2": "dinov2",
    "flexivit": "flexivit",
    "vit_pe_": "pe",
    ".mae": "mae",
    "deit": "deit",
}


def rule_for(model: nn.Module) -> str | Rule | None:
    """The rule of a model's checkpoint, where its name tells.

    Args:
        model: a model of timm's.

    Returns:
        The name of a rule, or ``None``.
    """
    told: Any = getattr(model, "pretrained_cfg", None) or {}
    name = f"{told.get('architecture') or ''}.{told.get('tag') or ''}"
    return next((rule for part, rule in _CHECKPOINTS.items() if part in name), None)


def family_of(model: nn.Module) -> tuple[Callable[[Any, Pair, Pair | None, Any], Values], Any]:
    """How models of this family are resized.

    Args:
        model: a model of timm's.

    Returns:
        What sets the sizes and returns the tables for them (module, name, value), and the model.

    Raises:
        ValueError: the family is not known.
    """
    for kind, change in _FAMILIES.items():
        if isinstance(model, kind):
            return change, model
    if type(model).__name__ == "NaFlexVit":
        return _naflex, model
    names = [kind.__name__ for kind in _FAMILIES] + ["NaFlexVit"]
    raise ValueError(
        f"model must be one of timm's {names}, got {type(model).__name__}, whose tables are not "
        f"known here: take a wrapper off, or see whether timm's own set_input_size does"
    )


def _flat(model: Any, size: Pair, patch: Pair | None, rule: Any) -> Values:
    old, table = model.patch_embed.grid_size, model.pos_embed
    shared = getattr(model, "rel_pos_bias", None)
    owners = [] if shared is None else [shared]
    owners += [block.attn for block in model.blocks] if isinstance(model, Beit) else []
    biases = _biases(owners)
    values = _set_size(model, size, patch, rule)
    new = model.patch_embed.grid_size
    if table is not None:
        prefix = 0 if getattr(model, "no_embed_class", False) else model.num_prefix_tokens
        value = resize_table(table, old, new, rule=rule or "timm", prefix=prefix)
        values.append((model, "pos_embed", value))
    return values + _resize_biases(biases, rule, 3)


def _swin(model: Any, size: Pair, patch: Pair | None, rule: Any) -> Values:
    biases = _biases([block.attn for stage in model.layers for block in stage.blocks])
    return _set_size(model, size, patch, rule) + _resize_biases(biases, rule, 0)


def _sam(model: Any, size: Pair, patch: Pair | None, rule: Any) -> Values:
    _keep_patches(model, patch)
    _check_filled(size, model.patch_embed.feat_ratio(as_scalar=False))
    model.patch_embed.set_input_size(img_size=size)
    new, values = model.patch_embed.grid_size, []
    if model.pos_embed is not None:
        old = tuple(model.pos_embed.shape[1:3])
        values.append((model, "pos_embed", _cells(model.pos_embed, old, new, rule)))
    for block in model.blocks:
        if block.window_size == 0 and block.attn.use_rel_pos:
            for name, target in zip(("rel_pos_h", "rel_pos_w"), new, strict=True):
                rows = getattr(block.attn, name)
                source = (len(rows) + 1) // 2
                # timm reads it so at any size: the numbers stay those of the model.
                value = resize_bias_table(rows, source, target, rule="bilinear")
                values.append((block.attn, name, value))
    if model.rope_global is not None:
        model.rope_global.update_feat_shape(new)
    return values


def _naflex(model: Any, size: Pair, patch: Pair | None, rule: Any) -> Values:
    _keep_patches(model, patch)
    embeds = model.embeds
    _check_filled(size, embeds.patch_size)
    new = (size[0] // embeds.patch_size[0], size[1] // embeds.patch_size[1])
    if embeds.pos_embed_ar_preserving and new[0] != new[1]:
        raise ValueError(
            f"size must be square for a NaFlexVit that keeps the aspect ratio of its table and "
            f"crops it to each image (pos_embed_ar_preserving), got size={size}"
        )
    embeds.pos_embed_grid_size = new
    if embeds.default_img_size is not None:
        embeds.default_img_size = size
    if embeds.pos_embed_type == "learned":
        if rule is None:
            rule = _own_rule(embeds)
        table = embeds.pos_embed
        return [(embeds, "pos_embed", _cells(table, tuple(table.shape[1:3]), new, rule))]
    values: Values = []
    for name, target in zip(("pos_embed_y", "pos_embed_x"), new, strict=True):
        rows = getattr(embeds, name)
        if rows is not None:
            value = resize_table(rows, rows.shape[1], target, rule=rule or "bilinear")
            values.append((embeds, name, value))
    return values


def _hiera(model: Any, size: Pair, patch: Pair | None, rule: Any) -> Values:
    _keep_patches(model, patch)
    if model.pos_embed is None or len(model.patch_stride) != 2:
        raise ValueError(
            "model must be a Hiera of images: how the tables of videos resize is not known here"
        )
    unit = tuple(s * m for s, m in zip(model.patch_stride, model.mask_unit_size, strict=True))
    _check_filled(size, unit)
    old = tuple(model.tokens_spatial_shape)
    new = [pixels // stride for pixels, stride in zip(size, model.patch_stride, strict=True)]
    if model.pos_embed_win is not None and rule not in (None, "timm"):
        raise ValueError(
            f"rule must be 'timm' for a Hiera with pos_embed_win, whose own code resizes its table "
            f"so at each forward, got rule={rule!r}"
        )
    if model.pos_embed_win is None and rule is None:
        raise ValueError(
            "a Hiera without pos_embed_win repeats its table by windows, which no published rule "
            "resizes (https://arxiv.org/abs/2311.05613): say a rule to do it all the same"
        )
    model.tokens_spatial_shape, model.unroll.size = new, list(new)
    model.mask_spatial_shape = [n // m for n, m in zip(new, model.mask_unit_size, strict=True)]
    steps, ends = model.unroll.schedule, model.stage_ends
    fresh = type(model.reroll)(size, model.patch_stride, steps, ends, model.q_pool)
    model.reroll.size, model.reroll.schedule = fresh.size, fresh.schedule
    if model.pos_embed_win is not None:
        return []
    return [(model, "pos_embed", resize_table(model.pos_embed, old, new, rule=rule))]


_FAMILIES: dict[type, Callable[[Any, Pair, Pair | None, Any], Values]] = {
    VisionTransformer: _flat,
    Eva: _flat,
    Beit: _flat,
    SwinTransformer: _swin,
    VisionTransformerSAM: _sam,
    Hiera: _hiera,
}


def _cells(table: Tensor, old: Pair, new: Pair, rule: Any) -> Tensor:
    if old == new:
        return table
    # As rows and back: a grid (1, H, W, D) with one row of cells could pass for rows already.
    out = resize_table(table.flatten(0, 2), old, new, rule=rule or "timm")
    return out.reshape(1, *new, -1)


def _own_rule(embeds: Any) -> Rule:
    """The rule by which a NaFlexVit resizes its table at each forward."""
    kernels, mode = {"bicubic": "cubic", "bilinear": "linear"}, embeds.pos_embed_interp_mode
    if mode not in kernels:
        raise ValueError(f"rule must be said for a NaFlexVit that interpolates by {mode!r}")
    corners = bool(embeds.pos_embed_align_corners)
    return Rule(kernels[mode], embeds.pos_embed_antialias, corners)


def _set_size(model: Any, size: Pair, patch: Pair | None, rule: Any) -> Values:
    """Change sizes, buffers and windows by timm's own code; the patch kernel for new patches."""
    if not hasattr(model, "set_input_size"):
        raise ValueError(
            f"model must have a set_input_size, which {type(model).__name__} has in later timm"
        )
    embed = model.patch_embed
    values: Values = []
    if embed.img_size is None:
        raise ValueError("model must have been made for an image size, got img_size=None")
    proj = embed.proj
    if patch is not None and patch != tuple(embed.patch_size):
        if not isinstance(proj, nn.Conv2d) or tuple(proj.stride) != tuple(embed.patch_size):
            raise ValueError(
                f"patch_size can change where one convolution embeds patches side by side, got a "
                f"{type(embed).__name__} with {proj}"
            )
        by = "flexivit" if rule == "flexivit" else "timm"
        values.append((proj, "weight", resize_patch_kernel(proj.weight, patch, rule=by)))
        # timm would put another convolution in place of one of another size, and with patches that
        # are right already looks at the image's alone.
        proj.kernel_size = proj.stride = embed.patch_size = patch
        embed.img_size = None
    _check_filled(size, embed.feat_ratio(as_scalar=False))
    with warnings.catch_warnings():
        # About how timm interpolates biases, whose numbers are replaced by ours in any case.
        warnings.filterwarnings("ignore", module=r"timm\.layers\.interpolate")
        model.set_input_size(img_size=size, patch_size=patch)
    return values


def _biases(owners: list[Any]) -> list[tuple[Any, Pair, Tensor]]:
    named = [(owner, getattr(owner, "relative_position_bias_table", None)) for owner in owners]
    return [(owner, owner.window_size, table) for owner, table in named if table is not None]


def _resize_biases(biases: list[tuple[Any, Pair, Tensor]], rule: Any, extra: int) -> Values:
    # What timm does, asked for by name or not.
    by = "geometric" if rule in (None, "timm") else rule
    name = "relative_position_bias_table"
    return [
        (owner, name, resize_bias_table(table, old, owner.window_size, rule=by, extra=extra))
        for owner, old, table in biases
    ]


def _keep_patches(model: Any, patch: Pair | None) -> None:
    if patch is not None:
        raise ValueError(
            f"patch_size of a {type(model).__name__} cannot change: only for flat tokens and Swin "
            f"is it known what depends on it"
        )


def _check_filled(size: Pair, unit: tuple[int, ...]) -> None:
    if any(pixels % each for pixels, each in zip(size, unit, strict=True)):
        raise ValueError(f"size must be a multiple of {tuple(unit)}, got size={size}")
