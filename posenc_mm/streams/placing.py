"""Where the tokens of one segment are, before it is known where the segment begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from posenc_mm.streams.clocks import Ticks
from posenc_mm.streams.segments import Image, Points, Segment, Text, Video

if TYPE_CHECKING:
    from posenc_mm.streams.rules import Layout

# Times times a scale miss whole numbers by rounding: 3 * 0.7 * 10 is 20.999999999999996.
SLACK = 1e-6


class Placed(NamedTuple):
    """Tokens of a segment, as a function of the cursor ``c`` where it begins.

    Attributes:
        local: ``(N, A)`` in float64, to which anchored axes add ``c``.
        anchored: for each axis, whether it does.
        ahead: the next cursor is at least ``c + ahead``.
        beyond: and at least this, for blocks on a clock of their own.
        time: ``(N,)`` along the time axis, to sort siblings by; None for text that is counted.
    """

    local: Tensor
    anchored: tuple[bool, ...]
    ahead: float
    beyond: float
    time: Tensor | None


def place(rule: Layout, segment: Segment, origin: float) -> Placed:
    """Place one segment.

    Args:
        rule: the position design.
        segment: what to place.
        origin: second at which its time axis begins.

    Returns:
        Its tokens.

    Raises:
        ValueError: it needs seconds or axes that are missing.
    """
    if isinstance(segment, Text) and segment.times is None:
        return _text(rule, segment.count)
    if isinstance(segment, Points):
        return _points(rule, segment.coords)
    clock = segment.clock
    moments = _moments(rule, clock, origin)
    cells = segment.rows * segment.columns if isinstance(segment, (Image, Video)) else 1
    if rule.span is not None:
        return _flat(rule, moments.repeat_interleave(cells))
    on_clock = rule.clock is not None and clock is not None
    if isinstance(segment, (Image, Video)):
        return _grid(rule, moments, segment.rows, segment.columns, on_clock)
    return _line(rule, moments, on_clock)


def _moments(rule: Layout, clock: Ticks | None, origin: float) -> Tensor:
    """Time steps on the time axis ``(T,)``, from 0 where the block or its clock begins."""
    if clock is None:
        return torch.zeros(1, dtype=torch.float64, device="cpu")
    scale = rule.scales[0]
    if rule.time == "frames":
        return torch.arange(len(clock.ticks), dtype=torch.float64, device="cpu") * scale
    if clock.rate is None:
        if scale != 1 or rule.clock is not None:
            raise ValueError(
                f"this layout has {scale} positions per second, and clock={rule.clock}, but a "
                f"block of {len(clock.ticks)} steps has no seconds: give it times, fps or rate"
            )
        moments = clock.ticks
    else:
        moments = (clock.ticks - origin * clock.rate) * (scale / clock.rate)
    return (moments + SLACK).floor() if rule.quantise == "times" else moments


def _text(rule: Layout, count: int) -> Placed:
    steps = torch.arange(count, dtype=torch.float64, device="cpu")
    local, anchored = _on(rule.axes, rule.counted, steps), _among(rule.axes, rule.counted)
    return Placed(local, anchored, float(count) if rule.counted else 0.0, 0.0, None)


def _grid(rule: Layout, moments: Tensor, rows: int, columns: int, on_clock: bool) -> Placed:
    if rule.axes < 3:
        raise ValueError(
            f"images and videos need three axes (time, row, column) or a span, got a layout of "
            f"axes={rule.axes} and span=None"
        )
    scales = rule.scales
    row = _centred(rule.centre, rows) * scales[1]
    column = _centred(rule.centre, columns) * scales[2]
    steps = len(moments)
    grid = torch.zeros(steps, rows, columns, rule.axes, dtype=torch.float64, device="cpu")
    grid[..., 0] = moments[:, None, None]
    grid[..., 1] = row[:, None]
    grid[..., 2] = column
    if rule.couple:
        grid[..., 1:3] += moments[:, None, None, None]
    last = float(moments.max()) if steps else -1.0
    along = last if rule.couple else 0.0
    most = (last, float(row[-1]) + along, float(column[-1]) + along)
    moving = (0, 1, 2) if rule.couple else (0,)
    fixed = moving if on_clock else ()
    anchored = _among(rule.axes, [a for a in rule.anchored if a < 3 and a not in fixed])
    concerned = {"max": (0, 1, 2), "time": (0,), "space": (1, 2), "none": ()}[rule.advance]
    reach = _reach(most if steps else (), concerned, fixed)
    local = grid.flatten(0, 2)
    return Placed(local, anchored, *reach, local[:, 0])


def _line(rule: Layout, time: Tensor, on_clock: bool) -> Placed:
    with_text = rule.line == "text" and bool(rule.counted)
    lies_on = rule.counted if with_text else (0,)
    begins = rule.counted if with_text else [a for a in rule.anchored if a < 3]
    fixed = tuple(lies_on) if on_clock else ()
    anchored = _among(rule.axes, [a for a in begins if a not in fixed])
    local = _on(rule.axes, lies_on, time)
    concerned = () if rule.advance == "none" else lies_on
    return Placed(local, anchored, *_reach(_most(local), concerned, fixed), time)


def _flat(rule: Layout, time: Tensor) -> Placed:
    count = len(time)
    steps = torch.arange(count, dtype=torch.float64, device="cpu")
    span = float(count) if not isinstance(rule.span, (int, float)) else float(rule.span)
    if rule.span != "count":
        steps = (steps + 1) * span / max(count, 1) - 1
    lies_on = rule.counted or (0,)
    ahead = span if count and rule.advance != "none" else 0.0
    return Placed(_on(rule.axes, lies_on, steps), _among(rule.axes, lies_on), ahead, 0.0, time)


def _points(rule: Layout, coords: Tensor) -> Placed:
    given = coords.shape[1]
    if given > rule.axes:
        raise ValueError(f"points of {given} axes need a layout of as many, got axes={rule.axes}")
    local = torch.zeros(len(coords), rule.axes, dtype=torch.float64, device="cpu")
    local[:, :given] = coords * torch.tensor(rule.scales[:given], dtype=torch.float64, device="cpu")
    concerned = {"max": range(given), "time": range(1), "space": range(1, given), "none": ()}
    anchored = _among(rule.axes, [axis for axis in rule.anchored if axis < given])
    return Placed(local, anchored, *_reach(_most(local), concerned[rule.advance], ()), local[:, 0])


def _most(local: Tensor) -> Sequence[float]:
    most: list[float] = local.amax(0).tolist() if len(local) else []
    return most


def _reach(
    most: Sequence[float], concerned: Sequence[int], fixed: Sequence[int]
) -> tuple[float, float]:
    """How far tokens reach ahead of the cursor, and on axes that do not begin at it."""
    ahead = beyond = 0.0
    for axis in concerned if most else ():
        if axis in fixed:
            beyond = max(beyond, most[axis] + 1)
        else:
            ahead = max(ahead, most[axis] + 1)
    return ahead, beyond


def _centred(centre: str, count: int) -> Tensor:
    cells = torch.arange(count, dtype=torch.float64, device="cpu")
    if centre == "unit":
        return (2 * cells + 1) / count - 1
    shift = {
        "none": 0,
        "floor": (count - 1) // 2,
        "ceil": count - count // 2,
        "exact": (count - 1) / 2,
    }
    return cells - shift[centre]


def _on(axes: int, chosen: Sequence[int], values: Tensor) -> Tensor:
    local = torch.zeros(len(values), axes, dtype=torch.float64, device="cpu")
    local[:, list(chosen)] = values[:, None]
    return local


def _among(axes: int, chosen: Sequence[int]) -> tuple[bool, ...]:
    return tuple(axis in chosen for axis in range(axes))
