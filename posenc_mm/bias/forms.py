"""Other exact forms of a bias, from which fused kernels need no number per pair of tokens."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.bias.base import AttentionBias, wide
from posenc_mm.checks import check_inside

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Factors(NamedTuple):
    r"""A bias as a product of few numbers per query and per key.

    .. math:: b_{hij} = \sum_r Q_{hir} K_{jr} + s_{hi}

    The softmax does not see :math:`s`. It is kept because with it the sums stay small.

    Attributes:
        q: :math:`Q`, ``(..., H, N, R)``, or with N = 1 where all queries share it.
        k: :math:`K`, ``(..., M, R)``.
        shift: :math:`s`, ``(..., H, N)``.
        past_only: whether this is the bias only where the key's position is at or before the
            query's on every axis.
    """

    q: Tensor
    k: Tensor
    shift: Tensor
    past_only: bool


def linear_factors(
    slopes: Tensor, q_positions: Tensor, k_positions: Tensor, step: float
) -> Factors:
    r"""Factor a penalty that is linear in distance: :math:`-m(p_i - p_j) = m p_j - m p_i`.

    Positions are counted from the first key of each sample, in float64.

    Args:
        slopes: :math:`m`, ``(H,)``.
        q_positions: ``(..., N, A)``
        k_positions: ``(..., M, A)``
        step: the distance that counts as one.

    Returns:
        One column per axis, right where no key's position is beyond the query's.
    """
    q, k = wide(q_positions), wide(k_positions)
    if q.dtype != k.dtype:
        q, k = q.double(), k.double()
    origin = k[..., :1, :] if k.shape[-2] else k.new_zeros(1, k.shape[-1])
    q, k = ((side - origin).double() / step for side in (q, k))
    slopes = slopes.double()
    shift = -slopes[:, None] * q.sum(-1).unsqueeze(-2)
    return Factors(slopes[:, None, None].expand(-1, 1, k.shape[-1]), k, shift, past_only=True)


def linear_score_mod(
    slopes: Tensor, q_positions: Tensor, k_positions: Tensor, step: float
) -> ScoreMod:
    """Write a penalty that is linear in distance, summed over the axes, for FlexAttention.

    Args:
        slopes: ``(H,)``
        q_positions: ``(..., N, A)``
        k_positions: ``(..., M, A)``
        step: the distance that counts as one.

    Returns:
        A function of score, sample, head, query and key.
    """
    pairs = list(zip(_columns(q_positions), _columns(k_positions), strict=True))
    exact = torch.float64 in (q_positions.dtype, k_positions.dtype)
    dtype = torch.float64 if exact else torch.float32
    slopes = (slopes / step).to(dtype)

    def penalised(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        parts = [(_read(q, b, i) - _read(k, b, j)).abs().to(dtype) for q, k in pairs]
        far: Tensor = sum(parts[1:], parts[0])
        return score - (slopes[h] * far).to(score.dtype)

    return penalised


def table_score_mod(
    bias: AttentionBias,
    q_positions: Tensor,
    k_positions: Tensor,
    reach: int | None = None,
    clipped: bool = False,
) -> ScoreMod | None:
    """Write a bias of whole differences for FlexAttention: it reads a table ``(H, 2L - 1)``.

    Args:
        bias: one that is ``by_difference``.
        q_positions: ``(..., N, 1)``, integers.
        k_positions: ``(..., M, 1)``, integers.
        reach: the largest difference in the table; unless given, that of so many rows in a row.
        clipped: whether differences beyond share the outermost number; else they are an error.

    Returns:
        A function of score, sample, head, query and key; None where positions are no integers on
        one axis.
    """
    floating = q_positions.is_floating_point() or k_positions.is_floating_point()
    if floating or not q_positions.shape[-1] == k_positions.shape[-1] == 1:
        return None
    q, k = _columns(q_positions)[0], _columns(k_positions)[0]
    last = max(q.shape[-1], k.shape[-1], 1) - 1 if reach is None else reach
    if not clipped and q.shape[-1] and k.shape[-1]:
        ends = (q.amax(-1) - k.amin(-1), q.amin(-1) - k.amax(-1))
        name, advice = "differences of positions", "use backend='blocks'"
        check_inside(name, torch.stack(ends, -1).unsqueeze(-1), [-last], [last], 0, advice)
    table = bias.of_differences(torch.arange(-last, last + 1, device=q.device)).contiguous()
    # Numbers that differ from call to call would each be a kernel of their own.
    most = torch.tensor(last, device=q.device)

    def looked_up(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        entry = (_read(q, b, i) - _read(k, b, j) + most).clamp(min=0).minimum(2 * most)
        return score + table[h, entry].to(score.dtype)

    return looked_up


def _columns(positions: Tensor) -> tuple[Tensor, ...]:
    """Each axis: ``(N,)``, or ``(B, N)`` where samples differ."""
    shared = positions.ndim == 3 and positions.shape[0] == 1
    return wide(positions[0] if shared else positions).unbind(-1)


def _read(column: Tensor, b: Tensor, i: Tensor) -> Tensor:
    return column[i] if column.ndim == 1 else column[b, i]
