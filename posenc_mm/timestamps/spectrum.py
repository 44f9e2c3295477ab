"""From a series to its spectrum: cells of a grid without trend, and power against noise."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, pad

from posenc_mm.timestamps.axis import TimeAxis
from posenc_mm.timestamps.units import TICKS_PER_SECOND

DAY, YEAR = 86_400.0, 365.2425 * 86_400.0
STEPS = {
    **{"minute": 60.0, "hour": 3600.0, "day": DAY, "business_day": DAY, "week": 7 * DAY},
    **{"semi_month": YEAR / 24, "month": YEAR / 12, "quarter": YEAR / 4, "year": YEAR},
}
# Bins of the spectrum from one whole cycle to the next: a line between two loses 5 % at most.
BINS = 4
# Two years of 365 days are seen twice, though a year is a little longer.
TWO_CYCLES = 1.99

# A frequency that most steps have is that of the grid; else it is the usual step: the mean of all
# that are nearer to the median than to two of it.
_CONFIDENT, _ONE_STEP = 0.5, 1.5
# Cells are widened where there would be more per row: nearly all of them would be empty.
_CELLS_PER_ROW = 16

# From so many years on, values whole years apart tell a line from a year; between this and two
# cycles nothing does.
_YEARS = 2.9
# Of means over an eighth of the lag, a gap or an outlier moves no more than one.
_PARTS = 8
# From the first to the last tenth of normal values there are so many standard deviations.
_TENTHS = 2.563
_OUTLIER = 4.0
# Relative to the largest value, what is no more than this is rounding.
_ROUNDING = 1e-9

# Of noise: cycles on each side that its level is known from, and those near by that a line has to
# be ten times as high as, so that the foot of a steep spectrum is none.
_FEWEST, _WIDE, _NEAR, _HIGH = 4, 64, 8, 10
# Degrees of freedom per cycle from zero up to the bin, and the most that matter.
_FREEDOM, _LEAST_FREEDOM, _MOST_FREEDOM = 1.4, 0.1, 60
# What was taken off leaves holes: there noise is a hundredth of the mean of eight cycles.
_HOLE, _AROUND = 0.01, 8 * BINS + 1
# Euler's: the logarithm of noise is on average so much below that of its mean.
_EULER = 0.5772
_NO_POWER = 1e-30


class Spectrum(NamedTuple):
    """What there is of each frequency.

    Attributes:
        power: ``(V, K)`` of ``BINS`` bins per whole cycle, the first of a constant.
        chance: ``(V, K)`` the probability that noise has it, 1 where it is not clear of what is
            near.
    """

    power: Tensor
    chance: Tensor


def cycles_of(length: int) -> Tensor:
    """How many cycles each bin has in a series of so many cells ``(K,)``."""
    return torch.arange(length // 2 * BINS) / BINS


def spectrum(values: Tensor, seen: Tensor) -> Spectrum:
    """Compare the power of each frequency with that of the frequencies beside it.

    Args:
        values: ``(V, T)``
        seen: ``(V, T)`` whether there is a value; others are bridged.
    """
    length = values.shape[1]
    cycles = cycles_of(length)
    whole = _bridged(values, seen)
    power = torch.fft.rfft(whole - whole.mean(1, keepdim=True), n=BINS * length)
    power = power[:, : len(cycles)].abs().square() / length
    around = avg_pool1d(power, _AROUND, 1, _AROUND // 2)
    logs = power.maximum(_HOLE * around).clamp(min=_NO_POWER).log()
    freedom = (_FREEDOM * cycles).clamp(_LEAST_FREEDOM, _MOST_FREEDOM)
    chance = (1 + power / _noise(logs, _WIDE) / freedom).pow(-freedom)
    return Spectrum(power, chance.where(power > _HIGH * _noise(logs, _NEAR), 1.0))


def peak(power: Tensor, at: int) -> float:
    """Where a peak is between bins: the top of a parabola through three logarithms."""
    logs: list[float] = power[at - 1 : at + 2].clamp(min=_NO_POWER).log().tolist()
    left, middle, right = logs
    return at + (left - right) / 2 / min(left - 2 * middle + right, -1e-9)


def gridded(columns: Tensor, axis: TimeAxis) -> tuple[Tensor, Tensor, float]:
    """Put ``(V, N)`` values on a grid of the clock on the wall.

    Returns:
        Means of the values in each cell ``(V, T)``, whether it has some, and its seconds.
    """
    freq, per_second = axis.frequency, TICKS_PER_SECOND[axis.unit]
    ticks = _seconds_on_the_wall(axis) * per_second + axis.ticks % per_second
    seconds = (ticks - ticks.min()).double() / per_second
    if freq.confidence >= _CONFIDENT:
        step = freq.multiple * STEPS[freq.unit] if freq.of_calendar else float(freq.length)
    else:
        apart = torch.unique(seconds).diff()
        usual = apart[apart < _ONE_STEP * apart.median()].mean()
        step = float(seconds.max() / (apart / usual).round().sum())
    step = max(step, float(seconds.max()) / (_CELLS_PER_ROW * len(seconds)))
    at, given = (seconds / step).round().long(), columns.isfinite()
    counts = columns.new_zeros(len(columns), int(at.max()) + 1).index_add_(1, at, given.double())
    sums = torch.zeros_like(counts).index_add_(1, at, columns.where(given, 0.0))
    return sums / counts.clamp(min=1), counts > 0, step


def _seconds_on_the_wall(axis: TimeAxis) -> Tensor:
    """Whole seconds from some midnight on, as the clocks of the zone count them ``(N,)``."""
    year, day, time = axis.fields("year", "day_of_year", "time_of_day").unbind(1)
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 + day
    return days * 86_400 + time


def levelled(cells: Tensor, seen: Tensor, step: float) -> Tensor:
    """Take a robust line off, by values whole years apart, and clip, in units of the spread."""
    years, size = cells.shape[1] * step / YEAR, cells.abs().amax(1, keepdim=True)
    apart = cells.shape[1] // 4
    if years >= _YEARS:
        apart = round(max(1, round(years / 4)) * YEAR / step)
    if not TWO_CYCLES <= years < _YEARS:
        width = max(1, apart // _PARTS)
        lag = round(apart / width)
        means = avg_pool1d(cells, width, width) / avg_pool1d(seen.double(), width, width)
        gain = (means[:, lag:] - means[:, :-lag]).nanmedian(1, keepdim=True).values
        cells = cells - gain.nan_to_num(0) / (lag * width) * torch.arange(cells.shape[1])
    ordered, last = cells.where(seen, math.inf).sort(1).values, seen.sum(1, keepdim=True) - 1
    low, middle, high = (ordered.gather(1, (q * last).clamp(min=0).long()) for q in (0.1, 0.5, 0.9))
    cells, spread = cells - middle, (high - low) / _TENTHS
    clipped = (cells / spread).clamp(-_OUTLIER, _OUTLIER).where(spread > 0, cells)
    return clipped.where(seen & (cells.abs() > _ROUNDING * size), 0.0)


def _bridged(values: Tensor, seen: Tensor) -> Tensor:
    """Straight lines over gaps: what a random walk does on average, so that none is a season."""
    at, last = torch.arange(values.shape[1]), values.shape[1] - 1
    before = at.where(seen, 0).cummax(1).values
    after = at.where(seen, last).flip(1).cummin(1).values.flip(1)
    share = (at - before) / (after - before).clamp(min=1)
    return values.gather(1, before).lerp(values.gather(1, after), share.double())


def _noise(logs: Tensor, widest: int) -> Tensor:
    """The mean power whole cycles beside each bin, from what its logarithm is on average."""
    sums = pad(logs.reshape(len(logs), -1, BINS).cumsum(1), (0, 0, 1, 0))
    at, last, sides = torch.arange(sums.shape[1] - 1), sums.shape[1] - 1, []
    width = (at // 2).clamp(_FEWEST, widest)
    for start, stop in ((at - width, at - 1), (at + 2, at + width + 1)):
        start = start.clamp(1, last - 1)
        stop = stop.clamp(max=last).maximum(start + 1)
        sides.append((sums[:, stop] - sums[:, start]) / (stop - start)[:, None])
    return (torch.maximum(*sides) + _EULER).exp().flatten(1)
