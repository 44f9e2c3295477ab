"""What stands in front of timm's attentions.

An attention turns where its queries and keys are ready: after ``q_norm`` and ``k_norm`` where it
has them, else in the output of ``qkv``. A bias is the argument that the attention takes for it, or
is added where its own bias is.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from timm.models import beit, eva, swin_transformer, swin_transformer_v2, vision_transformer
from timm.models import vision_transformer_relpos as relpos
from timm.models import vision_transformer_sam as sam
from torch import Tensor, nn
from torch.nn import functional as F

from posenc_mm.timm.views import Front, View


class Normed(View):
    """Queries and keys turn after their norms."""

    def q_norm(self, q: Tensor) -> Any:
        return self._acts.turn(self._module.q_norm(q))

    def k_norm(self, k: Tensor) -> Any:
        return self._acts.turn(self._module.k_norm(k))


class _Early(Normed):
    """Where norms do nothing, queries and keys turn in the output of ``qkv``.

    What backward keeps of them is then all that it keeps of that output.
    """

    def __init__(self, module: Any, acts: Any) -> None:
        super().__init__(module, acts)
        norms = (module.q_norm, module.k_norm)
        self._early = acts.rotation is not None and all(type(n) is nn.Identity for n in norms)

    def qkv(self, x: Tensor) -> Any:
        y = self._module.qkv(x)
        return _turned(y, self._module.num_heads, self._acts.turn) if self._early else y

    def q_norm(self, q: Tensor) -> Any:
        return self._module.q_norm(q) if self._early else super().q_norm(q)

    def k_norm(self, k: Tensor) -> Any:
        return self._module.k_norm(k) if self._early else super().k_norm(k)


class _Projected(View):
    """There are no norms: the output of ``qkv`` turns. Biases of queries and values go into it."""

    q_bias = None

    def qkv(self, x: Tensor) -> Any:
        module = self._module
        if getattr(module, "q_bias", None) is None:
            y = module.qkv(x)
        else:
            bias = torch.cat((module.q_bias, module.k_bias, module.v_bias))
            separate = getattr(module, "qkv_bias_separate", False)
            y = module.qkv(x) + bias if separate else F.linear(x, module.qkv.weight, bias)
        if self._acts.rotation is None:
            return y
        return _turned(y, module.num_heads, self._acts.turn)


class _Beit(_Projected):
    @property
    def relative_position_bias_table(self) -> Any:
        return self._module.relative_position_bias_table if self._acts.native else None


class _RelPos(Normed):
    rel_pos = None


class _Swin(_Projected):
    def _get_rel_pos_bias(self) -> Any:
        module, bias = self._module, self._acts.bias
        if not self._acts.native:
            area = module.window_area
            return module.proj.weight.new_zeros(1, 1, area, area) if bias is None else bias
        own = module._get_rel_pos_bias()
        return own if bias is None else own + bias


class _SwinV2(_Projected):
    """Attends by cosines, which turning leaves alone; its bias is 16 times a sigmoid."""

    def cpb_mlp(self, coordinates: Tensor) -> Any:
        module = self._module
        if self._acts.native:
            return module.cpb_mlp(coordinates)
        return coordinates.new_full((*coordinates.shape[:-1], module.num_heads), -torch.inf)

    def softmax(self, logits: Tensor) -> Any:
        bias = self._acts.bias
        return self._module.softmax(logits if bias is None else logits + bias)


class _Sam(View):
    """Queries and keys are (B * H, N, D); its decomposed bias is read off the queries."""

    @property
    def use_rel_pos(self) -> bool:
        return bool(self._module.use_rel_pos and self._acts.native)

    @property
    def rope(self) -> Any:
        return self._module.rope if self._acts.native else None

    def q_norm(self, q: Tensor) -> Any:
        return self._turn(self._module.q_norm(q))

    def k_norm(self, k: Tensor) -> Any:
        return self._turn(self._module.k_norm(k))

    def _turn(self, x: Tensor) -> Tensor:
        heads = self._module.num_heads
        turned: Tensor = self._acts.turn(x.reshape(-1, heads, *x.shape[1:]))
        return turned.flatten(0, 1)


class NormFront(Front):
    """Attention with ``q_norm`` and ``k_norm``."""

    _view: ClassVar[Any] = Normed


class EarlyFront(NormFront):
    """Attention that calls its ``qkv``, then its norms."""

    _view = _Early


class DifferentialFront(NormFront):
    """Two maps per head, of half its channels each."""

    def forward(self, x: Tensor, *args: Any, acts: Any = None, **kwargs: Any) -> Any:
        return super().forward(x, *args, acts=acts, **paired(self, kwargs))


class BeitFront(Front):
    """BEiT's attention."""

    _view = _Beit


class RelPosFront(Front):
    """Attention that takes the bias of its own module, else the one that all blocks share."""

    _view = _RelPos

    def forward(self, x: Tensor, *args: Any, acts: Any = None, **kwargs: Any) -> Any:
        own: Any = getattr(self, "rel_pos", None)
        if acts is not None and acts.native and own is not None:
            bias, shared = own.get_bias(), kwargs.get("shared_rel_pos")
            kwargs["shared_rel_pos"] = bias if shared is None else bias + shared
        return super().forward(x, *args, acts=acts, **kwargs)


class SwinFront(Front):
    """Window attention of Swin."""

    _view = _Swin


class SwinV2Front(Front):
    """Window attention of Swin V2."""

    _view = _SwinV2


class SamFront(Front):
    """SAM's attention, within windows or over the whole grid."""

    _view = _Sam


def _turned(y: Tensor, heads: int, turn: Callable[[Tensor], Tensor]) -> Tensor:
    """The output of a ``qkv`` (B, N, 3 * H * D) with queries and keys turned."""
    q, k, v = y.reshape(*y.shape[:2], 3, heads, -1).unbind(2)
    q, k = (turn(part.transpose(1, 2)).transpose(1, 2) for part in (q, k))
    return torch.stack((q, k, v), dim=2).flatten(2)


def paired(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """A mask per head, where two maps in a row belong to a head and are not yet apart."""
    mask = given.get("attn_mask")
    if mask is None or module.fused_attn or mask.ndim < 3 or mask.shape[-3] == 1:
        return given
    return {**given, "attn_mask": mask.repeat_interleave(2, dim=-3)}


# By name, as timm's releases differ in which of them they have and where.
ATTENTIONS: list[tuple[Any, dict[str, type[Front]]]] = [
    (vision_transformer, {"Attention": EarlyFront, "DiffAttention": DifferentialFront}),
    (eva, {"EvaAttention": NormFront, "AttentionRope": NormFront}),
    (beit, {"Attention": BeitFront}),
    (relpos, {"RelPosAttention": RelPosFront}),
    (swin_transformer, {"WindowAttention": SwinFront}),
    (swin_transformer_v2, {"WindowAttention": SwinV2Front}),
    (sam, {"Attention": SamFront}),
]
