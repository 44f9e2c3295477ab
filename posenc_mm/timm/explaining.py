"""What a timm model has of positional encodings: its own, and what is attached."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from posenc_mm.fronting import Fronted
from posenc_mm.timm.families import family_of
from posenc_mm.timm.slots import KINDS
from posenc_mm.timm.views import Attached

_ROPES = {
    "RotaryEmbeddingCat": "axial (cat)",
    "RotaryEmbeddingMixed": "mixed, learned frequencies",
    "RotaryEmbeddingDinoV3": "dinov3, normalised coordinates",
    "RotaryEmbeddingMRope": "mrope, interleaved sections",
    "RotaryEmbedding": "axial",
}
_RELATIVE = {
    "RelPosBias": "table",
    "RelPosBiasTf": "table, resized by matrices",
    "RelPosMlp": "mlp of log offsets",
}


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found.

    Attributes:
        family: timm's class.
        additive: the model's own encoding that is added to tokens, or ``"none"``.
        rotary: its own rotation, or ``"none"``.
        bias: its own bias, or ``"none"``.
        grid: patches per axis that it was built for, None if it has no grid.
        patch: pixels per axis of a patch.
        layout: of its own rotation, None without one.
        base: of its own rotation's frequencies, None where they have none or are unknown.
        prefix: tokens before the patches.
        dynamic: whether it takes other sizes as it is.
        attached: what is attached, by slot.
        native: whether its own encodings are in force.
        refuses: slots that ``attach`` refuses, and why.
    """

    family: str
    additive: str
    rotary: str
    bias: str
    grid: tuple[int, ...] | None
    patch: tuple[int, ...] | None
    layout: str | None
    base: float | None
    prefix: int
    dynamic: bool
    attached: dict[str, str] = field(default_factory=dict)
    native: bool = True
    refuses: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        turns = [self.rotary]
        turns += [f"layout {self.layout}"] if self.layout else []
        turns += [f"base {self.base:g}"] if self.base else []
        sizes = "any size" if self.dynamic else "this size only"
        lines = [
            self.family,
            f"  patches   {_shape(self.grid)} of {_shape(self.patch)} pixels, {sizes}, after "
            f"{self.prefix} prefix tokens",
            f"  additive  {self.additive}",
            f"  rotary    {', '.join(turns)}",
            f"  bias      {self.bias}",
        ]
        if self.attached or not self.native:
            own = "beside the model's own" if self.native else "in place of the model's own"
            what = ", ".join(f"{slot} {name}" for slot, name in self.attached.items()) or "nothing"
            lines.append(f"  attached  {what}, {own}")
        lines += [f"  refused   {slot}: {why}" for slot, why in self.refuses.items()]
        return "\n".join(lines)


def explain(model: nn.Module) -> Explanation:
    """Say which positional encodings a timm model has, of its own and attached.

    Args:
        model: a model of timm, attached or not; it is not changed.

    Returns:
        A record that prints as a few lines.

    Raises:
        ValueError: the model has no patches and no attention that is known.

    Example:
        >>> import timm
        >>> print(explain(timm.create_model("vit_tiny_patch16_224", depth=1)))
        VisionTransformer
          patches   14 x 14 of 16 x 16 pixels, this size only, after 1 prefix tokens
          additive  learned table
          rotary    none
          bias      none
    """
    anything: Any = model
    try:
        family, front = family_of(model)
        refuses = dict(front.refused)
    except ValueError as error:
        family, refuses = type(model).__name__, dict.fromkeys(KINDS, str(error))
    embed = getattr(model, "patch_embed", None) or getattr(model, "embeds", None)
    if embed is None and not any(_attentions(model)):
        raise ValueError(f"model must be a vision transformer of timm, got {family}")
    grid = getattr(model, "tokens_spatial_shape", None) or getattr(embed, "grid_size", None)
    grid = grid or getattr(embed, "pos_embed_grid_size", None)
    patch = getattr(embed, "patch_size", None) or getattr(model, "patch_stride", None)
    rotary, layout, base = _rotary(model)
    dynamic = getattr(model, "dynamic_img_size", False) or family in ("NaFlexVit", "HieraDet")
    attached, slots = {}, None
    if isinstance(model, Attached):
        slots = model.posenc
        attached = {slot: _named([each for each, _ in slots.placed(slot)]) for slot in slots}
    return Explanation(
        family=family,
        additive=_additive(anything, embed),
        rotary=rotary,
        bias=_bias(model),
        grid=_numbers(grid),
        patch=_numbers(patch),
        layout=layout,
        base=base,
        prefix=int(getattr(model, "num_prefix_tokens", 0)),
        dynamic=bool(dynamic) or not getattr(embed, "strict_img_size", True),
        attached=attached,
        native=slots is None or slots.keep_native,
        refuses=refuses,
    )


def _additive(model: Any, embed: Any) -> str:
    kind = getattr(embed, "pos_embed_type", None)
    if kind is not None:
        named = {"learned": "learned grid table", "factorized": "row and column tables"}
        return named.get(kind, "none")
    if getattr(model, "pos_embed_spatial", None) is not None:
        return "tables of space and of time"
    for window in ("pos_embed_win", "pos_embed_window"):
        if getattr(model, window, None) is not None:
            return "coarse table and table of a window"
    table = getattr(model, "pos_embed", None)
    if not isinstance(table, Tensor):
        return "none"
    prefix = (
        0 if getattr(model, "no_embed_class", False) else getattr(model, "num_prefix_tokens", 0)
    )
    return (
        "learned table" if table.ndim != 3 or not _circles(table[0, prefix:]) else "sin-cos table"
    )


def _circles(table: Tensor) -> bool:
    """Whether all channels come in pairs of a sine and a cosine: each row has half its width."""
    if table.is_meta:
        return False
    squares = table.detach().double().square().sum(-1)
    return bool(torch.allclose(squares, torch.full_like(squares, table.shape[-1] / 2), rtol=1e-4))


def _rotary(model: nn.Module) -> tuple[str, str | None, float | None]:
    rope = getattr(model, "rope", None) or getattr(model, "rope_global", None)
    if rope is None:
        return "none", None, None
    halves = [m.rotate_half for m in model.modules() if hasattr(m, "rotate_half")]
    temperature = getattr(rope, "temperature", None)
    name = _ROPES.get(type(rope).__name__, type(rope).__name__)
    return name, "half" if any(halves) else "interleaved", temperature and float(temperature)


def _bias(model: nn.Module) -> str:
    shared: Any = getattr(model, "rel_pos_bias", None) or getattr(model, "shared_rel_pos", None)
    if shared is not None:
        return f"{_RELATIVE.get(type(shared).__name__, 'table')}, shared by all blocks"
    for attention in _attentions(model):
        where = _shape(_numbers(getattr(attention, "window_size", None)))
        if getattr(attention, "cpb_mlp", None) is not None:
            return f"cpb mlp of each block, window {where}"
        if getattr(attention, "relative_position_bias_table", None) is not None:
            return f"table of each block, window {where}"
        own = getattr(attention, "rel_pos", None)
        if own is not None:
            kind = _RELATIVE.get(type(own).__name__, type(own).__name__)
            return f"{kind} of each block, window {_shape(_numbers(own.window_size))}"
        if getattr(attention, "use_rel_pos", False):
            return "decomposed, read off the queries, of each block"
    return "none"


def _attentions(model: nn.Module) -> list[Any]:
    kinds = [
        (module._original if isinstance(module, Fronted) else type(module), module)
        for module in model.modules()
    ]
    return [module for kind, module in kinds if "Attention" in kind.__name__]


def _named(encodings: list[nn.Module]) -> str:
    names = [type(encoding).__name__ for encoding in encodings]
    return names[0] if len(names) == 1 else f"{len(names)} of {', '.join(sorted(set(names)))}"


def _numbers(sizes: Any) -> tuple[int, ...] | None:
    if sizes is None:
        return None
    return (int(sizes),) * 2 if isinstance(sizes, int) else tuple(int(size) for size in sizes)


def _shape(sizes: tuple[int, ...] | None) -> str:
    return "?" if sizes is None else " x ".join(str(size) for size in sizes)
