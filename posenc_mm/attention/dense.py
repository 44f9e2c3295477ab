"""Attention by one call of the fused kernel: without a mask, or with one for all pairs."""

import torch
from torch import Tensor
from torch.nn import functional

from posenc_mm.attention.calls import Call
from posenc_mm.bias import Contextual
from posenc_mm.weighing import weighted, with_vectors


def plain(call: Call) -> Tensor:
    """Attend where neither a mask nor a bias is needed."""
    return functional.scaled_dot_product_attention(
        call.q,
        call.k,
        call.v,
        is_causal=call.causal and not call.last,
        scale=call.scale,
        enable_gqa=call.grouped,
    )


def dense(call: Call) -> Tensor:
    """Attend with a number for every pair of tokens."""
    said, scale, visible = call.evaluated("bias"), call.scale, call.visible
    if isinstance(said, Contextual):
        bias: Tensor | None = call.fitted("bias", said.logits(call.q, call.k))
        scale = said.scale if scale is None else scale
        if said.of_values and bias is not None:
            return with_vectors(call.q, call.k, call.v, bias, visible, scale, said)
    else:
        bias = None if said is None else call.fitted("bias", said)
    blind = None
    if visible is not None:
        blind = ~visible.any(-1, keepdim=True)
        # A row that sees nothing attends to everything instead, and is zeroed below: no NaN arises
        # for the backward pass to spread.
        hidden = ~(visible | blind)
        if bias is None:
            bias = torch.zeros((), dtype=call.q.dtype, device=call.q.device)
        bias = bias.masked_fill(hidden, float("-inf"))
    out = masked(call, bias, scale)
    return out if blind is None else out.masked_fill(blind, 0.0)


def masked(call: Call, mask: Tensor | None, scale: float | None) -> Tensor:
    """Attend with a mask that is added to the logits, whatever else was asked."""
    q, k = call.q, call.k
    if mask is not None:
        mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return functional.scaled_dot_product_attention(
        q, k, call.v, attn_mask=mask, scale=scale, enable_gqa=call.grouped
    )


def with_after(out: Tensor, call: Call) -> Tensor:
    """Add what stands beside the softmax: one matrix product more."""
    beside = call.evaluated("after")
    if not isinstance(beside, Tensor):
        return out
    return out + weighted(call.fitted("after", beside), call.q, call.v, call.visible)
