"""Clocks that are set: which zones have those that explain how stamps skip and values shift."""

import math
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

import numpy as np

# Zones are told apart by their changes alone; of those that share them, these are named first.
KNOWN = (
    *("Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Athens"),
    *("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"),
    *("America/Toronto", "America/Sao_Paulo", "America/Mexico_City", "America/Santiago"),
    *("Australia/Melbourne", "Australia/Sydney", "Australia/Adelaide", "Pacific/Auckland"),
    *("Asia/Jerusalem", "Asia/Tehran", "Africa/Cairo"),
)
_AREAS = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_DAY, _WEEK, _FORTNIGHT = 86_400, 7 * 86_400, 14
# How often chance may make a table look as if it had such a clock.
_UNLIKELY = 0.05


class Change(NamedTuple):
    """The clocks of a zone are set.

    Attributes:
        instant: when, in UTC seconds since 1970.
        before: seconds east of UTC until then.
        after: seconds east of UTC from then on.
    """

    instant: int
    before: int
    after: int

    @property
    def shift(self) -> int:
        return self.after - self.before

    @property
    def reading(self) -> int:
        """What the clock showed last, in seconds since 1970 on it."""
        return self.instant + self.before

    @property
    def day(self) -> str:
        moment = datetime.fromtimestamp(self.reading, timezone.utc)
        return moment.date().isoformat()


class Clock(NamedTuple):
    """Zones whose clocks explain something.

    Attributes:
        zones: their names, the best known first.
        changes: that these clocks had.
        at: of the holes they explain, seconds from what the clocks skipped to what is missing.
        twice: how many of the hours that they showed twice are there twice.
    """

    zones: tuple[str, ...]
    changes: tuple[Change, ...]
    at: int = 0
    twice: int = 0

    def __str__(self) -> str:
        named = [zone for zone in self.zones if zone in KNOWN][:4] or list(self.zones[:4])
        more = len(self.zones) - len(named)
        return ", ".join(named) + (f" or {more} more" if more else "")


def clocks(low: float, high: float) -> Iterator[Clock]:
    """Every way in which clocks somewhere were set between two moments, UTC seconds since 1970."""
    found: dict[tuple[Change, ...], list[str]] = {}
    for name in zoneinfo.available_timezones():
        if name.partition("/")[0] in _AREAS:
            changes = tuple(_changes(zoneinfo.ZoneInfo(name), int(low), int(high)))
            found.setdefault(changes, []).append(name)
    found.pop((), None)
    for changes, zones in found.items():
        yield Clock(tuple(zones), changes)


def merged(fitting: list[Clock]) -> Clock | None:
    """All zones of clocks that explain the same equally well, the best known first."""
    if not fitting:
        return None
    zones = {zone for clock in fitting for zone in clock.zones}
    order = {zone: row for row, zone in enumerate(KNOWN)}
    ranked = sorted(zones, key=lambda zone: (order.get(zone, len(order)), zone))
    return fitting[0]._replace(zones=tuple(ranked))


def skipping(readings: np.ndarray) -> Clock | None:
    """Find the zones whose clocks skip what is missing from readings of one clock.

    Each time that such clocks were set forward, just the hour they skip is missing, or the one
    beside it; so often, among as few holes, that chance is no explanation.

    Args:
        readings: ``(T,)`` seconds since 1970 on the clock, in any order, repeated ones included.

    Returns:
        The zones that explain most; None if none do.
    """
    stamps, counts = np.unique(readings, return_counts=True)
    if len(stamps) < 3:
        return None
    steps = np.diff(stamps)
    step = int(np.median(steps))
    holes = {
        int(stamps[row]) + step: int(steps[row]) - step for row in np.flatnonzero(steps > step)
    }
    # The hole of an hour, at half an hour per row, is two rows.
    if not holes or step > 3600 or len(holes) * 10 > len(stamps):
        return None
    twice = set(stamps[counts == 2].tolist())
    found = []
    low, high = int(stamps[0]), int(stamps[-1])
    every = list(clocks(low, high))
    for clock in every:
        forward = [c for c in clock.changes if c.shift > 0 and low < c.reading < high]
        back = [c for c in clock.changes if c.shift < 0]
        for at in (0, 3600):
            starts = [low - (low - c.reading - at) // step * step for c in forward]
            fits = [holes.get(s) == c.shift for s, c in zip(starts, forward, strict=True)]
            chance = 2 * len(every) * (len(holes) / len(stamps)) ** len(forward)
            if fits and all(fits) and chance < _UNLIKELY:
                doubled = sum(c.reading + c.shift in twice for c in back)
                rank = (at, -doubled, -len(forward))
                found.append((rank, clock._replace(at=at, twice=doubled)))
    best = min((rank for rank, _ in found), default=None)
    return merged([clock for rank, clock in found if rank == best])


def followed(values: np.ndarray, first: int, step: int) -> Clock | None:
    """Find the clocks by which values live, if their stamps are of a clock that is never set.

    The daily pattern of the values then moves along the stamps, by as much as the clocks are set,
    the other way. The fortnights before and after a change are compared: how much better do they
    agree if one is moved? Each change has to say so, and all together more than any other days do.

    Args:
        values: ``(T, V)`` without gaps.
        first: the first stamp, seconds since 1970.
        step: seconds from one to the next.

    Returns:
        The zones of the change that explain most; None if none do.
    """
    deviation = values.std(0)
    if 3600 % step or len(values) * step < 30 * _DAY or not deviation.any():
        return None
    values = values[:, deviation > 0] / deviation[deviation > 0]
    day = _DAY // step
    start = -(first % _DAY) // step % day
    days = len(values[start:]) // day
    daily = values[start : start + days * day].reshape(days, day, -1)
    midnight = (first + start * step) // _DAY
    # Every day as if clocks were set on it: changes have to stand out among them.
    gains = {shift: _gains(daily, shift // step) for shift in (3600, -3600)}
    every = list(clocks(first, first + len(values) * step))
    found: dict[float, list[Clock]] = {}
    for clock in every:
        days_set = [(c.instant // _DAY - midnight, c.shift) for c in clock.changes]
        if all(shift in gains for _, shift in days_set):
            chance = _chance(gains, days_set) * len(every) * daily.shape[-1]
            if chance < _UNLIKELY / 5:
                found.setdefault(chance, []).append(clock)
    return merged(found[min(found)]) if found else None


def _gains(daily: np.ndarray, rows: int) -> np.ndarray:
    """How much better, as a logarithm, days after agree with days before that are moved back."""
    width, days = _FORTNIGHT, len(daily)
    gains = np.full((days, daily.shape[-1]), np.nan)
    sums = np.concatenate([np.zeros_like(daily[:1]), daily.cumsum(0)])
    means = (sums[width:] - sums[:-width]) / width
    means = means - means.mean(1, keepdims=True)
    # The day itself belongs to neither fortnight.
    before, after = means[: days - 2 * width], means[width + 1 :]
    moved = np.roll(before, -rows, axis=1)
    plain, shifted = (((after - one) ** 2).sum(1) for one in (before, moved))
    with np.errstate(divide="ignore", invalid="ignore"):
        gains[width : days - width] = np.log(plain / shifted)
    return gains


def _chance(gains: dict[int, np.ndarray], days_set: list[tuple[int, int]]) -> float:
    """How likely days of no change gain as much as these do, after Fisher, in the best column."""
    days = len(gains[3600])
    near = np.array([day for day, _ in days_set])
    far = np.abs(np.arange(days)[:, None] - near).min(1) > _FORTNIGHT
    shares = []
    for day, shift in days_set:
        if 0 <= day < days and np.isfinite(gains[shift][day]).all():
            usual = gains[shift][far & np.isfinite(gains[shift]).all(1)]
            share = ((usual >= gains[shift][day]).sum(0) + 1) / (len(usual) + 1)
            shares.append(np.where(gains[shift][day] > 0, share, 1.0))
    if len(shares) < 2:
        return 1.0
    half = -np.log(shares).sum(0)  # of a chi-square of 2 degrees for each
    terms = [half**k / math.factorial(k) for k in range(len(shares))]
    return float((np.exp(-half) * np.sum(terms, axis=0)).min())


def _changes(zone: zoneinfo.ZoneInfo, low: int, high: int) -> Iterator[Change]:
    def offset(seconds: int) -> int:
        difference = datetime.fromtimestamp(seconds, zone).utcoffset()
        return int(difference.total_seconds()) if difference else 0

    start, before = low, offset(low)
    while start < high:
        end = min(start + _WEEK, high)
        after = offset(end)
        if after != before:
            least, most = start, end
            while most - least > 1:
                middle = (least + most) // 2
                least, most = (middle, most) if offset(middle) == before else (least, middle)
            yield Change(most, before, after)
        start, before = end, after
