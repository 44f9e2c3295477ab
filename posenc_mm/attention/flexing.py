"""Attention by FlexAttention: a bias computed, or read from a small table, for each pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc_mm.attention.calls import Call
from posenc_mm.bias import AttentionBias

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
SIDE = 128


def flexed(call: Call, traced: bool) -> Tensor:
    """Attend by one compiled kernel that makes its bias and its mask as it goes.

    Args:
        call: with a bias module that has a ``score_mod``, or none.
        traced: whether a compiler watches already.

    Returns:
        ``(B, H, N, E)``
    """
    # Compilers are loaded only where one is asked for.
    from torch.nn.attention.flex_attention import flex_attention

    call.check_masks()
    score_mod = None
    if isinstance(call.bias, AttentionBias) and call.q_positions is not None:
        score_mod = call.bias.score_mod(call.q_positions, call.k_positions)  # type: ignore[arg-type]
    mask_mod = _mask_mod(call)
    # On a CPU its kernel knows no symbolic length: each length is compiled.
    dynamic = call.q.device.type != "cpu"
    run = flex_attention if traced else torch.compile(flex_attention, dynamic=dynamic)
    grads = torch.is_grad_enabled()
    q, k, v = (x if grads else x.detach() for x in (call.q, call.k, call.v))
    out: Tensor = run(
        q,
        k,
        v,
        score_mod=score_mod,
        block_mask=None if mask_mod is None else _block_mask(call, mask_mod),
        scale=call.scale,
        enable_gqa=call.grouped,
    )
    return out


def _mask_mod(call: Call) -> MaskMod | None:
    """Whether a query sees a key, by everything that was said of it."""
    causal, window, key_mask, segments = call.causal, call.window, call.key_mask, call.segments
    if not causal and window is None and key_mask is None and segments is None:
        return None
    keys = call.k.shape[2]
    start = keys - call.q.shape[2] if call.q_start is None else call.q_start
    rows = torch.arange(call.q.shape[2], device=call.q.device)
    starts = start if isinstance(start, Tensor) else torch.full_like(rows[:1], start)
    row_of = (starts.reshape(-1, 1) + rows).expand(call.q.shape[0], -1)
    documents = None if segments is None else segments.reshape(-1, keys)
    if documents is not None:
        documents = documents.expand(call.q.shape[0], -1)

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        ahead = j - row_of[b, i]
        seen = ahead <= 0 if causal else ahead == ahead
        if window is not None:
            seen = seen & (ahead.abs() < window)
        if documents is not None:
            own = row_of[b, i].clamp(0, keys - 1)
            known = (row_of[b, i] >= 0) & (row_of[b, i] < keys)
            seen = seen & known & (documents[b, own] == documents[b, j])
        if key_mask is not None:
            seen = seen & key_mask[b, j]
        return seen

    return sees


def _block_mask(call: Call, mask_mod: MaskMod) -> BlockMask:
    """Name the blocks of keys that a block of queries may see, from where they begin and end."""
    from torch.nn.attention.flex_attention import BlockMask

    device, (queries, keys) = call.q.device, (call.q.shape[2], call.k.shape[2])
    start = keys - queries if call.q_start is None else call.q_start
    starts = start if isinstance(start, Tensor) else torch.full((1,), start, device=device)
    first = torch.arange(-(-queries // SIDE), device=device) * SIDE + starts.reshape(-1, 1, 1)
    of_keys = torch.arange(-(-keys // SIDE), device=device)
    from_key, to_key = of_keys * SIDE, of_keys * SIDE + SIDE - 1
    first = first.reshape(-1, 1, first.shape[-1], 1)
    may = (to_key >= 0).expand(*first.shape[:3], len(of_keys))
    if call.causal:
        may = may & (from_key <= first + SIDE - 1)
    if call.window is not None:
        may = may & (from_key < first + SIDE - 1 + call.window) & (to_key > first - call.window)
    may = may.expand(call.q.shape[0], *may.shape[1:])
    order = may.int().argsort(dim=-1, descending=True, stable=True)
    return BlockMask.from_kv_blocks(
        may.sum(-1, dtype=torch.int32),
        order.int(),
        BLOCK_SIZE=SIDE,
        mask_mod=mask_mod,
        seq_lengths=(queries, keys),
    )
