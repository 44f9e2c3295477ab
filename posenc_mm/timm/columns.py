"""Models of one column of blocks over flat tokens: ViT, Eva, BEiT, ViT with relative positions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posenc_mm.additive import ConditionalEncoding
from posenc_mm.fronting import Fronted
from posenc_mm.timm.slots import Here
from posenc_mm.timm.views import Acts, Attached, Blocks, Embed, View, four_axes, merge

Conditional = Callable[[Tensor], Tensor]


class ColumnCall(View):
    """One forward of an attached model, and what its encodings say at this forward's patches.

    Rotations and masks are one for all blocks or one for each.
    """

    def __init__(self, model: Any, mask: Tensor | None = None, is_causal: bool = False) -> None:
        super().__init__(model)
        if is_causal and "bias" in model.posenc:
            raise ValueError("is_causal excludes a bias, pass the causal rule as attn_mask instead")
        self._causal = is_causal
        self._masks = [] if mask is None else [mask]
        self._rotations: list[Any] = []
        self._points: Tensor | None = None
        drop = getattr(model, "patch_drop", None)
        self.patch_drop = drop if drop is None or isinstance(drop, nn.Identity) else self._drop

    @property
    def blocks(self) -> Blocks:
        each = []
        for index, block in enumerate(self._module.blocks):
            given: dict[str, Any] = {"is_causal": True} if self._causal else {}
            if self._masks:
                given[self._module.mask] = self._masks[index if len(self._masks) > 1 else 0]
            if isinstance(block, Fronted):
                turns = self._rotations
                rotation = turns[index if len(turns) > 1 else 0] if turns else None
                native = self._module.posenc.keep_native
                given = {"acts": Acts(rotation, native=native, given=given)}
            each.append(partial(_run, block, given, None if index else self._conditional()))
        return Blocks(each)

    def _evaluate(self, here: Here, dtype: torch.dtype) -> Tensor | None:
        """Take what the encodings say of rotations and masks, and return what is to be added."""
        slots, prefix = self._module.posenc, self._module.num_prefix_tokens
        if "rotary" in slots:
            self._rotations = slots.each("rotary", [here], prefix)
        if "bias" in slots:
            mask = self._masks[0] if self._masks else None
            said = slots.each("bias", [here], prefix)
            self._masks = [merge(bias, mask).to(dtype) for bias in said]
        if "additive" not in slots:
            return None
        ((encoding, maker),) = slots.placed("additive")
        if isinstance(encoding, ConditionalEncoding):
            self._points = here.positions(encoding, maker)
            return None
        table: Tensor = slots.added(here)
        return table

    def _conditional(self) -> Conditional | None:
        if self._points is None:
            return None
        encoding, prefix = self._module.posenc["additive"], self._module.num_prefix_tokens
        return partial(_condition, encoding, self._points, prefix)

    def _drop(self, tokens: Tensor) -> Any:
        # timm's module drops token numbers in place of tokens, and so tells which it keeps.
        batch, count, width = tokens.shape
        numbers = torch.arange(count, device=tokens.device).expand(batch, count).unsqueeze(-1)
        answer = self._module.patch_drop(numbers)
        left = answer[0] if isinstance(answer, tuple) else answer
        if left is not numbers:
            tokens = tokens.gather(1, left.expand(-1, -1, width))
            kept = left.squeeze(-1)
            self._rotations = [rotation.keep(kept) for rotation in self._rotations]
            self._masks = [_keep(mask, kept, count) for mask in self._masks]
            if self._points is not None:
                prefix = self._module.num_prefix_tokens
                self._points = _rows(self._points, kept[:, prefix:] - prefix)
        return (tokens, *answer[1:]) if isinstance(answer, tuple) else tokens


class VitCall(ColumnCall):
    """ViT and Eva add their embedding in ``_pos_embed``."""

    def __init__(self, model: Any, image: Tensor, *args: Any) -> None:
        super().__init__(model, *args)
        self._size = image.shape[-2:]

    def _pos_embed(self, patches: Tensor) -> Any:
        model, prefix = self._module, self._module.num_prefix_tokens
        flat = patches.ndim == 3
        size = model.patch_embed.dynamic_feat_size(self._size) if flat else patches.shape[1:3]
        table = self._evaluate(Here(size, patches.device, model.posenc.drawing), patches.dtype)
        # The weights' dtype, not the patches': autocast must not round what is added to tokens.
        dtype = getattr(model.patch_embed.proj, "weight", patches).dtype
        table = None if table is None else table.to(dtype)
        native = (model.pos_embed, getattr(model, "rope", None))
        if model.posenc.keep_native and any(own is not None for own in native):
            if table is not None:
                patches = patches + table.reshape(-1, *patches.shape[1:])
            return model._original._pos_embed(self, patches)
        if table is None:
            # A model without a positional embedding would skip its dropout.
            table = torch.zeros(1, patches.shape[-1], dtype=dtype, device=patches.device)
        elif not getattr(model, "no_embed_class", False):
            table = F.pad(table, (0, 0, prefix, 0))
        self.pos_embed = table if table.ndim == 3 else table.unsqueeze(0)
        self.rope, self.dynamic_img_size = None, False
        return model._original._pos_embed(self, patches.flatten(1, -2))


class AttachedVit(Attached):
    """``VisionTransformer`` and ``Eva``."""

    native = r"pos_embed|rope\..*"
    conditional = True
    checked = ("forward_features", "forward_intermediates", "_pos_embed")

    def forward_features(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Any:
        return self._original.forward_features(VitCall(self, x, attn_mask, is_causal), x)

    def forward_intermediates(
        self,
        x: Tensor,
        *args: Any,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        **kwargs: Any,
    ) -> Any:
        call = VitCall(self, x, attn_mask, is_causal)
        return self._original.forward_intermediates(call, x, *args, **kwargs)


class _SharedCall(ColumnCall):
    """BEiT and the relative ViT give all blocks one bias by argument."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        setattr(self, model.shared, None)
        self.patch_embed = Embed(model.patch_embed, self._embedded)
        self.pos_embed = getattr(model, "pos_embed", None) if model.posenc.keep_native else None

    def _embedded(self, patches: Tensor, image: Tensor) -> Tensor:
        model = self._module
        size = model.patch_embed.dynamic_feat_size(image.shape[-2:])
        added = self._evaluate(Here(size, patches.device, model.posenc.drawing), patches.dtype)
        own = getattr(model, model.shared) if model.posenc.keep_native else None
        if own is not None:
            bias = four_axes(model.shared_bias(own))
            self._masks = [mask + bias for mask in self._masks] or [bias]
        return patches if added is None else patches + added.to(patches.dtype)


class AttachedBeit(Attached):
    """BEiT, whose bias is a table of each block's or of all."""

    native = r"pos_embed|rel_pos_bias\..*|blocks\.\d+\.attn\.relative_position_bias_table"
    conditional = True
    mask, shared, inside = "shared_rel_pos_bias", "rel_pos_bias", True
    call = _SharedCall

    @staticmethod
    def shared_bias(own: Any) -> Tensor:
        """The bias of all blocks."""
        bias: Tensor = own()
        return bias


class AttachedRelPos(Attached):
    """``VisionTransformerRelPos``, whose bias is a table or a network of each block's or of all."""

    native = r"shared_rel_pos\..*|blocks\.\d+\.attn\.rel_pos\..*"
    conditional = True
    mask, shared, inside = "shared_rel_pos", "shared_rel_pos", True
    call = _SharedCall

    @staticmethod
    def shared_bias(own: Any) -> Tensor:
        """The bias of all blocks."""
        bias: Tensor = own.get_bias()
        return bias


def _run(
    block: Any, given: dict[str, Any], then: Conditional | None, tokens: Tensor, **passed: Any
) -> Any:
    if passed.get("attn_mask") is not None:
        raise ValueError("attn_mask must be passed by name to a model with encodings attached")
    tokens = block(tokens, **{**passed, **given})
    return tokens if then is None else then(tokens)


def _condition(encoding: Any, points: Tensor, prefix: int, tokens: Tensor) -> Tensor:
    added = encoding(tokens[:, prefix:], points)
    return tokens + F.pad(added, (0, 0, prefix, 0)).to(tokens.dtype)


def _rows(points: Tensor, kept: Tensor) -> Tensor:
    """Positions ``(B, K, A)`` of the patches that each sample keeps."""
    if points.ndim == 2:
        return points[kept]
    return points.gather(1, kept.unsqueeze(-1).expand(-1, -1, points.shape[-1]))


def _keep(mask: Tensor, kept: Tensor, count: int) -> Tensor:
    """Rows and columns ``kept (B, K)`` of a mask that broadcasts to ``(B, H, count, count)``."""
    full = mask[(None,) * (4 - mask.ndim)].expand(len(kept), -1, count, count)
    samples = torch.arange(len(kept), device=kept.device)[:, None, None]
    return full[samples, :, kept[:, :, None], kept[:, None, :]].movedim(-1, 1)
