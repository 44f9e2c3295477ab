"""The weights of attention, computed from what a fused kernel is given."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.attention.calls import Call
from posenc_mm.bias import Contextual


class AttentionMap(NamedTuple):
    """The weights of one attention in one forward.

    Attributes:
        layer: the module's name in the model; ``#2`` and so on where it attends more than once.
        weights: ``(B, H, N, M)``, in float32 or wider; rows add up to 1, but for queries that see
            nothing, for what is added after the softmax, and for sinks, which take a part.
        visible: which keys a query may see, booleans that broadcast to ``weights``; None of an
            attention written out in Python, which does not say.
    """

    layer: str
    weights: Tensor
    visible: Tensor | None = None


Weighed = tuple[Tensor, Tensor | None]  # and which keys are visible, where that is known


def of_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Weighed:
    """Weights ``(B, H, N, M)`` of ``scaled_dot_product_attention``, and who may see whom."""
    if query.ndim != 4:
        raise ValueError(
            f"it attends with queries of shape {tuple(query.shape)}, in which heads cannot be told "
            f"from samples: they must be (B, H, N, D)"
        )
    logits = _logits(query, key, scale)
    visible = None
    if is_causal:
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            visible = attn_mask
        else:
            logits = logits + attn_mask
            # transformers hides by the least finite number instead of minus infinity.
            visible = attn_mask > torch.finfo(attn_mask.dtype).min / 2
    if visible is not None and (attn_mask is None or attn_mask.dtype == torch.bool):
        logits = logits.masked_fill(~visible, float("-inf"))
    return _softmax(logits), _all(visible, query)


def of_call(call: Call) -> Weighed:
    """Weights ``(B, H, N, M)`` of :func:`posenc_mm.attend`, and who may see whom."""
    said, scale, visible = call.evaluated("bias"), call.scale, call.visible
    if isinstance(said, Contextual):
        scale = said.scale if scale is None else scale
        said = said.logits(call.q, call.k)
    logits = _logits(call.q, call.k, scale)
    if said is not None:
        logits = logits + call.fitted("bias", said)
    if visible is not None:
        logits = logits.masked_fill(~visible, float("-inf"))
    weights = _softmax(logits)
    beside = call.evaluated("after")
    if isinstance(beside, Tensor):
        beside = call.fitted("after", beside).to(weights.dtype)
        weights = weights + (beside if visible is None else beside.masked_fill(~visible, 0.0))
    return weights, _all(visible, call.q)


def wide(x: Tensor) -> Tensor:
    """In float32, or wider if it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _all(visible: Tensor | None, q: Tensor) -> Tensor:
    return q.new_ones((1, 1), dtype=torch.bool) if visible is None else visible


def _logits(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    k = k.repeat_interleave(q.shape[1] // max(k.shape[1], 1), dim=1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast(q.device.type, enabled=False):
        return wide(q) @ wide(k).mT * scale


def _softmax(logits: Tensor) -> Tensor:
    """A row that sees nothing weighs nothing."""
    blind = (logits == float("-inf")).all(-1, keepdim=True)
    return logits.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
