"""How a timm model runs with other encodings: its own code, with another ``self``.

While something is attached, a class below stands in front of a module's own. Its forward calls
timm's with a view of the module, which answers otherwise for what an encoding changes: a model's
for the positional embedding, the patch dropout and the blocks, a block's for its attention, an
attention's for ``q_norm`` and ``k_norm``. What holds for one image size is an argument of the calls
it was computed for and kept nowhere: other sizes before the backward, recomputation under gradient
checkpointing, compiled graphs, copies and threads cannot meet it. Modules are called: hooks run.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posenc_mm.positions import grid, rescale
from posenc_mm.rotary import Rotation, rotate

Turn = Callable[[Tensor], Tensor]


class Slots(nn.ModuleDict):
    """The encodings of an attached model, by slot, and how they get their positions."""

    def __init__(
        self,
        encodings: Mapping[str, nn.Module],
        positions: Callable[[int, int, torch.device], Tensor] | None,
        keep_native: bool,
    ) -> None:
        super().__init__(encodings)
        self.positions, self.keep_native = positions, keep_native
        self.frozen: list[str] = []

    def evaluate(self, height: int, width: int, device: torch.device) -> dict[str, Any]:
        """What each encoding says at the patches of a grid."""
        said = {}
        for slot, encoding in self.items():
            points = self._points(encoding, height, width, device)
            said[slot] = encoding(points, points) if slot == "bias" else encoding(points)
        return said

    def _points(self, encoding: Any, height: int, width: int, device: torch.device) -> Tensor:
        if self.positions is None:
            points, sizes = grid(height, width, device=device), getattr(encoding, "sizes", None)
            return points if sizes is None else rescale(points, (height, width), sizes)
        points = self.positions(height, width, device)
        if points.ndim != 2 or points.shape[0] != height * width:
            raise ValueError(
                f"positions must return ({height * width}, A) for {height} x {width} patches, got "
                f"shape {tuple(points.shape)}"
            )
        return points


class _View:
    """A module with other answers for the attributes that a subclass defines or sets."""

    def __init__(self, module: Any, turn: Any = None) -> None:
        self._module, self._turn = module, turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _AttentionView(_View):
    def q_norm(self, q: Tensor) -> Any:
        return self._turn(self._module.q_norm(q))

    def k_norm(self, k: Tensor) -> Any:
        return self._turn(self._module.k_norm(k))


class _BlockView(_View):
    def attn(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._module.attn(x, *args, turn=self._turn, **kwargs)


class _Call(_View):
    """One forward of an attached model, and what its encodings say at this forward's patches."""

    def __init__(self, model: Any, image: Tensor, mask: Tensor | None, is_causal: bool) -> None:
        super().__init__(model)
        if is_causal and "bias" in model.posenc:
            raise ValueError("is_causal excludes a bias, pass the causal rule as attn_mask instead")
        self._size, self._mask, self._causal = image.shape[-2:], mask, is_causal
        self._rotation: Rotation | None = None
        drop = model.patch_drop
        self.patch_drop = drop if drop is None or isinstance(drop, nn.Identity) else self._drop

    @property
    def blocks(self) -> "_Blocks":
        bound: dict[str, Any] = {"is_causal": True} if self._causal else {}
        if self._mask is not None:
            bound["attn_mask"] = self._mask
        if self._rotation is not None:
            # A partial is opaque to what casts the tensors among a module's arguments (FSDP).
            bound["turn"] = partial(rotate, rotation=self._rotation)
        return _Blocks([partial(_run, block, bound) for block in self._module.blocks])

    def _pos_embed(self, patches: Tensor) -> Any:
        model, slots = self._module, self._module.posenc
        flat = patches.ndim == 3
        size = model.patch_embed.dynamic_feat_size(self._size) if flat else patches.shape[1:3]
        said = slots.evaluate(*size, patches.device)
        prefix = model.num_prefix_tokens
        if "rotary" in said:
            self._rotation = said["rotary"].prefix(prefix)
        if "bias" in said:
            padded = F.pad(said["bias"], (prefix, 0, prefix, 0))
            self._mask = _merge(padded, self._mask).to(patches.dtype)
        # The weights' dtype, not the patches': autocast must not round what is added to tokens.
        dtype = getattr(model.patch_embed.proj, "weight", patches).dtype
        table = said["additive"].to(dtype) if "additive" in said else None
        native = (model.pos_embed, getattr(model, "rope", None))
        if slots.keep_native and any(own is not None for own in native):
            if table is not None:
                patches = patches + table.reshape(patches.shape[1:])
            return model._original._pos_embed(self, patches)
        if table is None:
            # A model without a positional embedding would skip its dropout.
            table = torch.zeros(1, patches.shape[-1], dtype=dtype, device=patches.device)
        elif not getattr(model, "no_embed_class", False):
            table = F.pad(table, (0, 0, prefix, 0))
        self.pos_embed, self.rope, self.dynamic_img_size = table.unsqueeze(0), None, False
        return model._original._pos_embed(self, patches.flatten(1, -2))

    def _drop(self, tokens: Tensor) -> Any:
        # timm's module drops token numbers in place of tokens, and so tells which it keeps.
        batch, count, width = tokens.shape
        numbers = torch.arange(count, device=tokens.device).expand(batch, count).unsqueeze(-1)
        answer = self._module.patch_drop(numbers)
        left = answer[0] if isinstance(answer, tuple) else answer
        if left is not numbers:
            tokens = tokens.gather(1, left.expand(-1, -1, width))
            kept = left.squeeze(-1)
            if self._rotation is not None:
                self._rotation = self._rotation.keep(kept)
            if self._mask is not None:
                self._mask = _keep(self._mask, kept, count)
        return (tokens, *answer[1:]) if isinstance(answer, tuple) else tokens


class _Blocks(list[Callable[..., Tensor]]):
    """Blocks with what this forward gives them; called like ``nn.Sequential``, in order."""

    def __call__(self, tokens: Tensor) -> Tensor:
        for block in self:
            tokens = block(tokens)
        return tokens


def _run(block: Any, bound: dict[str, Any], tokens: Tensor, **passed: Any) -> Any:
    if passed.get("attn_mask") is not None:
        raise ValueError("attn_mask must be passed by name to a model with encodings attached")
    return block(tokens, **{**passed, **bound})


def _merge(bias: Tensor, mask: Tensor | None) -> Tensor:
    """A bias with the caller's mask, boolean or added, of four axes as every kernel takes it."""
    if mask is not None:
        bias = torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else bias + mask
    return bias[(None,) * (4 - bias.ndim)]


def _keep(mask: Tensor, kept: Tensor, count: int) -> Tensor:
    """Rows and columns ``kept (B, K)`` of a mask that broadcasts to ``(B, H, count, count)``."""
    full = mask[(None,) * (4 - mask.ndim)].expand(len(kept), -1, count, count)
    samples = torch.arange(len(kept), device=kept.device)[:, None, None]
    return full[samples, :, kept[:, :, None], kept[:, None, :]].movedim(-1, 1)


class Fronted:
    """In front of a module's class while something is attached to the model."""

    _front: type
    _original: Any

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_revive, (self._front, self._original), *super().__reduce_ex__(protocol)[2:])


class _Turning(Fronted):
    _view: Callable[..., _View]

    def forward(self, x: Tensor, *args: Any, turn: Turn | None = None, **kwargs: Any) -> Any:
        host = self if turn is None else self._view(self, turn)
        return self._original.forward(host, x, *args, **kwargs)


class TurningAttention(_Turning):
    """An attention whose queries and keys turn after their norms."""

    _view = _AttentionView


class TurningBlock(_Turning):
    """A block that hands its attention what turns queries and keys."""

    _view = _BlockView


class Attached(Fronted):
    """A model that runs with the encodings in its ``posenc``."""

    posenc: Slots

    def forward_features(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Any:
        return self._original.forward_features(_Call(self, x, attn_mask, is_causal), x)

    def forward_intermediates(
        self,
        x: Tensor,
        *args: Any,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        **kwargs: Any,
    ) -> Any:
        call = _Call(self, x, attn_mask, is_causal)
        return self._original.forward_intermediates(call, x, *args, **kwargs)

    def no_weight_decay(self) -> set[str]:
        own = {f"posenc.{name}" for name, _ in self.posenc.named_parameters()}
        return set(self._original.no_weight_decay(self)) | own

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        groups = self._original.group_matcher(self, coarse)
        return {**groups, "stem": f"{groups['stem']}|^posenc"}


_FRONTED: dict[tuple[type, type], Any] = {}


def fronted(front: type, original: type) -> Any:
    """The class that is ``front``, then ``original``, under the latter's name: one for each two."""
    if (front, original) not in _FRONTED:
        names = {"_front": front, "_original": original, "__module__": original.__module__}
        _FRONTED[front, original] = type(original.__name__, (front, original), names)
    return _FRONTED[front, original]


def _revive(front: type, original: type) -> Any:
    kind = fronted(front, original)
    return kind.__new__(kind)
