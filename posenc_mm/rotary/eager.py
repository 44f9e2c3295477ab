"""The turn of pairs in eager mode on a CPU: few passes over memory, and only angles kept."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from posenc_mm.checks import is_followed
from posenc_mm.pairs import split

# Numbers worked on at a time, so that what one pass writes is still in the cache for the next.
PIECE = 3 * 2**17


# Of fewer numbers the single steps are so fast that calling this one takes longer.
FEW = 2**19


def pays(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> bool:
    """Whether :func:`turned` is the way to turn ``x``.

    Args:
        x: what is to be turned.
        cos: by what.
        sin: likewise.
        layout: in which pairs.

    Returns:
        False where a compiler, an exporter or the gradient of the angles must see single steps,
        and where these are faster.
    """
    known = layout in ("interleaved", "half", "axis_half")
    if not known or not _is_here(x, cos, sin) or x.numel() <= FEW:
        return False
    return not (torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad))


def are_numbers(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> bool:
    """Whether :func:`turn_numbers` is the way to turn ``x``: see :func:`pays`."""
    if layout != "interleaved" or not _is_here(x, cos, sin):
        return False
    # A wider copy of all takes more memory than pieces do.
    return x.element_size() >= cos.element_size() or not pays(x, cos, sin, layout)


def _is_here(x: Tensor, cos: Tensor, sin: Tensor) -> bool:
    # Asked before any size is looked at, which would fix it in a graph.
    return not is_followed(x, cos, sin) and x.is_cpu and cos.is_cpu


def turned(x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int) -> Tensor:
    """Turn the first channels in pairs and let the rest pass.

    Args:
        x: ``(..., N, D)``
        cos: broadcasts to ``(..., N, F)``; turns :math:`2F` channels.
        sin: likewise.
        layout: one whose pairs turn.
        blocks: number of blocks that ``"axis_half"`` names.

    Returns:
        Like ``x``, in its order of memory; backward keeps ``cos`` and ``sin``, not ``x``.
    """
    out: Tensor = _Turn.apply(x, cos, sin, layout, blocks)
    return out


def turn_numbers(x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int) -> Tensor:
    """Turn neighbours as complex numbers, in few steps that autograd sees.

    Args:
        x: ``(..., 2F)``
        cos: broadcasts to ``(..., F)``.
        sin: likewise.
        layout: ``"interleaved"``.
        blocks: passed over.

    Returns:
        Like ``x``, or in the wider dtype of ``cos``.
    """
    wide = x.to(cos.dtype) if x.element_size() < cos.element_size() else x
    pairs = split(wide, cos.shape[-1], 2)
    # In eager mode alone, as are_numbers sees to: whoever exports or compiles is not here.
    numbers = torch.view_as_complex(pairs if _pairs_up(pairs) else pairs.clone())
    return torch.view_as_real(numbers * torch.complex(cos, sin)).flatten(-2)


def turned_in_place(x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int) -> Tensor:
    """Turn the first channels in pairs where they are: see :func:`turned`."""
    out: Tensor = _TurnInPlace.apply(x, cos, sin, layout, blocks)
    return out


def turn_into(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int) -> None:
    """Turn pairs of channels and write them where they shall be: see :func:`turned`.

    The interleaved layout is one complex product; the others go by pieces.

    Args:
        out: ``(..., N, D)``, takes the result; ``x`` itself where pairs turn in place.
        x: likewise.
        cos: broadcasts to ``(..., N, F)``.
        sin: likewise.
        layout: one whose pairs turn.
        blocks: number of blocks that ``"axis_half"`` names.
    """
    width = 2 * cos.shape[-1]
    if out is not x:
        out[..., width:] = x[..., width:]
    cos, sin = (each[(None,) * (x.ndim - each.ndim)] for each in (cos, sin))
    # Heads that lie beside each other, as projections leave them, then share a token's angles.
    order = memory_order(x)
    out, x, cos, sin = (each.permute(order) for each in (out, x, cos, sin))
    out, x = out[..., :width], x[..., :width]
    if layout == "interleaved":
        _as_numbers(split(out, width // 2, 2), split(x, width // 2, 2), torch.complex(cos, sin))
        return
    blocks = blocks if layout == "axis_half" else 1
    pairs = width // (2 * blocks)
    cos, sin = (split(each, blocks, pairs) for each in (cos, sin))
    _in_halves(split(out, blocks, 2, pairs), split(x, blocks, 2, pairs), cos, sin)


def memory_order(x: Tensor) -> list[int]:
    """Sort axes by their stride, channels last.

    Args:
        x: ``(..., D)``

    Returns:
        Axes, outermost in memory first.
    """
    strides = x.stride()
    return [*sorted(range(x.ndim - 1), key=strides.__getitem__, reverse=True), x.ndim - 1]


def _as_numbers(out: Tensor, x: Tensor, turns: Tensor) -> None:
    wide = torch.promote_types(x.dtype, turns.real.dtype)
    if x.dtype == wide and _pairs_up(x) and _pairs_up(out):
        # One pass over memory; whoever exports or compiles, or has no complex numbers, is not here.
        torch.mul(torch.view_as_complex(x), turns, out=torch.view_as_complex(out))
        return
    [room] = _rooms(1, x, wide)
    for to, piece, by in _pieces(PIECE, x.ndim - 2, out, x, turns.unsqueeze(-1)):
        lifted = room[: piece.numel()].view(piece.shape).copy_(piece)
        # On the same terms, whoever exports or compiles is not here; in room of its own.
        torch.view_as_complex(lifted).mul_(by.squeeze(-1))
        to.copy_(lifted)


def _pairs_up(x: Tensor) -> bool:
    """Whether pairs of neighbours lie in memory as complex numbers do."""
    *strides, last = x.stride()
    return last == 1 and not x.storage_offset() % 2 and not any(step % 2 for step in strides)


def _in_halves(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    wide = torch.promote_types(x.dtype, cos.dtype)
    lift = x.dtype != wide
    along = torch.stack((cos, cos), -2)
    rooms = _rooms(2, x, wide)
    moves = lift or out.data_ptr() == x.data_ptr()
    parts = (out, x, along, sin.neg(), sin)
    for to, piece, by, minus, plus in _pieces(PIECE, x.ndim - 3, *parts):
        source, turned = (room[: piece.numel()].view(piece.shape) for room in rooms)
        source = source.copy_(piece) if moves else piece
        turned = torch.mul(source, by, out=turned if lift else to)
        turned.select(-2, 0).addcmul_(source.select(-2, 1), minus)
        turned.select(-2, 1).addcmul_(source.select(-2, 0), plus)
        if lift:
            to.copy_(turned)


def _rooms(count: int, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Memory for one piece, taken once: new memory for each costs more than the turning."""
    smallest = x.shape[-3:].numel()
    return torch.empty(count, min(x.numel(), max(PIECE, smallest)), dtype=dtype)


def _pieces(most: int, axes: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Cut tensors alike along their first axes, but where one is broadcast."""
    sizes, count = tensors[0].shape, tensors[0].numel()
    axis = next((a for a in range(axes) if sizes[a] > 1), None)
    if count <= most or axis is None:
        yield tensors
        return
    step = max(1, sizes[axis] * most // count)
    for start in range(0, sizes[axis], step):
        many = min(step, sizes[axis] - start)
        parts = (t if t.shape[axis] == 1 else t.narrow(axis, start, many) for t in tensors)
        yield from _pieces(most, axes, *parts)


class _Turn(torch.autograd.Function):
    """The turn as one step of autograd, whose backward is the turn the other way."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int) -> Tensor:
        out = torch.empty_like(x)
        turn_into(out, x, cos, sin, layout, blocks)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, cos, sin, *ctx.how = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return turned(grads[0], cos, -sin, *ctx.how), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        cos, sin = ctx.saved_tensors
        return turned(tangents[0], cos, sin, *ctx.how)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        x, cos, sin, layout, blocks = inputs
        x = x.expand(info.batch_size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        tables = []
        for table, dim in zip((cos, sin), in_dims[1:3], strict=True):
            if dim is not None:
                table = table.movedim(dim, 0)
                table = table[(slice(None), *(None,) * (x.ndim - table.ndim))]
            tables.append(table)
        cos, sin = tables
        return turned(x, cos, sin, layout, blocks), 0


class _TurnInPlace(torch.autograd.Function):
    """The turn of a tensor that is not needed as it was."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, layout: str, blocks: int) -> Tensor:
        ctx.how = layout, blocks
        ctx.mark_dirty(x)
        ctx.save_for_backward(cos, sin)
        turn_into(x, x, cos, sin, layout, blocks)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return turned(grads[0], cos, -sin, *ctx.how), None, None, None, None
