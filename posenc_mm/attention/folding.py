"""A bias that is a product of few numbers, folded into a few more channels of queries and keys."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from posenc_mm.attention.calls import Call, is_grouped, working_dtype
from posenc_mm.bias import AttentionBias, Factors

# How many numbers of a dtype stand for one of float64, of those of queries and of keys. Products
# are exact and summed in float32, so that only these terms round.
TERMS = {
    torch.float64: (1, 1),
    torch.float32: (1, 2),
    torch.bfloat16: (2, 3),
    torch.float16: (2, 3),
}
# float16 ends at 65504: there, positions are made smaller and slopes larger.
LIFT = {torch.float16: 2.0**9}
# Far below any logit, as a product of two numbers that each dtype has.
HIDE = {torch.float16: 2.0**15}
PIECES = 8


def folded(call: Call, traced: bool) -> Tensor:
    r"""Attend by the fused kernel, causal or not, with no mask tensor.

    The new channels come before those of q and k, :math:`s_i` first: large numbers cancel before
    anything small is added to them. Hidden keys are zero but for one channel that no query can
    like. Heads are taken a few at a time, and in training folded again on the way back, so that
    the widened copies of all of them never exist together.

    Args:
        call: with a bias that has factors, or none; of masks, only ``key_mask``.
        traced: whether a compiler watches, which plans memory by itself.

    Returns:
        ``(B, H, N, E)``
    """
    q, k, v = call.q, call.k, call.v
    dtype = working_dtype(q)
    scale = q.shape[-1] ** -0.5 if call.scale is None else call.scale
    factors = None
    if isinstance(call.bias, AttentionBias) and call.q_positions is not None:
        factors = call.bias.factors(call.q_positions, call.k_positions)  # type: ignore[arg-type]
    call.check_masks()
    causal = call.causal and not call.last
    group = q.shape[1] // max(k.shape[1], 1)

    def of_heads(first: int, last: int) -> Tensor:
        keys = slice(first // group, -(-last // group))
        some_q, some_k, some_v = (x.to(dtype) for x in (q[:, first:last], k[:, keys], v[:, keys]))
        some = _of(factors, first, last)
        return _one_call(some_q, some_k, some_v, some, call.key_mask, scale, causal)

    if traced:
        return of_heads(0, q.shape[1])
    return _in_pieces(of_heads, q, k, v, factors, _heads_at_once(q.shape[1], group))


def _in_pieces(
    of_heads: Callable[[int, int], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    factors: Factors | None,
    step: int,
) -> Tensor:
    heads = q.shape[1]
    pieces = [(first, min(first + step, heads)) for first in range(0, heads, step)]
    learned = factors is not None and factors.q.requires_grad
    if torch.is_grad_enabled() and (learned or any(x.requires_grad for x in (q, k, v))):
        each = [
            checkpoint(of_heads, *piece, use_reentrant=False, preserve_rng_state=False)
            for piece in pieces
        ]
        return torch.cat(each, dim=1)
    out: Tensor | None = None
    for first, last in pieces:
        piece = of_heads(first, last)
        if out is None:
            out = piece.new_empty(q.shape[0], heads, *piece.shape[2:])
        out[:, first:last] = piece
    return of_heads(0, heads) if out is None else out


def _heads_at_once(heads: int, group: int) -> int:
    """Query heads per piece: whole groups, or a part of one."""
    step = max(heads // PIECES, 1)
    if step >= group:
        return step // group * group
    return max(part for part in range(1, step + 1) if group % part == 0)


def _one_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    factors: Factors | None,
    key_mask: Tensor | None,
    scale: float,
    causal: bool,
) -> Tensor:
    dtype = q.dtype
    of_q, of_k = ([], []) if factors is None else _channels(factors, scale, dtype)
    if key_mask is not None:
        hidden = ~key_mask[:, None, :, None]
        # Where every key is hidden all weigh the same, and sum zeros.
        k, v = k.masked_fill(hidden, 0.0), v.masked_fill(hidden, 0.0)
        away = HIDE.get(dtype, 2.0**40)
        of_q.append(torch.full((1, 1, 1, 1), away, dtype=dtype, device=q.device))
        of_k.append(hidden.to(dtype) * -away)
        of_k = [x.masked_fill(hidden, 0.0) for x in of_k[:-1]] + of_k[-1:]
    count = max(len(of_q) + q.shape[-1], v.shape[-1])
    width = -(-count // 8) * 8
    out = functional.scaled_dot_product_attention(
        _widened(q, of_q, width),
        _widened(k, of_k, width),
        functional.pad(v, (0, width - v.shape[-1])),
        is_causal=causal,
        scale=scale,
        enable_gqa=is_grouped(q, k),
    )
    return out[..., : v.shape[-1]]


def _widened(x: Tensor, new: list[Tensor], width: int) -> Tensor:
    rest = x.new_zeros(()).expand(*x.shape[:3], width - len(new) - x.shape[-1])
    return torch.cat([*(channel.expand(*x.shape[:3], 1) for channel in new), x, rest], dim=-1)


def _channels(
    factors: Factors, scale: float, dtype: torch.dtype
) -> tuple[list[Tensor], list[Tensor]]:
    """The channels ``(B, H, N, 1)`` of queries and ``(B, 1, M, 1)`` of keys, in this order."""
    of_query, of_key = TERMS[dtype]
    lift = LIFT.get(dtype, 1.0)
    k = factors.k[(None,) * (3 - factors.k.ndim)].unsqueeze(1)
    q = factors.q[(None,) * (4 - factors.q.ndim)] / scale
    shift = factors.shift[(None,) * (3 - factors.shift.ndim)].unsqueeze(-1) / scale
    one = torch.full((1, 1, 1, 1), lift, dtype=dtype, device=k.device)
    new = [(part, one) for part in split(shift / lift, dtype, of_query)]
    for column in range(k.shape[-1]):
        keys = split(k[..., column, None] / lift, dtype, of_key)
        for part in split(q[..., column, None] * lift, dtype, of_query):
            new += [(part, key) for key in keys]
    return [a for a, _ in new], [b for _, b in new]


def split(x: Tensor, dtype: torch.dtype, terms: int) -> list[Tensor]:
    """Write numbers of float64 as a sum of numbers that a dtype has.

    Args:
        x: of any shape.
        dtype: a floating one.
        terms: how many; each adds the dtype's digits to those before.

    Returns:
        The terms, largest first.
    """
    parts = []
    for _ in range(terms):
        part = x.to(dtype)
        # The whole gradient goes through the first term.
        x = (x - part.to(x.dtype)).detach()
        parts.append(part)
    return parts


def _of(factors: Factors | None, first: int, last: int) -> Factors | None:
    if factors is None:
        return None
    return factors._replace(
        q=factors.q[..., first:last, :, :], shift=factors.shift[..., first:last, :]
    )
