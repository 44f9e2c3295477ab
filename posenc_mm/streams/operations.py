"""What is done to streams: padded, packed, joined, pruned, sorted. Each makes a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from posenc_mm.checks import check_whole

if TYPE_CHECKING:
    from posenc_mm.streams.stream import Stream

SIDES = ("right", "left")
# What the columns of a stream hold where no token is.
EMPTY = {"coords": 0.0, "segment": -1, "modality": 0, "block": -1, "variate": -1, "mask": False}


def pad(streams: Sequence[Stream], *, side: str = "right", length: int | None = None) -> Stream:
    """Stack streams of different lengths to one batch.

    Args:
        streams: of any numbers of rows.
        side: where shorter rows are padded, ``"right"`` or ``"left"``.
        length: tokens of a row; those of the longest unless given.

    Returns:
        All rows. The positions, cursors and numbers of real tokens are what they were; padding is
        at 0, of document -1, and false in ``mask``.

    Raises:
        ValueError: there is no stream, axes differ, ``side`` is unknown, or ``length`` too small.

    Example:
        >>> from posenc_mm.streams import Text, layout
        >>> pad([layout(Text(3)), layout(Text(2))], side="left").mask.int()
        tensor([[1, 1, 1],
                [0, 1, 1]], dtype=torch.int32)
    """
    if side not in SIDES:
        raise ValueError(f"side must be one of {SIDES}, got {side!r}")
    dtype = _common(streams)
    longest = max(stream.shape[1] for stream in streams)
    if length is None:
        length = longest
    check_whole(longest, length=length)
    parts = {}
    for name, empty in EMPTY.items():
        columns = []
        for stream in streams:
            column, more = getattr(stream, name), length - stream.shape[1]
            ends = (more, 0) if side == "left" else (0, more)
            axis = (0, 0) if name == "coords" else ()
            columns.append(functional.pad(column, (*axis, *ends), value=empty))
        parts[name] = torch.cat(columns)
    parts["coords"] = parts["coords"].to(dtype)
    return replace(streams[0], **parts, **_rows(streams, 0))


def pack(streams: Sequence[Stream]) -> Stream:
    """Put all rows of all streams behind each other in one row, without padding.

    Args:
        streams: of any numbers of rows, of one document each or packed already.

    Returns:
        One row. Each document keeps its positions and has a number of its own in ``segment``, by
        which ``attend`` keeps them apart; numbers of blocks go on through the row. The cursor is
        that of the last document.

    Raises:
        ValueError: there is no stream, or axes differ.

    Example:
        >>> from posenc_mm.streams import Image, Text, layout
        >>> packed = pack([layout(Text(2)), layout(Text(1), Image(1, 2))])
        >>> packed.segment.tolist(), packed.coords[0, :, 2].tolist()
        ([[0, 0, 1, 1, 1]], [0.0, 1.0, 0.0, 1.0, 2.0])
    """
    dtype = _common(streams)
    rows = [stream[b : b + 1] for stream in streams for b in range(stream.shape[0])]
    real = [row.keep(row.mask[0].nonzero().T) for row in rows]
    parts = {name: torch.cat([getattr(row, name) for row in real], dim=1) for name in EMPTY}
    documents = torch.cat([row.document for row in rows])
    blocks = torch.cat([row.next_block for row in rows])
    lengths = torch.tensor([row.shape[1] for row in real], device=blocks.device)
    first = _before(documents + 1).repeat_interleave(lengths)
    earlier = _before(blocks).repeat_interleave(lengths)
    parts["coords"] = parts["coords"].to(dtype)
    parts["segment"] = parts["segment"] + first
    parts["block"] = torch.where(parts["block"] < 0, -1, parts["block"] + earlier)
    return replace(
        rows[-1],
        **parts,
        next_block=blocks.sum()[None],
        document=(documents + 1).sum()[None] - 1,
    )


def join(stream: Stream, new: Stream) -> Stream:
    """Put new tokens behind those there are, row by row, as a cache does with keys.

    Args:
        stream: what there is so far.
        new: as many rows, from :meth:`Layout.extend`.

    Returns:
        All tokens, with the cursor of the new ones.

    Raises:
        ValueError: rows or axes differ.
    """
    dtype = _common([stream, new])
    if stream.shape[0] != new.shape[0]:
        raise ValueError(f"new must have {stream.shape[0]} rows, got {new.shape[0]}")
    parts = {name: torch.cat((getattr(stream, name), getattr(new, name)), 1) for name in EMPTY}
    return replace(new, **{**parts, "coords": parts["coords"].to(dtype)})


def select(stream: Stream, mask: Tensor, side: str = "right") -> Stream:
    """Keep the tokens of a mask, as when tokens of a video are pruned.

    Args:
        stream: what there is.
        mask: ``(N,)`` or ``(B, N)`` of booleans, true for tokens to keep, the mask by which the
            tokens themselves are taken. Padding goes as well.
        side: where rows that keep fewer tokens are padded.

    Returns:
        The tokens kept, at the positions that they had; the cursor stays, so that what follows
        does not move.

    Raises:
        ValueError: another shape or dtype, or ``side`` is unknown.

    Example:
        >>> from posenc_mm.streams import Image, Text, layout
        >>> stream = layout(Image(2, 2), Text(1))
        >>> select(stream, torch.tensor([True, False, False, True, True])).coords[0, :, 1:].T
        tensor([[0., 1., 2.],
                [0., 1., 2.]])
    """
    if mask.dtype != torch.bool or mask.shape not in (stream.shape, stream.shape[1:]):
        raise ValueError(
            f"mask must be booleans (B, N)={tuple(stream.shape)} or (N,), got shape "
            f"{tuple(mask.shape)} and dtype {mask.dtype}"
        )
    kept = mask.expand(stream.shape) & stream.mask
    rows = [stream[b : b + 1].keep(row.nonzero().T) for b, row in enumerate(kept)]
    return pad(rows, side=side)


def sort(stream: Stream, by: str = "time") -> tuple[Stream, Tensor]:
    """Order the tokens of each document by time, stably; padding stays at its end.

    Args:
        stream: what there is.
        by: ``"time"``, the first axis.

    Returns:
        The stream, and the permutation ``(B, N)`` that gathers the tokens themselves:
        ``tokens.gather(1, order)``.

    Raises:
        ValueError: ``by`` is something else.
    """
    if by != "time":
        raise ValueError(f"by must be 'time', got {by!r}")
    # Padding on the left is before all documents, on the right behind them.
    behind = (stream.mask.cumsum(1) > 0) & ~stream.mask
    document = torch.where(behind, torch.iinfo(torch.int64).max, stream.segment)
    order = torch.where(stream.mask, stream.coords[..., 0], 0).argsort(dim=1, stable=True)
    order = order.gather(1, document.gather(1, order).argsort(dim=1, stable=True))
    return stream.keep(order), order


def _common(streams: Sequence[Stream]) -> torch.dtype:
    if not streams:
        raise ValueError("streams must be at least one, got none")
    axes = {stream.coords.shape[-1] for stream in streams}
    if len(axes) > 1:
        raise ValueError(f"streams must have one number of axes, got {sorted(axes)}")
    wide = any(stream.coords.dtype == torch.float64 for stream in streams)
    return torch.float64 if wide else torch.float32


def _rows(streams: Sequence[Stream], dim: int) -> dict[str, Tensor]:
    names = ("cursor", "next_block", "document")
    return {name: torch.cat([getattr(stream, name) for stream in streams], dim) for name in names}


def _before(counts: Tensor) -> Tensor:
    """For each count the sum of those before it."""
    return counts.cumsum(0) - counts
