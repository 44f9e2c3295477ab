"""The turn of pairs of channels: the one formula behind every rotation."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc_mm.checks import is_followed

Turn = Callable[[Tensor, Tensor, Tensor, str, int], Tensor]


def turn_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int = 1) -> Tensor:
    r"""Turn pairs of channels: :math:`(a, b) \to (a \cos - b \sin, \; a \sin + b \cos)`.

    Args:
        x: ``(..., 2F)``, best contiguous.
        cos: broadcasts to ``(..., F)``.
        sin: likewise.
        layout: where the members of a pair sit, one of :data:`posenc_mm.layouts.ROTARY_LAYOUTS`.
        blocks: number of blocks that ``"axis_half"`` and ``"vjepa2"`` name.

    Returns:
        ``(..., 2F)``, rounded at most once: in the dtype of ``x``, or the wider one of ``cos``.
    """
    if layout == "half":
        first, second = x.chunk(2, dim=-1)
        return torch.cat(_narrowed(_turned(first, second, cos, sin), x), dim=-1)
    if layout == "axis_half":
        pairs = cos.shape[-1] // blocks
        first, second = split(x, blocks, 2, pairs).unbind(-2)
        cos, sin = split(cos, blocks, pairs), split(sin, blocks, pairs)
        parts = _narrowed(_turned(first, second, cos, sin), x)
        return torch.stack(parts, dim=-2).flatten(-3)
    if layout == "interleaved" and is_followed(x, cos, sin):
        first, second = split(x, cos.shape[-1], 2).unbind(-1)
        parts = _turned(first, second, cos, sin)
        return torch.stack(parts, dim=-1).flatten(-2)
    # Members lie side by side, and steps of two are slow in eager mode: tables as wide as x.
    of_first, of_second = _of_members(cos, layout, blocks)
    along = torch.stack((of_first, of_second), dim=-1).flatten(-2)
    of_first, of_second = _of_members(sin, layout, blocks)
    across = torch.stack((-of_first, of_second), dim=-1).flatten(-2)
    return x * along + _swapped(x) * across


def turn_first(
    x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int, turn: Turn = turn_pairs
) -> Tensor:
    """Turn the first channels in pairs and let the rest pass.

    Args:
        x: ``(..., D)``
        cos: broadcasts to ``(..., F)``; turns :math:`2F` channels.
        sin: likewise.
        layout: as for :func:`turn_pairs`.
        blocks: likewise.
        turn: by what: :func:`turn_pairs` or its like.

    Returns:
        Like ``x``, in its dtype, contiguous.
    """
    width = 2 * cos.shape[-1]
    first = x if x.shape[-1] == width else x[..., :width]
    # Queries cut from a joint projection are strided: one copy costs less than that in each step.
    result = with_rest(turn(first.contiguous(), cos, sin, layout, blocks), x)
    return result if result.dtype == x.dtype else result.to(x.dtype)


def with_rest(turned: Tensor, x: Tensor) -> Tensor:
    """Put the channels that did not turn behind those that did."""
    if turned.shape[-1] == x.shape[-1]:
        return turned
    return torch.cat((turned, x[..., turned.shape[-1] :].to(turned.dtype)), dim=-1)


def split(x: Tensor, *sizes: int) -> Tensor:
    """Cut the last axis into several."""
    return x.reshape(*x.shape[:-1], *sizes)


def _turned(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return first * cos - second * sin, first * sin + second * cos


def _narrowed(parts: tuple[Tensor, Tensor], x: Tensor) -> tuple[Tensor, ...]:
    if x.dtype != torch.bfloat16:  # of float16, autocast refuses to join the halves
        return parts
    # Else a compiler writes them wide, joins them, and reads all again.
    return tuple(part.bfloat16() for part in parts)


def _swapped(x: Tensor) -> Tensor:
    if x.element_size() < 4:  # autocast to bfloat16 refuses to stack float16
        return split(x, x.shape[-1] // 2, 2).flip(-1).flatten(-2)
    return torch.stack((x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


def _of_members(values: Tensor, layout: str, blocks: int) -> tuple[Tensor, Tensor]:
    """What turns the first and the second member of each pair of neighbours."""
    if layout == "interleaved":
        return values, values
    each = split(values, blocks, values.shape[-1] // blocks)
    tiled = torch.cat((each, each), dim=-1).flatten(-2)
    return tiled[..., 0::2], tiled[..., 1::2]
