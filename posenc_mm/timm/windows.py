"""Models that attend within windows: Swin, Swin V2, SAM; and Hiera, which also regroups tokens."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from posenc_mm.timm.slots import Here, Slots
from posenc_mm.timm.views import Acts, Attached, Blocks, Embed, View, four_axes


class _WindowsCall(View):
    """One forward: each attention has what is said of its own window."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.patch_embed = Embed(model.patch_embed, self._embedded)
        self._each: list[Acts] | None = None

    def _embedded(self, patches: Tensor, image: Tensor) -> Tensor:
        model, slots = self._module, self._module.posenc
        here = Here(patches.shape[1:3], patches.device, slots.drawing)
        places = model.places(model, here)
        turns = _spread(slots, "rotary", places)
        biases = _spread(slots, "bias", places)
        self._each = [
            Acts(turn, None if bias is None else four_axes(bias).to(patches.dtype), _native(slots))
            for turn, bias in zip(turns, biases, strict=True)
        ]
        if "additive" not in slots:
            return patches
        table: Tensor = slots.added(here).to(patches.dtype)
        return patches + table.reshape(-1, *patches.shape[1:])


class _SwinCall(_WindowsCall):
    @property
    def layers(self) -> Any:
        if self._each is None:
            return self._module.layers
        stages, left = [], iter(self._each)
        for stage in self._module.layers:
            stages.append(partial(stage, acts=[next(left) for _ in stage.blocks]))
        return Blocks(stages)


class _SamCall(_WindowsCall):
    @property
    def blocks(self) -> Any:
        blocks = self._module.blocks
        if self._each is None:
            return blocks
        return Blocks([partial(b, acts=a) for b, a in zip(blocks, self._each, strict=True)])

    @property
    def pos_embed(self) -> Any:
        return self._module.pos_embed if _native(self._module.posenc) else None


class AttachedSwin(Attached):
    """Swin and Swin V2."""

    native = r"layers\.\d+\.blocks\.\d+\.attn\.(relative_position_bias_table|cpb_mlp\..*)"
    inside = True
    call = _SwinCall

    @classmethod
    def width(cls, model: Any) -> int:
        return int(model.patch_embed.proj.out_channels)

    @classmethod
    def blocks_of(cls, model: Any) -> dict[str, Any]:
        return {
            f"layers.{stage}.blocks.{index}": block
            for stage, layer in enumerate(model.layers)
            for index, block in enumerate(layer.blocks)
        }

    @classmethod
    def stages(cls, model: Any) -> list[Any]:
        return list(model.layers)

    @classmethod
    def stages_of(cls, model: Any) -> list[int]:
        return [len(layer.blocks) for layer in model.layers]

    @classmethod
    def places(cls, model: Any, here: Here) -> list[Here]:
        return _windows([block.window_size for block in cls.blocks_of(model).values()], here)


class AttachedSam(Attached):
    """SAM's image encoder."""

    native = r"pos_embed|blocks\.\d+\.attn\.rel_pos_[hw]"
    refused: ClassVar[dict[str, str]] = {
        "bias": "its attention takes no bias beside the one that it reads off its queries"
    }
    inside = True
    call = _SamCall

    @classmethod
    def check(cls, model: Any, slots: Slots) -> None:
        own = any(block.attn.use_rel_pos for block in model.blocks)
        if own and slots.keep_native and "rotary" in slots:
            raise ValueError(
                "keep_native does not go with rotary here: SAM reads its own bias off the queries, "
                "which would be turned ones; attach rotary without keep_native"
            )

    @classmethod
    def places(cls, model: Any, here: Here) -> list[Here]:
        sizes = [(block.window_size,) * 2 if block.window_size else None for block in model.blocks]
        return _windows(sizes, here)


class _HieraCall(View):
    def _pos_embed(self, x: Tensor) -> Any:
        model, slots = self._module, self._module.posenc
        if _native(slots):
            x = model._original._pos_embed(model, x)
        if "additive" not in slots:
            return x
        here = model.places(model, Here(x.shape[1:-1], x.device, slots.drawing))[0]
        return x + slots.added(here).to(x.dtype).reshape(-1, *x.shape[1:])


class AttachedHiera(Attached):
    """Hiera, whose tokens lie in the order of the grid where it adds its embedding."""

    native = r"pos_embed\w*"
    refused: ClassVar[dict[str, str]] = {
        "rotary": "it takes the largest of neighbouring queries, after which no rotation of theirs "
        "is one of the pooled query",
        "bias": "its attention takes none",
    }
    checked = ("forward_features", "forward_intermediates", "_pos_embed")
    call = _HieraCall

    def no_weight_decay(self) -> set[str]:
        # timm's own raises for separable tables and leaves the window's out.
        named: Any = self
        names = {name for name, _ in named.named_parameters()}
        return {name for name in names if name.startswith(("pos_embed", "posenc."))}

    @classmethod
    def width(cls, model: Any) -> int:
        return int(model.patch_embed.proj.out_channels)

    @classmethod
    def places(cls, model: Any, here: Here) -> list[Here]:
        shape = getattr(model, "tokens_spatial_shape", None)
        return [here if shape is None else Here(shape, here.device, here.drawing)]


def _native(slots: Any) -> bool:
    return bool(slots.keep_native)


def _spread(slots: Any, slot: str, places: Sequence[Here]) -> list[Any]:
    if slot not in slots:
        return [None] * len(places)
    said: list[Any] = slots.each(slot, places)
    return said * len(places) if len(said) == 1 else said


def _windows(sizes: Sequence[tuple[int, int] | None], here: Here) -> list[Here]:
    """A place for each attention, the same object for the same window; None is the whole grid."""
    made = {size: Here(size, here.device, here.drawing) for size in sizes if size is not None}
    return [here if size is None else made[size] for size in sizes]
