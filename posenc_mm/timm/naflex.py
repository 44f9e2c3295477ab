"""NaFlexVit: patches of images of any size in one batch, which may bring their coordinates."""

from typing import Any

import torch
from torch import Tensor

from posenc_mm.timm.columns import ColumnCall
from posenc_mm.timm.slots import Here, HereByCoordinate
from posenc_mm.timm.views import Attached, Front, View, merge

# Rows between tokens of padding: more than a convolution spans.
_APART = 16


class _Embeds(View):
    """The embedding of patches, without its own tables, and with something added in their place."""

    @property
    def pos_embed_type(self) -> str:
        return str(self._module.pos_embed_type) if self._acts[0] else "none"

    def norm(self, patches: Tensor) -> Any:
        return self._acts[1](self._module.norm(patches))


class _Embedding(View):
    def __call__(self, x: Tensor, **kwargs: Any) -> Any:
        return self._module(x, acts=self._acts, **kwargs)


class EmbedsFront(Front):
    """NaFlexVit's embedding of patches."""

    _view = _Embeds


class _NaFlexCall(ColumnCall):
    def __init__(
        self, model: Any, patches: Tensor, coord: Tensor | None, valid: Tensor | None, mask: Any
    ) -> None:
        super().__init__(model, mask)
        self._patches, self._coord, self._masked = patches, coord, mask is not None
        self._valid = valid
        self.embeds = _Embedding(model.embeds, (model.posenc.keep_native, self._embedded))
        if not model.posenc.keep_native:
            self.rope, self.rope_is_mixed = None, False

    def _embedded(self, patches: Tensor) -> Tensor:
        drawing = self._module.posenc.drawing
        if self._coord is None:
            size = self._module.embeds.dynamic_feat_size(self._patches.shape[-2:])
            here = Here(size, patches.device, drawing)
        else:
            here = HereByCoordinate(self._coord, drawing)
        added = self._evaluate(here, patches.dtype)
        if self._points is not None and self._coord is not None and self._valid is not None:
            # Padding repeats a coordinate, at which it would be a neighbour of others.
            number = torch.arange(1, self._valid.shape[1] + 1, device=patches.device)
            apart = (-_APART * number).unsqueeze(-1).to(self._points.dtype)
            self._points = torch.where(self._valid.bool().unsqueeze(-1), self._points, apart)
        return patches if added is None else patches + added.to(patches.dtype)

    def _forward_embeds(self, x: Tensor, **kwargs: Any) -> dict[str, Any]:
        said: dict[str, Any] = self._module._original._forward_embeds(self, x, **kwargs)
        own = said["attn_mask"]
        if own is not None and not self._masked:
            # Of padding; after any dropping of patches, as ours are by now.
            self._masks = [merge(mask, own) for mask in self._masks] or [own]
        return {**said, "attn_mask": None}


class AttachedNaFlex(Attached):
    """``NaFlexVit``."""

    native = r"embeds\.pos_embed\w*|rope\..*"
    conditional = True
    checked = ("forward_features", "forward_intermediates", "_forward_embeds")

    def forward_features(
        self,
        patches: Tensor,
        patch_coord: Tensor | None = None,
        patch_valid: Tensor | None = None,
        attn_mask: Tensor | None = None,
    ) -> Any:
        call = _NaFlexCall(self, patches, patch_coord, patch_valid, attn_mask)
        given = {"patch_coord": patch_coord, "patch_valid": patch_valid, "attn_mask": attn_mask}
        return self._original.forward_features(call, patches, **given)

    def forward_intermediates(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        named = x if isinstance(x, dict) else {"patches": x}
        coord = named.get("patch_coord", kwargs.get("patch_coord"))
        valid = named.get("patch_valid", kwargs.get("patch_valid"))
        mask = named.get("attn_mask", kwargs.get("attn_mask"))
        call = _NaFlexCall(self, named["patches"], coord, valid, mask)
        return self._original.forward_intermediates(call, x, *args, **kwargs)

    def no_weight_decay(self) -> set[str]:
        # timm's own names the frequencies without "rope." and leaves the factorised tables out.
        named: Any = self
        kept = ("embeds.pos_embed", "rope.")
        own = {name for name, _ in named.named_parameters() if name.startswith(kept)}
        return super().no_weight_decay() | own
