"""Seasons of a series: which periods its past has, and how surely."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d

from posenc_mm.checks import check_whole
from posenc_mm.timestamps.axis import TimeAxis
from posenc_mm.timestamps.spectrum import (
    BINS,
    DAY,
    STEPS,
    TWO_CYCLES,
    cycles_of,
    gridded,
    levelled,
    peak,
    spectrum,
)

_CALENDAR = {n: STEPS[n] for n in ("minute", "hour", "day", "week", "month", "quarter", "year")}
_WITHIN = {"minute": "hour", "hour": "day", "day": "week", "month": "year", "quarter": "year"}
# Harmonics that tell a period; 6 and 8 are of days that differ over the week.
_USUAL_TELLING, _TELLING = (1, 2, 3), {"quarter": (1, 2), "week": (1, 2, 3, 6, 8)}
# The most harmonics: more of a day would be hours of it, of a week days, of a year months.
_USUAL_MOST, _MOST = 32, {"day": 23, "week": 6, "year": 11}
# A season is one if noise has it in less than this share of series, and its halves look alike.
_LEVEL, _AGREEMENT = 0.01, 0.5
# Periods of no name could be any: they are seen once more, and matter.
_FREE_CYCLES, _MATTERS = 3, 0.01
# Of false alarms the calendar may have four fifths.
_CALENDARS, _OTHERS = 0.8, 0.2
_FEWEST_CELLS = 16
# What is left of a season that slowly changes lies beside its harmonics, so near in harmonics or
# in cycles; beyond so many harmonics only if it was seen often.
_BESIDE, _BESIDE_CYCLES = 0.03, 0.75
_OFTEN, _FAR, _FAR_IF_RARE = 8, 32.5, 6.5
# A line that others overtop by more, within so many cycles of the untouched spectrum, is their
# foot.
_OVERTOPPED, _FOOT = 0.8, 9 * BINS + 1
# A period within another has sides; it has to be so much clearer than these.
_CLEARER = 2
# From months on, the shortest is shorter than the mean, as February is.
_MONTHLY, _SHORTEST = 7.1 * DAY, 0.91
# A peak that is a harmonic has a clear fundamental, one time in so many by chance.
_FUNDAMENTAL, _PARTS = 2e-4, (2, 3, 4, 5, 6)
# So that columns without rows can be solved for.
_RIDGE = 1e-7


class Season(NamedTuple):
    """A period that a series has.

    Attributes:
        period: a name of the calendar, else seconds.
        seconds: how long it is, on average.
        harmonics: the highest that is clear of noise and has 1 % of the season's power.
        strength: its share of the variance beside trend and other seasons, in the best column.
        confidence: how its shapes in both halves correlate, times one minus the false alarm.
        evidence: what it is known from, to read.
    """

    period: str | float
    seconds: float
    harmonics: int
    strength: float
    confidence: float
    evidence: str


class _Line(NamedTuple):
    name: str
    frequency: float
    harmonics: int
    column: int
    bin: int
    alarm: float
    agreement: float = 0.0


def find_seasons(values: Tensor, axis: TimeAxis, *, most: int = 4) -> list[Season]:
    r"""Find the periods of a series: of its training part, or the future leaks.

    Values are put on the grid of the axis by the clock on the wall, freed of a robust line, clipped
    at 4 spreads and bridged over gaps. Power is compared with that of frequencies beside,

    .. math::
        P_f = \tfrac1T \big| \sum_t x_t e^{-2 \pi i f t} \big|^2, \;\;
        S_f = e^{0.577 + \operatorname{mean} \log P}, \;\;
        \Pr(P_f > z S_f) \approx (1 + z / \nu)^{-\nu}, \;\; \nu = \min(1.4 f T, 60)

    of the side with more: noise may have any smooth spectrum, as a random walk. Periods are taken
    off one by one, with harmonics, the calendar's first: they need two cycles, others three and 1 %
    of the variance. Shapes in both halves must correlate by 0.5. Less than 1 % of series of noise
    have a season. A cycle that drifts slowly is taken for one; a curved trend hides a few cycles.

    References:
        Vaughan: A simple test for periodic signals in red noise (2005),
        https://doi.org/10.1051/0004-6361:20041453

    Args:
        values: ``(T,)`` or ``(T, V)``; one column with a season is enough. NaN is missing.
        axis: moments of the rows. Without a clear frequency, cells are as long as the median step.
        most: how many seasons to return.

    Returns:
        Seasons, the strongest first.

    Raises:
        ValueError: another shape, fewer than two different moments, or ``most`` below 1.

    Example:
        >>> axis = TimeAxis(3600 * torch.arange(24 * 60), unit="s")
        >>> [season.period for season in find_seasons(axis.phase("day"), axis)]
        ['day']
    """
    check_whole(most=most)
    if values.ndim not in (1, 2) or len(values) != len(axis) or not values.numel():
        raise ValueError(f"values must be (T,) or (T, V), T={len(axis)}, got {tuple(values.shape)}")
    cells, seen, step = gridded(values.detach().cpu().double().reshape(len(axis), -1).T, axis)
    return _Search(cells, seen, step).seasons(most) if cells.shape[1] >= _FEWEST_CELLS else []


class _Search:
    def __init__(self, cells: Tensor, seen: Tensor, step: float) -> None:
        self.cells, self.length = levelled(cells, seen, step), cells.shape[1]
        self.seen, self.step = seen, step
        self.cycles = cycles_of(self.length)
        self.open, self.found = self.cycles < self.length / 2 - 1, list[_Line]()
        longest = self.length * step / TWO_CYCLES
        self.known = {n: step / s for n, s in _CALENDAR.items() if 2 * step <= s <= longest}
        self.rest = (self.cells - self.fit([], seen)[0]) * seen
        self.first, _ = spectrum(self.rest, seen)

    def seasons(self, most: int) -> list[Season]:
        while len(self.found) < most and (line := self.clearest()).alarm < _LEVEL:
            lines, early = [*self.found, line], self.seen.cumsum(1) * 2 <= self.seen.sum(1)[:, None]
            halves = [self.fit(lines, self.seen & half)[-1] for half in (early, ~early)]
            shapes = torch.stack(halves)[:, line.column, self.seen[line.column]]
            agreement = float(torch.corrcoef(shapes)[0, 1].nan_to_num(0))
            self.open[max(line.bin - BINS, 0) : line.bin + BINS + 1] = False
            if agreement >= _AGREEMENT:
                self.found.append(line._replace(agreement=agreement))
                self.rest = (self.cells - self.fit(lines, self.seen).sum(0)) * self.seen
        parts = self.fit(self.found, self.seen)[1:] * self.seen
        return sorted(map(self.season, self.found, parts), key=lambda season: -season.strength)

    def season(self, line: _Line, part: Tensor) -> Season:
        left = self.rest.square().sum(1) / (self.rest + part).square().sum(1)
        strength, sure = 1 - float(left.nan_to_num(1).min()), line.agreement * (1 - line.alarm)
        seconds = _CALENDAR.get(line.name, self.step / line.frequency)
        evidence = f"{self.length * line.frequency:,.1f} cycles, clearest in column {line.column}, "
        evidence += f"false alarm {line.alarm:.0e}, halves agree {line.agreement:.2f}"
        return Season(line.name or seconds, seconds, line.harmonics, strength, sure, evidence)

    def near(self, frequency: float) -> slice:
        """Bins half a cycle to each side."""
        at = min(round(BINS * self.length * frequency), len(self.cycles) - 1)
        return slice(max(at - BINS // 2, 1), at + BINS // 2 + 1)

    def clearest(self) -> _Line:
        """The line that noise has with the least probability, of the calendar if there is one."""
        power, chance = spectrum(self.rest, self.seen)
        mask = self._free() & (power > _OVERTOPPED * max_pool1d(self.first, _FOOT, 1, _FOOT // 2))
        mask &= 2 * power > _MATTERS * self.rest.square().sum(1, keepdim=True)
        # There are peaks between cycles too, so that each bin is a test.
        many = self.cells.numel() / _OTHERS
        few = len(_USUAL_TELLING) * len(self.known) * len(power) / _CALENDARS
        tests, owner = torch.full_like(self.cycles, many), dict[int, tuple[str, float, int]]()
        for name, frequency in self.known.items():
            for k in _TELLING.get(name, _USUAL_TELLING):
                near = self.near(k * frequency)
                mask[:, near] = self.open[near] & self._told(name, frequency, k)[:, None]
                tests[near] = few
                owner |= {bin: (name, frequency, k) for bin in range(near.start, near.stop)}
        highest = max_pool1d(power, 2 * BINS + 1, 1, BINS)
        alarms = chance.where(mask & (power >= highest), 1.0) * tests
        alarms[:, (tests == many) & bool((alarms < _LEVEL)[:, tests == few].any())] = 1.0
        column, at = divmod(int(alarms.argmin()), len(self.cycles))
        name, frequency, k = owner.get(at) or self.fundamental(power[column], chance[column], at)
        most = self.harmonics(name, frequency, k, power, chance)
        return _Line(name, frequency, most, column, at, float(alarms[column, at]))

    def _free(self) -> Tensor:
        """Bins of periods without a name: no harmonics of what was found, nor beside them."""
        free = self.open & (self.cycles >= _FREE_CYCLES)
        for line in self.found:
            turns = self.cycles / (cycles := self.length * line.frequency)
            apart = (turns - turns.round()).abs() > max(_BESIDE, _BESIDE_CYCLES / cycles)
            far = _FAR if cycles > _OFTEN else _FAR_IF_RARE
            free &= apart | (turns < 0.5) | (turns > far)
        return free

    def _told(self, name: str, frequency: float, k: int) -> Tensor:
        """Columns in which a harmonic of the calendar is none of a longer period's ``(V,)``."""
        names, outer = [line.name for line in self.found], self.known.get(_WITHIN.get(name, ""), 0)
        near, *sides = (self.near(k * frequency + by * outer) for by in (0, -2, -1, 1, 2))
        mine, *beside = (self.first[:, bins].amax(1) for bins in (near, *sides))
        own = mine >= (_CLEARER if outer else 1) * torch.stack(beside).amax(0)
        usual = k <= max(_USUAL_TELLING) or "day" in names
        return own & (name not in names and usual)

    def harmonics(self, name: str, frequency: float, k: int, power: Tensor, chance: Tensor) -> int:
        """The highest that is clear of noise and has 1 % of the season's power."""
        shortest = _SHORTEST if self.step > _MONTHLY * frequency else 1.0
        highest = max(1, min(_MOST.get(name, _USUAL_MOST), int(shortest / frequency / 2 + 1e-9)))
        bins = [self.near(k * frequency).start + BINS // 2 for k in range(1, highest + 1)]
        held = power[:, bins] * (chance[:, bins] * highest * len(power) < _LEVEL / 10)
        held = (held / self.rest.square().sum(1, keepdim=True)).nansum(0)
        clear: list[int] = ((held > held.sum() / 100).nonzero()[:, 0] + 1).tolist()
        return max(1, min(k, highest), *clear)

    def fundamental(self, power: Tensor, chance: Tensor, at: int) -> tuple[str, float, int]:
        """The period of a peak that may be a harmonic of it."""
        part, at = 1, min(max(at, 1), len(power) - 2)
        for k in _PARTS:
            best = max(range(at // k - 1, at // k + 3), key=lambda bin: float(power[bin]))
            clear = best >= BINS * _FREE_CYCLES and chance[best] < _FUNDAMENTAL
            part = k if clear else part
        return "", peak(power, at) / (BINS * self.length * part), part

    def fit(self, lines: list[_Line], seen: Tensor) -> Tensor:
        """Least squares: a level and the lines ``(1 + L, V, T)``."""
        turns = 2 * math.pi * torch.arange(self.length, dtype=torch.float64)
        angles = [x.frequency * turns * torch.arange(1, x.harmonics + 1)[:, None] for x in lines]
        blocks = [torch.ones_like(turns)[None], *(torch.cat([x.sin(), x.cos()]) for x in angles)]
        waves, shared = torch.cat(blocks), seen[:1] if (seen == seen[:1]).all() else seen
        products = waves * shared[:, None] @ waves.T + _RIDGE * self.length * torch.eye(len(waves))
        weights = torch.linalg.solve(products, (self.cells * seen @ waves.T)[..., None])[..., 0]
        pieces = weights.split([len(block) for block in blocks], 1)
        return torch.stack([piece @ block for piece, block in zip(pieces, blocks, strict=True)])
