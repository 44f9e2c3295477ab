"""Missing rows: short gaps are filled along a line, long ones separate pieces."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc_mm.timestamps import Frequency
from timeseries.data import Series
from timeseries.forecasting.reading import like

# A gap of more rows is no slip: what a line says about it is made up.
SHORT = 3


class Filled(NamedTuple):
    """A series without short gaps.

    Attributes:
        series: with rows for what was missing.
        real: ``(T,)`` whether a row was there.
        pieces: the first row and the one after the last of each stretch without a gap.
        long: how many rows are missing between the pieces.
    """

    series: Series
    real: Tensor
    pieces: list[tuple[int, int]]
    long: int


def fill(series: Series, frequency: Frequency, most: int = SHORT) -> Filled:
    """Fill gaps of at most so many rows along a line in time.

    Args:
        series: whose axis states its frequency.
        frequency: of its stamps.
        most: rows in a gap that is filled.

    Returns:
        The series, and where its pieces are.
    """
    axis, count = series.axis, len(series.axis)
    gaps = axis.gaps()
    ticks, real, breaks, long, before = [], [], [], 0, 0
    rows = 0
    for gap in gaps:
        ticks.append(axis.ticks[before : gap.row + 1])
        real.append(torch.ones(len(ticks[-1]), dtype=torch.bool))
        rows += len(ticks[-1])
        before = gap.row + 1
        if gap.missing > most:
            breaks.append(rows)
            long += gap.missing
            continue
        ticks.append(_between(series, frequency, gap.row, gap.missing))
        real.append(torch.zeros(len(ticks[-1]), dtype=torch.bool))
        rows += len(ticks[-1])
    ticks.append(axis.ticks[before:])
    real.append(torch.ones(count - before, dtype=torch.bool))
    whole = torch.cat(ticks)
    ends = [0, *breaks, len(whole)]
    values, known = (
        _interpolated(part, axis.ticks, whole) for part in (series.values, series.known)
    )
    filled = series._replace(axis=like(axis, whole, frequency), values=values, known=known)
    return Filled(filled, torch.cat(real), list(zip(ends, ends[1:], strict=False)), long)


def whole(series: Series) -> Filled:
    """Take a series as it is: where stamps are irregular, nothing is missing."""
    count = len(series.axis)
    return Filled(series, torch.ones(count, dtype=torch.bool), [(0, count)], 0)


def _between(series: Series, frequency: Frequency, row: int, missing: int) -> Tensor:
    """Ticks of the rows that a gap misses, before the next one that is there."""
    ticks = series.axis.ticks
    if not frequency.of_calendar:
        share = torch.arange(1, missing + 1, dtype=torch.float64) / (missing + 1)
        return ticks[row] + (share * (ticks[row + 1] - ticks[row])).round().long()
    following = series.axis[row : row + 1].extend(missing).ticks
    return following[following < ticks[row + 1]]


def _interpolated(values: Tensor, before: Tensor, after: Tensor) -> Tensor:
    if len(before) == len(after):
        return values
    # Counted from the first, so that they are exact in float64.
    old, new = (before - before[0]).double().numpy(), (after - before[0]).double().numpy()
    columns = [np.interp(new, old, column) for column in values.double().numpy().T]
    if not columns:
        return values.new_zeros(len(after), 0)
    return torch.from_numpy(np.stack(columns, axis=1))
