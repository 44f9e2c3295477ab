"""What the calendar and the clock on the wall say at each moment, in integers, on any device."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.timestamps.days import DAY_FIELDS, LENGTH_IN_DAYS, PASSED_DAYS, OfDay
from posenc_mm.timestamps.units import TICKS_PER_SECOND, as_ticks, duration
from posenc_mm.timestamps.zones import UTC, Zone, offsets_at

# How many values each field takes. Years are the one field without an end.
FIELD_SIZES = {
    "nanosecond": 1000,
    "microsecond": 1000,
    "millisecond": 1000,
    "second": 60,
    "minute": 60,
    "hour": 24,
    "time_of_day": 86_400,
    "day_of_week": 7,
    "weekend": 2,
    "day": 31,
    "day_of_year": 366,
    "week": 53,
    "sunday_week": 54,
    "month": 12,
    "quarter": 4,
}
_DAY = 86_400
# Periods of the clock on the wall, each a whole number of the one before.
CLOCK = {"second": 1, "minute": 60, "hour": 3600, "day": _DAY}
PERIODS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")

_PARTS_OF_SECOND = {"millisecond": 10**3, "microsecond": 10**6, "nanosecond": 10**9}
_WITHOUT_FLOAT64 = ("mps",)

# Applies a function of the day as at_each does: to each, or by way of a table.
PerDay = Callable[[OfDay, Tensor, int, torch.dtype], Tensor]


class Wall(NamedTuple):
    """Readings of a clock, in int64.

    Attributes:
        days: since 1970-01-01.
        ticks: since midnight.
        per_second: how many ticks are a second.
    """

    days: Tensor
    ticks: Tensor
    per_second: int


def fields(moments: Tensor, names: Sequence[str], *, unit: str = "s", zone: Zone = UTC) -> Tensor:
    """Read fields of the calendar at each moment, counted from 0.

    1 January, the first of a month, Monday, ISO week 1 and midnight are 0: a field is an index into
    a table of ``FIELD_SIZES[name]`` rows. Only ``"year"`` is the number of the year.

    Args:
        moments: ``(...)`` since 1970-01-01T00:00 UTC: int64 ticks, or float64, which is rounded to
            whole microseconds.
        names: of the fields, such as ``"hour"``. ``"week"`` is the ISO week, which may be one of
            the year before or after; ``"sunday_week"`` counts the Sundays of the year so far (C's
            ``%U``), ``"time_of_day"`` seconds since midnight; ``"weekend"`` is 1 on Saturday and
            Sunday.
        unit: what the moments count, one of s, ms, us, ns.
        zone: whose clocks, as tabulated by :func:`~posenc_mm.timestamps.zone_of`.

    Returns:
        ``(..., A)`` in int64, one column per field.

    Raises:
        ValueError: an unknown field or unit, no field, or moments of another type or outside the
            years 1 to 9999.

    Example:
        >>> fields(torch.tensor([1_704_067_199]), ["hour", "day_of_year", "week"]).tolist()
        [[23, 364, 51]]
    """
    check_names("field", names)
    wall = on_the_wall(*as_ticks(moments, unit), zone)
    return torch.stack([field_of(wall, name) for name in names], dim=-1)


def phases(
    moments: Tensor, periods: Sequence[str | float], *, unit: str = "s", zone: Zone = UTC
) -> Tensor:
    """Tell how much of each period has passed at each moment, from 0 to just below 1.

    A period named in ``PERIODS`` is one of the calendar, and its phase a fraction of its actual
    length: 28 to 31 days, 90 to 92, 365 or 366. It is read off the clock on the wall: noon is half
    a day also where clocks were changed in the morning. Weeks begin on Monday. Any other period is
    physical: it repeats since 1970-01-01T00:00 UTC, whatever clocks show.

    All is reduced in integers before it is divided, so that errors stay far below a microsecond.

    Args:
        moments: ``(...)`` since 1970-01-01T00:00 UTC: int64 ticks, or float64, which is rounded to
            whole microseconds.
        periods: names, or durations such as ``"24h"``, ``"29.53D"`` or a number of seconds.
        unit: what the moments count, one of s, ms, us, ns.
        zone: whose clocks, as tabulated by :func:`~posenc_mm.timestamps.zone_of`.

    Returns:
        ``(..., A)`` in float64 (in float32 on a device without it), one column per period.

    Raises:
        ValueError: an unknown period or unit, no period, or moments of another type or outside the
            years 1 to 9999.

    Example:
        >>> phases(torch.tensor([129_600]), ["day", "week", "10h"])
        tensor([[0.5000, 0.6429, 0.6000]], dtype=torch.float64)
    """
    check_names("period", periods)
    ticks, unit = as_ticks(moments, unit)
    wall = on_the_wall(ticks, unit, zone)
    columns = [
        phase_of(wall, period) if period in PERIODS else cycle(ticks, unit, period)
        for period in periods
    ]
    return torch.stack(columns, dim=-1)


def at_each(function: OfDay, days: Tensor, unit: int, dtype: torch.dtype) -> Tensor:
    """Apply a function of the day to each day, in multiples of a unit."""
    return function(days).to(dtype) * unit


def on_the_wall(ticks: Tensor, unit: str, zone: Zone) -> Wall:
    """Read the clocks of a zone at ticks since 1970-01-01T00:00 UTC."""
    per_second = TICKS_PER_SECOND[unit]
    civil, day = ticks + offsets_at(ticks, zone, per_second), _DAY * per_second
    days = civil // day
    return Wall(days, civil - days * day, per_second)


def field_of(wall: Wall, name: str, per_day: PerDay = at_each) -> Tensor:
    """Read one field, as :func:`fields` does, with days looked up as ``per_day`` says."""
    if name in DAY_FIELDS:
        return per_day(DAY_FIELDS[name], wall.days, 1, torch.int64)
    if name in _PARTS_OF_SECOND:
        # What is finer than a tick is 0, and what is coarser is divided away.
        rest, parts = wall.ticks % wall.per_second, _PARTS_OF_SECOND[name]
        return rest * max(parts // wall.per_second, 1) // max(wall.per_second // parts, 1) % 1000
    if name == "time_of_day":
        return wall.ticks // wall.per_second
    if name not in CLOCK or name == "day":
        raise ValueError(f"field must be year or one of {', '.join(FIELD_SIZES)}, got {name!r}")
    return wall.ticks // (CLOCK[name] * wall.per_second) % FIELD_SIZES[name]


def phase_of(wall: Wall, period: str, per_day: PerDay = at_each) -> Tensor:
    """Tell the phase of one period of the calendar, as :func:`phases` does."""
    real, day = real_of(wall.days.device), _DAY * wall.per_second
    length: Tensor | int
    if period in CLOCK:
        length = CLOCK[period] * wall.per_second
        if real == torch.float64:  # a day of ticks is exact there, and faster to divide
            turns = wall.ticks.to(real) / length
            return turns if period == "day" else turns - turns.floor()
        passed = (wall.ticks % length).to(real)
    else:
        passed = per_day(PASSED_DAYS[period], wall.days, day, real) + wall.ticks.to(real)
        length = (
            7 * day if period == "week" else per_day(LENGTH_IN_DAYS[period], wall.days, day, real)
        )
    return _below_one(passed / length)


def cycle(ticks: Tensor, unit: str, period: str | float) -> Tensor:
    """Tell the phase of a physical period since 1970-01-01T00:00 UTC, as :func:`phases` does."""
    real, length, per_second = real_of(ticks.device), physical(period), TICKS_PER_SECOND[unit]
    steps = length * per_second
    if steps.denominator == 1:
        return _below_one((ticks % int(steps)).to(real) / int(steps))
    # Division with remainder is exact in float64, and whole seconds are.
    whole = ticks // per_second
    passed = torch.remainder(whole.double(), float(length))
    turns = (passed + (ticks - whole * per_second).double() / per_second) / float(length)
    return turns - turns.floor()


def physical(period: str | float) -> Fraction:
    """Read a period that is none of the calendar's, in seconds."""
    try:
        return duration(period)
    except ValueError as error:
        names = ", ".join(PERIODS)
        raise ValueError(f"period must be one of {names}, or a duration: {error}") from None


def real_of(device: torch.device) -> torch.dtype:
    """The most exact floats that a device has."""
    return torch.float32 if device.type in _WITHOUT_FLOAT64 else torch.float64


def check_names(what: str, names: Sequence[str | float]) -> None:
    """Refuse one bare name, and none."""
    if isinstance(names, str) or not len(names):
        raise ValueError(f"{what}s must be a list of at least one name, got {names!r}")


def _below_one(turns: Tensor) -> Tensor:
    # A nanosecond before the end of a year rounds to the end, which is the next year's 0.
    return turns.clamp(max=1 - torch.finfo(turns.dtype).eps / 2)
