"""Pictures of something between a query and keys, against how far apart they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from posenc_mm.plots.reading import (
    Grid,
    Numbers,
    axis_names,
    counted,
    durations,
    grid_of_tokens,
    numbers,
)
from posenc_mm.plots.theme import Theme, figure, grid_of, limits
from posenc_mm.timestamps.units import TICKS_PER_SECOND

# From positions of queries (1, A) and of keys (M, A) to numbers (H, M), one row per head.
Asked = Callable[[Tensor, Tensor], Numbers]

_MOST_MAPS, _FEW = 12, 7
_EMPTY = "\nall zero: nothing is learned yet"


def against(
    ask: Asked,
    positions: Tensor,
    *,
    title: str,
    label: str,
    tick: str | None = None,
    last: bool = False,
    more: Callable[[Axes, Theme, Numbers, Any], None] | None = None,
    unit: str | None = None,
    theme: str = "light",
) -> Figure:
    """Draw numbers of pairs: lines on one axis, maps on a grid, lines along each of several axes.

    Args:
        ask: what to draw.
        positions: ``(N, A)``
        title: of the figure.
        label: what the numbers are, with their unit.
        tick: what positions count if they are moments.
        last: whether the query is the last token, and distances positive; else the middle one.
        more: draws on a panel beside that of one axis, at distances in the order of some tokens.
        unit: what positions count.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.
    """
    axes = positions.shape[1]
    layout = grid_of_tokens(positions)
    if layout is not None and min(len(layout.rows), len(layout.columns)) > 1:
        return _maps(ask, positions, layout, title, label, unit, theme)
    names, count = axis_names(axes), axes + (more is not None)
    empty = True
    with figure(3.6 + 2.6 * count, 4.0, theme) as (made, look):
        panels = made.subplots(1, count, squeeze=False, sharex=axes == 1, sharey=axes > 1)[0]
        for axis, panel in enumerate(panels[:axes]):
            query, keys = _along(positions, axis, last)
            away = numbers(query[:, axis] - keys[:, axis]) * (1 if last else -1)
            what, counts = "distance" if last else "key less query", counted(axes, unit)
            if tick:
                away, counts = durations(away / TICKS_PER_SECOND[tick])
            order = np.argsort(away, kind="stable")
            values = ask(query, keys)[:, order]
            lines(panel, look, away[order], values)
            empty = empty and not values.any()
            along = "" if axes == 1 else f" along {names[axis]}"
            panel.set_xlabel(f"{what}{along} ({counts})")
        panels[0].set_ylabel(label)
        if more is not None:
            more(panels[-1], look, away[order], order)
            panels[-1].set_xlabel(panels[0].get_xlabel())
        heads(made, panels[axes - 1], look)
        made.suptitle(title + (_EMPTY if empty else ""))
        return made


def lines(axes: Axes, look: Theme, at: Numbers, values: Numbers) -> None:
    """Draw one line per head, points too where there are few."""
    mark = "o" if len(at) <= 24 else None
    if len(values) > 1 and bool((values == values[:1]).all()):
        name = f"all {len(values)} heads"
        axes.plot(at, values[0], color=look.lines[0], marker=mark, markersize=3, label=name)
        axes.grid(True)
        return
    for head, colour in enumerate(look.shades(len(values))):
        axes.plot(at, values[head], color=colour, marker=mark, markersize=3, label=f"head {head}")
    axes.grid(True)


def heads(made: Figure, axes: Axes, look: Theme) -> None:
    """Say which line is of which head: by a legend if they are few, else by a bar of colours."""
    drawn = axes.get_lines()
    count = len(drawn)
    if count > _FEW:
        scale = ScalarMappable(Normalize(0, count - 1), look.ramp())
        made.colorbar(scale, ax=axes, label="head (number)")
    elif count > 1 or (count and str(drawn[0].get_label()).startswith("all ")):
        axes.legend()


def _along(positions: Tensor, axis: int, last: bool) -> tuple[Tensor, Tensor]:
    """A query (1, A), and keys that are elsewhere on one axis alone."""
    if positions.shape[1] == 1:
        at = len(positions) - 1 if last else len(positions) // 2
        return positions[at : at + 1], positions
    sides = [torch.unique(positions[:, each]) for each in range(positions.shape[1])]
    query = positions.new_tensor([float(side[len(side) // 2]) for side in sides]).unsqueeze(0)
    keys = query.repeat(len(sides[axis]), 1)
    keys[:, axis] = sides[axis]
    return query, keys


def _maps(
    ask: Asked,
    positions: Tensor,
    layout: Grid,
    title: str,
    label: str,
    unit: str | None,
    theme: str,
) -> Figure:
    row, column = len(layout.rows) // 2, len(layout.columns) // 2
    at = int(layout.order[row * len(layout.columns) + column])
    every = layout.fold(ask(positions[at : at + 1], positions))
    same = len(every) > 1 and bool((every == every[:1]).all())
    shown = every[:1] if same else every[:_MOST_MAPS]
    down, across = grid_of(len(shown))
    side = 2.3 if len(shown) > 1 else 3.6
    tall = min(max(len(layout.rows) / len(layout.columns), 0.4), 2.0)
    size = (2.0 + side * across, 1.0 + (side * tall + 0.3) * down)
    with figure(*size, theme) as (made, look):
        panels = made.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        signed = bool((shown < 0).any() and (shown > 0).any())
        norm = limits(shown) if signed else Normalize(shown.min(), max(shown.max(), shown.min()))
        shades = look.signed if signed else look.sequence
        image = None
        for head, panel in enumerate(panels.flat):
            if head >= len(shown):
                panel.set_visible(False)
                continue
            image = panel.imshow(shown[head], cmap=shades, norm=norm)
            for colour, width in ((look.background, 3.0), (look.text, 1.2)):
                panel.plot(column, row, "+", color=colour, markersize=8, markeredgewidth=width)
            _ticks(panel, layout)
            if len(shown) > 1:
                panel.set_title(f"head {head}")
        rest = f" (heads 0 to {len(shown) - 1} of {len(every)})" if len(every) > len(shown) else ""
        rest = f" (all {len(every)} heads)" if same else rest
        rest += "" if shown.any() else _EMPTY
        made.colorbar(image, ax=panels, label=label)  # type: ignore[arg-type]
        names, counts = axis_names(2), counted(2, unit)
        made.supxlabel(f"{names[1]} of the key ({counts}); the query is at +", fontsize=9)
        made.supylabel(f"{names[0]} of the key ({counts})", fontsize=9)
        made.suptitle(title + rest)
        return made


def _ticks(axes: Axes, layout: Grid) -> None:
    for side, places in ((layout.rows, axes.set_yticks), (layout.columns, axes.set_xticks)):
        some = np.unique(np.linspace(0, len(side) - 1, min(len(side), 5)).round().astype(int))
        places(some, [f"{side[place]:.3g}" for place in some])
