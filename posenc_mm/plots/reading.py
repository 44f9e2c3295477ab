"""What every picture reads first: the kind of an encoding, its values, and what positions count."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib.dates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc_mm.timestamps.units import TICKS_PER_SECOND

Numbers = NDArray[np.float64]
# Its functions have no types.
DATES: Any = matplotlib.dates

_DURATIONS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


class Grid(NamedTuple):
    """Tokens that fill a grid.

    Attributes:
        rows: values of the first axis, rising.
        columns: values of the second one.
        order: of the tokens, row by row.
    """

    rows: Numbers
    columns: Numbers
    order: NDArray[np.intp]

    def fold(self, of_tokens: Numbers) -> Numbers:
        """Numbers ``(..., N)`` of tokens as maps ``(..., rows, columns)``."""
        shape = (*of_tokens.shape[:-1], len(self.rows), len(self.columns))
        return of_tokens[..., self.order].reshape(shape)


def numbers(values: Tensor) -> Numbers:
    """Numbers of a tensor on any device, learned or not, in float64."""
    made: Numbers = values.detach().double().cpu().numpy()
    return made


def checked(
    positions: Tensor, encoding: nn.Module | None = None, most: int | None = None
) -> Tensor:
    """Refuse positions that are none of one sample, and widen them.

    Args:
        positions: ``(N, A)``
        encoding: what reads them; moments stay whole ticks.
        most: tokens, where a picture compares all with all.

    Returns:
        The same numbers, in float64 unless they are moments.

    Raises:
        ValueError: another shape, no token, or too many.
    """
    if not isinstance(positions, Tensor) or positions.ndim != 2 or not positions.numel():
        got = tuple(positions.shape) if isinstance(positions, Tensor) else repr(positions)
        raise ValueError(f"positions must be (N, A) of one sample with a token or more, got {got}")
    if most is not None and len(positions) > most:
        raise ValueError(
            f"positions must be {most:,} at most, as all are compared with all, got "
            f"{len(positions):,}: draw fewer"
        )
    if encoding is not None and tick_of(encoding) and not positions.is_floating_point():
        return positions
    return positions.double()


def kind(encoding: object, wanted: type | tuple[type, ...], picture: str, fits: str) -> None:
    """Refuse an encoding that a picture is not for.

    Args:
        encoding: what came.
        wanted: the classes it may be of.
        picture: its name.
        fits: which encodings it is for, and which picture is for the others.

    Raises:
        ValueError: it is of none of them.
    """
    if not isinstance(encoding, wanted):
        raise ValueError(f"{picture} is for {fits}, got {type(encoding).__name__}")


def tick_of(encoding: nn.Module) -> str | None:
    """What positions count where they are moments: s, ms, us or ns; None where they are not."""
    for module in encoding.modules():
        unit = getattr(module, "unit", None)
        if isinstance(unit, str) and unit in TICKS_PER_SECOND:
            return unit
    return None


def axis_names(axes: int) -> tuple[str, ...]:
    """Name the axes of positions, in tensor order."""
    known: dict[int, tuple[str, ...]] = {
        1: ("position",),
        2: ("row", "column"),
        3: ("time", "row", "column"),
    }
    return known.get(axes) or tuple(f"axis {axis}" for axis in range(axes))


def counted(axes: int, unit: str | None) -> str:
    """What positions count, unless the caller says so."""
    return unit or {1: "tokens", 2: "patches"}.get(axes, "cells")


def grid_of_tokens(positions: Tensor, size: Sequence[int] | None = None) -> Grid | None:
    """Find the grid that tokens fill.

    Args:
        positions: ``(N, A)``
        size: rows and columns, for tokens row by row whatever their positions are.

    Returns:
        The grid, or None where there are not two axes or not all cells.

    Raises:
        ValueError: ``size`` is not two numbers that multiply to N.
    """
    at = numbers(positions)
    if size is not None:
        if len(size) != 2 or size[0] * size[1] != len(at):
            raise ValueError(
                f"size must be rows and columns of {len(at)} tokens, got size={tuple(size)}"
            )
        rows, columns = (np.arange(float(side)) for side in size)
        return Grid(rows, columns, np.arange(len(at)))
    if at.shape[1] != 2:
        return None
    rows, columns = np.unique(at[:, 0]), np.unique(at[:, 1])
    order = np.lexsort((at[:, 1], at[:, 0]))
    cells = np.stack(np.meshgrid(rows, columns, indexing="ij"), -1).reshape(-1, 2)
    full = len(cells) == len(at) and bool((at[order] == cells).all())
    return Grid(rows, columns, order) if full else None


def durations(seconds: Numbers) -> tuple[Numbers, str]:
    """Seconds in the unit that suits the longest: days, hours, minutes or seconds."""
    longest = float(np.abs(seconds).max()) if seconds.size else 0.0
    for length, name in _DURATIONS:
        if longest >= 2 * length:
            return seconds / length, name
    return seconds, "seconds"


def dates(positions: Tensor, tick: str) -> NDArray[Any]:
    """Days of matplotlib's dates at moments ``(N,)``."""
    return np.asarray(
        DATES.date2num(numbers(positions).astype("int64").astype(f"datetime64[{tick}]"))
    )


def as_dates(axis: Axis) -> None:
    """Label an axis of matplotlib's dates."""
    locator = DATES.AutoDateLocator(minticks=4, maxticks=8)
    axis.set_major_locator(locator)
    axis.set_major_formatter(DATES.ConciseDateFormatter(locator, show_offset=True))


def edges(
    positions: Tensor, encoding: nn.Module, unit: str | None = None
) -> tuple[float, float, str, bool]:
    """Say between which numbers the rows of an image of tokens lie.

    Args:
        positions: ``(N, A)``
        encoding: what reads them.
        unit: what they count.

    Returns:
        Both edges, the label of the axis, and whether it is one of dates. Tokens that are not
        evenly spaced on one axis are numbered.
    """
    count, axes = positions.shape
    tick = tick_of(encoding)
    if axes == 1 and count > 1:
        at = dates(positions[:, 0], tick) if tick else numbers(positions[:, 0])
        steps = np.diff(at)
        if steps[0] != 0 and np.allclose(steps, steps[0], rtol=1e-3):
            half = steps[0] / 2
            name = "time (UTC)" if tick else f"position ({counted(axes, unit)})"
            return float(at[0] - half), float(at[-1] + half), name, tick is not None
    return -0.5, count - 0.5, "token (number in order)", False


def number_rows(axes: Axes, positions: Tensor) -> None:
    """Label tokens of several axes down an image by where each run along the last axis begins."""
    at = numbers(positions)
    starts = np.flatnonzero(np.r_[True, (np.diff(at[:, :-1], axis=0) != 0).any(1)])
    starts = starts[:: -(-len(starts) // 12)]
    axes.set_yticks(starts, [f"({', '.join(f'{x:g}' for x in at[row])})" for row in starts])
    axes.set_ylabel(f"token ({', '.join(axis_names(at.shape[1]))})")
