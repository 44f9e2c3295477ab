"""Segment after segment: from what each looks like alone to the coordinates of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from posenc_mm.streams.placing import SLACK, Placed, place
from posenc_mm.streams.segments import SEGMENTS, Modality, Points, Segment, Series, Text
from posenc_mm.streams.siblings import Item, Together
from posenc_mm.streams.stream import Stream

if TYPE_CHECKING:
    from posenc_mm.streams.rules import Layout

_ROOM = 2.0**20


class _Piece(NamedTuple):
    """Tokens of one segment.

    Attributes:
        local: ``(N, A)`` in float64.
        anchored: for each axis, whether it begins at the cursor.
        labels: modality, number among the new blocks or -1, variate.
        start: ``(B,)``, the cursor where it begins.
    """

    local: Tensor
    anchored: tuple[bool, ...]
    labels: tuple[int, int, int]
    start: Tensor


class _Walk(NamedTuple):
    """All pieces of a row, and what is known behind them.

    Attributes:
        pieces: in the order of segments.
        orders: for siblings that are sorted, their first token and the permutation.
        cursor: ``(B,)``, behind them.
        blocks: how many are new.
        steps: by which cursors moved.
        plain: whether all is text that is counted.
    """

    pieces: list[_Piece]
    orders: list[tuple[int, Tensor]]
    cursor: Tensor
    blocks: int
    steps: list[float]
    plain: bool


def fresh(rule: Layout, items: Sequence[Item]) -> Stream:
    """Place a row from its start.

    Args:
        rule: the position design.
        items: segments and siblings.

    Returns:
        A stream of one row on the CPU.
    """
    start = torch.zeros(1, dtype=torch.float64, device="cpu")
    return _assembled(rule, _walked(rule, items, start, None), start.long(), None)


def continued(rule: Layout, stream: Stream, items: Sequence[Item]) -> Stream:
    """Place more tokens behind every row.

    Args:
        rule: the position design.
        stream: what there is so far.
        items: segments and siblings.

    Returns:
        A stream of the new tokens.

    Raises:
        ValueError: the stream has other axes.
    """
    if stream.coords.shape[-1] != rule.axes:
        raise ValueError(
            f"stream must have the layout's {rule.axes} axes, got {stream.coords.shape[-1]}"
        )
    walk = _walked(rule, items, stream.cursor, stream)
    return _assembled(rule, walk, stream.next_block, stream)


def _walked(rule: Layout, items: Sequence[Item], cursor: Tensor, before: Stream | None) -> _Walk:
    """Rows of the same items from cursors ``(B,)``: what is read of items is on the host."""
    after_text = _ends_in_text(before) if before is not None and rule.margin else None
    pieces: list[_Piece] = []
    orders: list[tuple[int, Tensor]] = []
    steps, blocks, tokens, plain = [rule.margin], 0, 0, True
    for item in items:
        siblings = item.segments if isinstance(item, Together) else (item,)
        _check(siblings)
        text = all(_is_counted(each) for each in siblings)
        plain = plain and text
        if not text and rule.margin and after_text is not None:
            cursor = cursor + rule.margin * after_text
        origin = _origin(rule, siblings)
        placed = [place(rule, each, origin) for each in siblings]
        if isinstance(item, Together) and item.order == "time":
            orders.append((tokens, _by_time(rule, item, placed)))
        for segment, where in zip(siblings, placed, strict=True):
            own = -1 if _is_counted(segment) else blocks
            blocks += own >= 0
            variate = segment.variate if isinstance(segment, Series) else -1
            labels = (int(segment.modality), own, variate)
            pieces.append(_Piece(where.local, where.anchored, labels, cursor))
        new = sum(len(where.local) for where in placed)
        tokens += new
        if new:
            after_text = torch.full_like(cursor, float(text)) if rule.margin else None
        ahead = max(each.ahead for each in placed)
        beyond = max(each.beyond for each in placed)
        cursor = (cursor + ahead).clamp(min=beyond) if beyond else cursor + ahead
        if rule.quantise == "cursor":
            cursor = (cursor - SLACK).ceil()
        steps += [ahead, beyond]
    return _Walk(pieces, orders, cursor, blocks, steps, plain)


def _assembled(rule: Layout, walk: _Walk, next_block: Tensor, before: Stream | None) -> Stream:
    device = walk.cursor.device
    local, anchored, labels, begins = _tokens(rule, walk)
    rows = begins.shape
    coords = local.to(device) + anchored.to(device) * begins[..., None]
    modality, block, variate = labels.to(device).unbind(-1)
    numbered = torch.where(block >= 0, block + next_block[:, None], -1)
    document = torch.zeros_like(next_block) if before is None else before.document
    return Stream(
        coords=coords.to(_dtype(rule, walk, local, coords, before)),
        segment=document[:, None].expand(rows),
        modality=modality.expand(rows),
        block=numbered,
        variate=variate.expand(rows),
        mask=torch.ones(rows, dtype=torch.bool, device=device),
        cursor=walk.cursor,
        next_block=next_block + walk.blocks,
        document=document,
    )


def _tokens(rule: Layout, walk: _Walk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Local coordinates, anchors, labels, and begins ``(B, N)``, of all tokens in order."""
    if not walk.pieces:
        local = torch.zeros(0, rule.axes, dtype=torch.float64, device="cpu")
        labels = torch.zeros(0, 3, dtype=torch.int64, device="cpu")
        return local, local.bool(), labels, walk.cursor.new_zeros(len(walk.cursor), 0)
    local = torch.cat([piece.local for piece in walk.pieces])
    anchored = torch.tensor([piece.anchored for piece in walk.pieces], device="cpu")
    labels = torch.tensor([piece.labels for piece in walk.pieces], device="cpu")
    starts = torch.stack([piece.start for piece in walk.pieces], dim=1)
    if len(walk.pieces) == 1:
        size = (len(local), -1)
        return local, anchored.expand(size), labels.expand(size), starts.expand(-1, len(local))
    owner = torch.cat(
        [
            torch.full((len(piece.local),), number, device="cpu")
            for number, piece in enumerate(walk.pieces)
        ]
    )
    for first, order in walk.orders:
        part = slice(first, first + len(order))
        local[part], owner[part] = local[part][order], owner[part][order]
    return local, anchored[owner], labels[owner], starts[:, owner.to(starts.device)]


def _check(siblings: Sequence[object]) -> None:
    strange = [each for each in siblings if not isinstance(each, SEGMENTS)]
    if strange:
        names = ", ".join(kind.__name__ for kind in SEGMENTS)
        raise ValueError(f"segments must be of {names} or Together, got {strange[0]!r}")


def _is_counted(segment: Segment) -> bool:
    return isinstance(segment, Text) and segment.times is None


def _origin(rule: Layout, siblings: Sequence[Segment]) -> float:
    """The second at which the time axis of siblings begins: the earliest of all their times."""
    clocks = [each.clock for each in siblings if each.clock is not None and len(each.clock.ticks)]
    if rule.clock is not None:
        return rule.clock
    rates = [clock.rate for clock in clocks]
    if rule.time == "seconds" and len(rates) > 1 and None in rates and set(rates) != {None}:
        raise ValueError(
            "siblings must all have seconds, or none of them: give times, fps or rate to each"
        )
    return min((float(c.ticks.min()) / (c.rate or 1.0) for c in clocks), default=0.0)


def _by_time(rule: Layout, item: Together, placed: Sequence[Placed]) -> Tensor:
    """The order of siblings by time, or by chunks of it."""
    times = [where.time for where in placed if where.time is not None]
    if len(times) != len(placed) or any(isinstance(each, Points) for each in item.segments):
        raise ValueError(f"siblings in order='time' must all have times, got {item.segments}")
    time = torch.cat(times)
    if item.chunk is not None:
        if rule.time == "frames":
            raise ValueError(f"chunk is in seconds, got chunk={item.chunk} and time='frames'")
        time = ((time + SLACK) / (item.chunk * rule.scales[0])).floor()
    return time.argsort(stable=True)


def _ends_in_text(stream: Stream) -> Tensor | None:
    """For each row, whether its last real token is text that is counted ``(B,)``."""
    if not stream.mask.shape[1]:
        return None
    counted = (stream.modality == Modality.TEXT) & (stream.block < 0)
    steps = torch.arange(stream.mask.shape[1], device=stream.mask.device)
    last = torch.where(stream.mask, steps, -1).argmax(dim=1)
    return counted.gather(1, last[:, None])[:, 0].double()


def _dtype(
    rule: Layout, walk: _Walk, local: Tensor, coords: Tensor, before: Stream | None
) -> torch.dtype:
    """Float32 if it holds all numbers exactly, read from what is known on the host."""
    if rule.dtype is not None:
        return rule.dtype
    if before is not None and (walk.plain or before.coords.dtype == torch.float64):
        return before.coords.dtype  # whole steps: with nothing to read, decoding compiles
    steps = torch.tensor(walk.steps, dtype=torch.float64, device="cpu")
    eighths = 8 * torch.cat((steps, (coords if before is None else local).flatten()))
    exact = bool((eighths == eighths.round()).all() and (eighths.abs() < 8 * _ROOM).all())
    return torch.float32 if exact else torch.float64
