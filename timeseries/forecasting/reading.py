"""The table that is to be forecast, and what a careful person notices about it."""

import argparse
import re
from functools import cache
from typing import NamedTuple

from posenc_mm.timestamps import Frequency, TimeAxis, Zone, zone_of
from posenc_mm.timestamps.spectrum import STEPS
from timeseries.data import Finding, Series, inspect, read_table
from timeseries.forecasting.asking import UndecidedError, UnusableError, refusal, spoken
from timeseries.forecasting.telling import Telling, listed

_MADE_UP = "leave encodings of the calendar out"
_FOLLOWED = re.compile(r"should go by clocks as the values do, such as tz='([^']+)'")
# Notes of the reader about rows that are not as they were, which people should see first.
_SERIOUS = ("left out", "taken for", "filled", "sorted", "columns left out", "stamps skip",
            "stamps name other clocks")  # fmt: skip
_LOOKED_AT = 5
_REGULAR = 0.5
# Steps of the calendar may be of two names: 30 days a month, half of one 15.
_ABOUT = 0.1


class Data(NamedTuple):
    """What was read.

    Attributes:
        series: as they are in the table.
        frequency: of their stamps.
        regular: whether most steps are of that frequency.
        day_first: how days and months were read, None if that was no question.
        made_up: whether the calendar of the stamps seems made up.
        followed: the zone by which values live though stamps do not, if one was found.
    """

    series: list[Series]
    frequency: Frequency
    regular: bool
    day_first: bool | None
    made_up: bool
    followed: str | None

    @property
    def zone(self) -> str | None:
        return self.series[0].axis.zone


def read(options: argparse.Namespace, telling: Telling) -> Data:
    """Read the table and tell what is in it, the worst first.

    Args:
        options: of the command line.
        telling: who tells.

    Returns:
        The series and what matters about them.

    Raises:
        UndecidedError: an option has to say how the table is meant.
        UnusableError: it cannot be read.
    """
    try:
        reading = read_table(
            options.path,
            time=options.time,
            targets=options.target,
            known=options.known,
            group=options.group,
            tz=options.tz,
            day_first=options.day_first,
            interpolate=options.fill,
        )
    except (ValueError, OSError) as error:
        raise refusal(error) from error
    series = _chosen(reading.series, options)
    findings = _findings(series)
    telling.heading(f"{options.path}")
    notes = [spoken(note) for note in reading.notes]
    for note in notes:
        if note.startswith(_SERIOUS):
            telling.warn(note)
    for finding in findings:
        if finding.level == "warning":
            telling.warn(spoken(finding.what))
    for note in notes:
        if not note.startswith(_SERIOUS):
            telling.find(note)
    for finding in findings:
        if finding.level != "warning":
            telling.find(finding.what)
    frequency, regular = _frequency(series, options)
    words = " ".join(finding.what for finding in findings)
    followed = _FOLLOWED.search(words)
    order = " ".join(note for note in notes if note.startswith("stamps are in"))
    return Data(
        [one._replace(axis=stated(one.axis, frequency)) for one in series] if regular else series,
        frequency,
        regular,
        True if "day, month, year" in order else False if "month, day, year" in order else None,
        _MADE_UP in words,
        followed[1] if followed else None,
    )


def stated(axis: TimeAxis, frequency: Frequency) -> TimeAxis:
    """The same axis with a frequency that is not inferred again."""
    return like(axis, axis.ticks, frequency)


def like(axis: TimeAxis, ticks: object, frequency: Frequency | None = None) -> TimeAxis:
    """Make an axis of other ticks, with the unit and the clock of one."""
    if axis.zone is None:
        stamps = ticks.numpy().astype(f"datetime64[{axis.unit}]")  # type: ignore[attr-defined]
        return TimeAxis(stamps, freq=frequency)
    return TimeAxis(ticks, clock(axis.zone), axis.unit, freq=frequency)


@cache
def clock(zone: str | None) -> Zone:
    """The table of a zone, which takes a while to make; UTC where there is none."""
    return zone_of(zone or "UTC")


def _chosen(series: list[Series], options: argparse.Namespace) -> list[Series]:
    if options.only is None:
        return series
    names = [one.name for one in series]
    if options.group is None:
        raise UndecidedError("--only names series, which --group COLUMN tells apart: say which")
    missing = [name for name in options.only if name not in names]
    if missing:
        raise UnusableError(
            f"--only must name series of --group {options.group}, got {listed(missing)}: there are "
            f"{listed(names)}"
        )
    return [one for one in series if one.name in options.only]


def _findings(series: list[Series]) -> list[Finding]:
    """What is to be said of all series, of several by name, of many of some."""
    found = []
    for one in series[:_LOOKED_AT]:
        for finding in inspect(one):
            name = f"{one.name}: " if len(series) > 1 else ""
            found.append(finding._replace(what=f"{name}{finding.what}"))
    if len(series) > _LOOKED_AT:
        what = f"{len(series) - _LOOKED_AT} more series were not looked at as closely"
        found.append(Finding("info", f"{what}: --only NAME does"))
    return found


def _frequency(series: list[Series], options: argparse.Namespace) -> tuple[Frequency, bool]:
    found = [one.axis.frequency for one in series]
    names = [str(one) for one in found]
    commonest = found[max(range(len(found)), key=lambda row: names.count(names[row]))]
    regular = commonest.confidence > _REGULAR
    if options.freq is None:
        return commonest, regular
    asked = options.freq
    exact = not asked.of_calendar and not commonest.of_calendar
    share = _length(asked) / _length(commonest)
    if regular and abs(share - 1) > (0.0 if exact else _ABOUT):
        raise UndecidedError(
            f"--freq must be how far rows are apart, got {asked}: {commonest.evidence}. Leave it "
            "out, or bring the table to that frequency"
        )
    return asked, regular


def _length(frequency: Frequency) -> float:
    """Seconds of a step, of those of the calendar the mean."""
    if frequency.of_calendar:
        return frequency.multiple * STEPS[frequency.unit]
    return float(frequency.length)
