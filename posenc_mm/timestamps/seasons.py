"""Seasons of a series: which periods its past has, and how surely."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, max_pool1d, pad

from posenc_mm.checks import check_whole
from posenc_mm.timestamps.axis import TimeAxis

_DAY, _YEAR = 86_400.0, 365.2425 * 86_400.0
_CALENDAR = {"minute": 60.0, "hour": 3600.0, "day": _DAY, "week": 7 * _DAY}
_CALENDAR |= {"month": _YEAR / 12, "quarter": _YEAR / 4, "year": _YEAR}
_STEPS = {**_CALENDAR, "business_day": _DAY, "semi_month": _YEAR / 24}
_WITHIN = {"minute": "hour", "hour": "day", "day": "week", "month": "year", "quarter": "year"}
# Harmonics that tell a period (6, 8: of days that differ over the week), and the most that it has.
_TELLING, _MOST = {"quarter": (1, 2), "week": (1, 2, 3, 6, 8)}, {"day": 23, "week": 6, "year": 11}
_LEVEL, _CYCLES, _FREE_CYCLES, _AGREEMENT = 0.01, 1.99, 3, 0.5  # twice 365 days: two years


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
    cells, seen, step = _gridded(values.detach().cpu().double().reshape(len(axis), -1).T, axis)
    return _Search(cells, seen, step).seasons(most) if cells.shape[1] > 15 else []


class _Search:
    def __init__(self, cells: Tensor, seen: Tensor, step: float) -> None:
        self.cells, self.length = _levelled(cells, seen, step), cells.shape[1]
        self.seen, self.step = seen, step
        self.cycles = torch.arange(self.length // 2 * 4) / 4  # per series, of each bin
        self.open, self.found = self.cycles < self.length / 2 - 1, list[_Line]()
        longest = self.length * step / _CYCLES
        self.known = {n: step / s for n, s in _CALENDAR.items() if 2 * step <= s <= longest}
        self.rest = (self.cells - self.fit([], seen)[0]) * seen
        self.first, _ = self.spectrum()

    def seasons(self, most: int) -> list[Season]:
        while len(self.found) < most and (line := self.clearest()).alarm < _LEVEL:
            lines, early = [*self.found, line], self.seen.cumsum(1) * 2 <= self.seen.sum(1)[:, None]
            halves = [self.fit(lines, self.seen & half)[-1] for half in (early, ~early)]
            shapes = torch.stack(halves)[:, line.column, self.seen[line.column]]
            agreement = float(torch.corrcoef(shapes)[0, 1].nan_to_num(0))
            self.open[max(line.bin - 4, 0) : line.bin + 5] = False
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
        at = min(round(4 * self.length * frequency), len(self.cycles) - 1)
        return slice(max(at - 2, 1), at + 3)

    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Power, and the probability that noise has it: 1 where it is not clear of what is near."""
        whole = _bridged(self.rest, self.seen)
        power = torch.fft.rfft(whole - whole.mean(1, keepdim=True), n=4 * self.length)
        power = power[:, : len(self.cycles)].abs().square() / self.length
        # What was taken off leaves holes, which are no noise.
        logs = power.maximum(0.01 * avg_pool1d(power, 33, 1, 16)).clamp(min=1e-30).log()
        freedom = (1.4 * self.cycles).clamp(0.1, 60)
        chance = (1 + power / _noise(logs, 64) / freedom).pow(-freedom)
        return power, chance.where(power > 10 * _noise(logs, 8), 1.0)

    def clearest(self) -> _Line:
        """The line that noise has with the least probability, of the calendar if there is one."""
        power, chance = self.spectrum()
        names, free = [line.name for line in self.found], self.open & (self.cycles >= _FREE_CYCLES)
        for line in self.found:  # neither its harmonics, nor what slow change of it looks like
            turns = self.cycles / (cycles := self.length * line.frequency)
            apart = (turns - turns.round()).abs() > max(0.03, 0.75 / cycles)
            free &= apart | (turns < 0.5) | (turns > (32.5 if cycles > 8 else 6.5))
        mask = free & (power > 0.8 * max_pool1d(self.first, 37, 1, 18))
        mask &= 2 * power > 0.01 * self.rest.square().sum(1, keepdim=True)
        # Of false alarms the calendar may have four fifths; and there are peaks between cycles.
        many, few = 5.0 * self.cells.numel(), 3.75 * len(self.known) * len(power)
        tests, owner = torch.full_like(self.cycles, many), dict[int, tuple[str, float, int]]()
        for name, frequency in self.known.items():
            outer = self.known.get(_WITHIN.get(name, ""), 0.0)
            for k in _TELLING.get(name, (1, 2, 3)):
                near, *sides = (self.near(k * frequency + by * outer) for by in (0, -2, -1, 1, 2))
                mine, *beside = (self.first[:, bins].amax(1) for bins in (near, *sides))
                own = mine >= (2 if outer else 1) * torch.stack(beside).amax(0)
                own &= name not in names and (k < 4 or "day" in names)
                mask[:, near] = self.open[near] & own[:, None]
                tests[near] = few
                owner |= {bin: (name, frequency, k) for bin in range(near.start, near.stop)}
        alarms = chance.where(mask & (power >= max_pool1d(power, 9, 1, 4)), 1.0) * tests
        alarms[:, (tests == many) & bool((alarms < _LEVEL)[:, tests == few].any())] = 1.0
        column, at = divmod(int(alarms.argmin()), len(self.cycles))
        name, frequency, k = owner.get(at) or self.fundamental(power[column], chance[column], at)
        shortest = 0.91 if self.step > 7.1 * _DAY * frequency else 1.0  # as February is
        highest = max(1, min(_MOST.get(name, 32), int(shortest / frequency / 2 + 1e-9)))
        bins = [self.near(k * frequency).start + 2 for k in range(1, highest + 1)]
        held = power[:, bins] * (chance[:, bins] * highest * len(power) < _LEVEL / 10)
        held = (held / self.rest.square().sum(1, keepdim=True)).nansum(0)
        k = max(1, min(k, highest), *((held > held.sum() / 100).nonzero()[:, 0] + 1).tolist())
        return _Line(name, frequency, k, column, at, float(alarms[column, at]))

    def fundamental(self, power: Tensor, chance: Tensor, at: int) -> tuple[str, float, int]:
        part, at = 1, min(max(at, 1), len(power) - 2)
        for k in (2, 3, 4, 5, 6):
            best = max(range(at // k - 1, at // k + 3), key=lambda bin: float(power[bin]))
            part = k if best >= 4 * _FREE_CYCLES and chance[best] < 2e-4 else part
        left, middle, right = power[at - 1 : at + 2].clamp(min=1e-30).log().tolist()
        off = (left - right) / 2 / min(left - 2 * middle + right, -1e-9)
        return "", (at + off) / (4 * self.length * part), part

    def fit(self, lines: list[_Line], seen: Tensor) -> Tensor:
        """Least squares: a level and the lines ``(1 + L, V, T)``."""
        turns = 2 * math.pi * torch.arange(self.length, dtype=torch.float64)
        angles = [x.frequency * turns * torch.arange(1, x.harmonics + 1)[:, None] for x in lines]
        blocks = [torch.ones_like(turns)[None], *(torch.cat([x.sin(), x.cos()]) for x in angles)]
        waves, shared = torch.cat(blocks), seen[:1] if (seen == seen[:1]).all() else seen
        products = waves * shared[:, None] @ waves.T + 1e-7 * self.length * torch.eye(len(waves))
        weights = torch.linalg.solve(products, (self.cells * seen @ waves.T)[..., None])[..., 0]
        pieces = weights.split([len(block) for block in blocks], 1)
        return torch.stack([piece @ block for piece, block in zip(pieces, blocks, strict=True)])


def _gridded(columns: Tensor, axis: TimeAxis) -> tuple[Tensor, Tensor, float]:
    """Means of the values in each cell ``(V, T)``, whether it has some, and its seconds."""
    freq, wall = axis.frequency, axis._wall(axis.ticks)
    ticks = wall.days * (86_400 * wall.per_second) + wall.ticks
    seconds = (ticks - ticks.min()).double() / wall.per_second
    apart = torch.unique(seconds).diff()
    usual = apart[apart < 1.5 * apart.median()].mean()
    step = float(seconds.max() / (apart / usual).round().sum())
    if freq.confidence >= 0.5:
        step = freq.multiple * _STEPS[freq.unit] if freq.of_calendar else float(freq.length)
    step = max(step, float(seconds.max()) / (16 * len(seconds)))  # wider if nearly all is gap
    at, given = (seconds / step).round().long(), columns.isfinite()
    counts = columns.new_zeros(len(columns), int(at.max()) + 1).index_add_(1, at, given.double())
    sums = torch.zeros_like(counts).index_add_(1, at, columns.where(given, 0.0))
    return sums / counts.clamp(min=1), counts > 0, step


def _levelled(cells: Tensor, seen: Tensor, step: float) -> Tensor:
    """Take a robust line off, by values whole years apart, and clip, in units of the spread."""
    years, size = cells.shape[1] * step / _YEAR, cells.abs().amax(1, keepdim=True)
    apart = round(max(1, round(years / 4)) * _YEAR / step) if years >= 2.9 else cells.shape[1] // 4
    if not _CYCLES <= years < 2.9:  # too few to tell a line from a year
        width, lag = max(1, apart // 8), round(apart / max(1, apart // 8))
        means = avg_pool1d(cells, width, width) / avg_pool1d(seen.double(), width, width)
        gain = (means[:, lag:] - means[:, :-lag]).nanmedian(1, keepdim=True).values
        cells = cells - gain.nan_to_num(0) / (lag * width) * torch.arange(cells.shape[1])
    ordered, last = cells.where(seen, math.inf).sort(1).values, seen.sum(1, keepdim=True) - 1
    low, middle, high = (ordered.gather(1, (q * last).clamp(min=0).long()) for q in (0.1, 0.5, 0.9))
    cells, spread = cells - middle, (high - low) / 2.563
    seen = seen & (cells.abs() > 1e-9 * size)  # the rest is rounding
    return (cells / spread).clamp(-4, 4).where(spread > 0, cells).where(seen, 0.0)


def _bridged(values: Tensor, seen: Tensor) -> Tensor:
    """Straight lines over gaps: what a random walk does on average, so that none is a season."""
    at, last = torch.arange(values.shape[1]), values.shape[1] - 1
    before = at.where(seen, 0).cummax(1).values
    after = at.where(seen, last).flip(1).cummin(1).values.flip(1)
    share = (at - before) / (after - before).clamp(min=1)
    return values.gather(1, before).lerp(values.gather(1, after), share.double())


def _noise(logs: Tensor, widest: int) -> Tensor:
    """The mean power whole cycles beside each bin, from what its logarithm is on average."""
    sums = pad(logs.reshape(len(logs), -1, 4).cumsum(1), (0, 0, 1, 0))
    at, last, sides = torch.arange(sums.shape[1] - 1), sums.shape[1] - 1, []
    width = (at // 2).clamp(4, widest)
    for start, stop in ((at - width, at - 1), (at + 2, at + width + 1)):
        start = start.clamp(1, last - 1)
        stop = stop.clamp(max=last).maximum(start + 1)
        sides.append((sums[:, stop] - sums[:, start]) / (stop - start)[:, None])
    return (torch.maximum(*sides) + 0.5772).exp().flatten(1)
