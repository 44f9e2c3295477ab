"""Which encodings of time suit the data: by name, or by what the data are like."""

import argparse
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from posenc_mm import AdditiveEncoding
from posenc_mm.additive import Calendar, Concat, Holidays, Product, Seasonal
from posenc_mm.timestamps import PERIODS, Zone, duration
from posenc_mm.timestamps.seasons import find_seasons
from timeseries.forecasting.asking import UndecidedError, spoken
from timeseries.forecasting.preparing import Ready
from timeseries.forecasting.reading import Data, clock
from timeseries.forecasting.telling import Telling, lasting

_DAY, _WEEK, _YEAR = 86_400.0, 7 * 86_400.0, 365.25 * 86_400.0
ATTENTION = ("rope_time", "alibi_time")
_OWN = ("seasons", "calendar", "holidays")
# A season that is not seen so often could be anything.
_SEEN = 2
_SURE = 0.5


class Part(NamedTuple):
    """Encodings that are taken or left together.

    Attributes:
        name: for people.
        encoding: features of moments, with nothing to learn.
    """

    name: str
    encoding: AdditiveEncoding


class Choice(NamedTuple):
    """Encodings to compare, and to forecast with.

    Attributes:
        parts: in the order in which they are added.
        auto: whether validation says which of them are kept.
        attention: names of ``ATTENTION``, for transformers.
    """

    parts: list[Part]
    auto: bool
    attention: list[str]


def choose(data: Data, ready: Ready, options: argparse.Namespace, telling: Telling) -> Choice:
    """Choose encodings.

    Args:
        data: that was read.
        ready: its windows; seasons are looked for in the rows that train alone.
        options: of the command line.
        telling: who tells.

    Returns:
        Parts that can be evaluated at moments of these data.

    Raises:
        UndecidedError: a name that is none, or that the data cannot have.
    """
    names = [name for word in options.encodings for name in word.split(",") if name]
    attention = [name for name in names if name in ATTENTION]
    if attention and options.network == "linear":
        raise UndecidedError(
            f"--encodings {attention[0]} acts on attention, which a linear network has not: add "
            "--network patches, or leave it out"
        )
    auto = "auto" in names
    asked = [name for name in names if name not in (*ATTENTION, "auto", "none")]
    if auto:
        attention = attention or (["rope_time"] if options.network == "patches" else [])
    if auto and data.made_up:
        telling.decide("encodings", "none of the calendar", "its stamps seem made up",
                       "--encodings seasons calendar has them all the same")  # fmt: skip
    elif auto:
        # What is left out for want of rows goes without saying.
        asked = [*asked, *(name for name in _OWN if name not in asked)]
    elif data.made_up and asked:
        telling.warn("encodings of the calendar as asked, though its stamps seem made up")
    zone = clock(data.zone)
    parts, periods = [], {}
    for name in asked:
        if name not in _OWN:
            periods |= _period(name, ready.step)
    if periods:
        parts.append(Part(_described(periods), _seasonal(periods, zone)))
    if "seasons" in asked:
        found = seasons(ready, telling)
        if found:
            parts.append(Part(f"seasons ({_described(found)})", _seasonal(found, zone)))
        # What noise may hide or a search may miss, validation may still find to be worth it.
        more = {name: count for name, count in _usual(ready).items() if name not in found}
        if auto and more:
            parts.append(Part(f"usual seasons ({_described(more)})", _seasonal(more, zone)))
    if "calendar" in asked:
        part = _calendar(ready, zone)
        parts += [] if part is None else [part]
    if options.holidays is not None and not data.made_up and (auto or "holidays" in asked):
        parts += _holidays(ready, options.holidays, zone, telling)
    elif "holidays" in names and options.holidays is None:
        raise UndecidedError("--encodings holidays takes a region: --holidays DE, or AU-VIC")
    if not parts and not (auto and data.made_up):
        why = "no season is seen often enough" if auto else "as asked"
        telling.decide("encodings", "none", why, "--encodings day week:3 names some")
    return Choice(parts, auto, attention)


def on_clocks(parts: Sequence[Part], zone: Zone) -> list[Part]:
    """The same encodings on the clocks of another zone."""
    return [Part(part.name, _moved(part.encoding, zone)) for part in parts]


def seasons(ready: Ready, telling: Telling) -> dict[str | float, int]:
    """Find seasons in the rows of the first series that train."""
    end, one = ready.borders[0].train, ready.series[0]
    rows = f"the {end:,} rows{f' of {one.name}' if len(ready.series) > 1 else ''} that train"
    found: dict[str | float, int] = {}
    for season in find_seasons(one.values[:end], one.axis[:end]):
        named = isinstance(season.period, str)
        name = season.period if named else lasting(season.seconds)
        telling.find(
            f"season in {rows}: {name}, harmonics up to {season.harmonics}, {season.strength:.0%} "
            f"of the variance ({season.confidence:.0%} sure: {season.evidence})"
        )
        if season.confidence >= _SURE:
            found[season.period] = season.harmonics
    if not found:
        telling.find(f"no season in {rows} that is clear of noise")
    return found


def _usual(ready: Ready) -> dict[str | float, int]:
    """What rows of such a step may have, of what those that train have seen twice."""
    step = ready.step
    span = float(ready.split.train.moments[-1] - ready.split.train.moments[0])
    wanted = [("day", _DAY, 6), ("week", _WEEK, 7 if step < _DAY else 3), ("year", _YEAR, 2)]
    if step >= _WEEK:
        wanted = [("year", _YEAR, 4)]
    found: dict[str | float, int] = {}
    for name, length, most in wanted:
        # Two steps in a period of the shortest length are as many as its fastest harmonic has.
        harmonics = min(most, math.floor(0.98 * length / (2 * step)))
        if harmonics >= 1 and span >= _SEEN * length:
            found[name] = harmonics
    return found


def _period(name: str, step: float) -> dict[str | float, int]:
    """Read a period such as ``week:3`` or ``12.42h``."""
    period, _, count = name.partition(":")
    length: float
    if period in PERIODS:
        lengths = {"day": _DAY, "week": _WEEK, "month": 28 * _DAY, "quarter": 90 * _DAY}
        length = lengths.get(period, _YEAR if period == "year" else 3600.0)
    else:
        try:
            length = float(duration(period))
        except ValueError as error:
            raise UndecidedError(
                f"--encodings must be auto, none, {', '.join((*_OWN, *ATTENTION))}, a period "
                f"({', '.join(PERIODS)}) or a duration such as 12.42h, got {name!r}"
            ) from error
    most = math.floor(length / (2 * step))
    if count and not re.fullmatch(r"[1-9]\d*", count):
        raise UndecidedError(f"--encodings {name}: harmonics must be a number from 1 on")
    if most < 1 or (count and int(count) > most):
        raise UndecidedError(
            f"--encodings {name}: rows are {lasting(step)} apart, which tells at most {most} "
            f"harmonics of {period}"
        )
    return {period: int(count) if count else min(most, 4)}


def _seasonal(periods: dict[str | float, int], zone: Zone) -> Seasonal:
    try:
        return Seasonal(periods, zone=zone)
    except ValueError as error:
        raise UndecidedError(spoken(str(error))) from error


def _calendar(ready: Ready, zone: Zone) -> Part | None:
    """Weekends change the course of the day, or of the year where rows are days; else months."""
    step, usual = ready.step, _usual(ready)
    weekend = Calendar(["weekend"], code="one_hot", zone=zone)
    if step <= _DAY / 4 and "week" in usual:
        day = Seasonal({"day": min(6, math.floor(_DAY / (2 * step)))}, zone=zone)
        return Part("weekend x day", Concat([weekend, Product([weekend, day])]))
    if step <= _DAY and "year" in usual and "week" in usual:
        year = Seasonal({"year": 2}, zone=zone)
        return Part("weekend x year", Concat([weekend, Product([weekend, year])]))
    if step > _DAY and "year" in usual:
        return Part("months", Calendar(["month"], code="one_hot", zone=zone))
    return None


def _holidays(ready: Ready, region: str, zone: Zone, telling: Telling) -> list[Part]:
    if ready.step > _DAY * 1.5:
        telling.warn(
            f"--holidays {region} is of no use: rows are {lasting(ready.step)} apart, and a "
            "holiday is a day"
        )
        return []
    years = [int(one.axis[[row]].field("year")) for one in ready.series for row in (0, -1)]
    ahead = math.ceil(2 * ready.horizon * ready.step / _YEAR)
    known = Holidays(
        region, years=(min(years) - 1, max(years) + 1 + ahead), offsets=(-1, 0, 1), zone=zone
    )
    if ready.step > _DAY / 4:
        return [Part(f"holidays ({region})", known)]
    day = Seasonal({"day": min(6, math.floor(_DAY / (2 * ready.step)))}, zone=zone)
    return [Part(f"holidays x day ({region})", Concat([known, Product([known, day])]))]


def _moved(encoding: AdditiveEncoding, zone: Zone) -> AdditiveEncoding:
    if isinstance(encoding, (Concat, Product)):
        return type(encoding)([_moved(part, zone) for part in encoding.encodings])
    if isinstance(encoding, Seasonal):
        return Seasonal(encoding.periods, zone=zone)
    if isinstance(encoding, Calendar):
        return Calendar(encoding.fields, code=encoding.code, zone=zone)
    if not isinstance(encoding, Holidays) or encoding.region is None:
        raise TypeError(f"no clock to change in {encoding!r}")
    return Holidays(encoding.region, years=encoding.years, offsets=encoding.offsets, zone=zone)


def _described(periods: dict[str | float, int]) -> str:
    return ", ".join(
        f"{name if isinstance(name, str) else lasting(name)} {count}"
        for name, count in periods.items()
    )


def features(parts: Sequence[Part]) -> AdditiveEncoding | None:
    """All parts side by side."""
    return Concat([part.encoding for part in parts]) if parts else None
