"""Frequencies: how far one stamp is from the next, in every spelling that pandas has had."""

import re
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Any

from posenc_mm.timestamps.units import SECONDS

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
FIXED = {
    "nanosecond": "ns",
    "microsecond": "us",
    "millisecond": "ms",
    "second": "s",
    "minute": "min",
    "hour": "h",
}
# From pandas' spelling to the class of offset: unit, and where in it a stamp lies.
_SPELLINGS = {
    **{alias: (unit, "") for unit, alias in FIXED.items()},
    "D": ("day", ""),
    "B": ("business_day", ""),
    "W": ("week", "SUN"),
    "SMS": ("semi_month", "start"),
    "SME": ("semi_month", "end"),
    "MS": ("month", "start"),
    "ME": ("month", "end"),
    "BMS": ("month", "business-start"),
    "BME": ("month", "business-end"),
    "QS": ("quarter", "start-JAN"),
    "QE": ("quarter", "end-DEC"),
    "BQS": ("quarter", "business-start-JAN"),
    "BQE": ("quarter", "business-end-DEC"),
    "YS": ("year", "start-JAN"),
    "YE": ("year", "end-DEC"),
    "BYS": ("year", "business-start-JAN"),
    "BYE": ("year", "business-end-DEC"),
}
_OLD_SPELLINGS = {
    **{"N": "ns", "n": "ns", "U": "us", "u": "us", "L": "ms", "l": "ms", "S": "s", "T": "min"},
    **{"t": "min", "H": "h", "d": "D", "b": "B", "w": "W", "SM": "SME", "M": "ME", "BM": "BME"},
    **{"Q": "QE", "q": "QE", "BQ": "BQE", "A": "YE", "a": "YE", "Y": "YE", "y": "YE", "AS": "YS"},
    **{"BA": "BYE", "BY": "BYE", "BAS": "BYS"},
}
_SPELLING = re.compile(r"(\d*)\s*([A-Za-z]+)(?:-([A-Za-z]{3}|15))?")

_YEARLY = ("quarter", "year")
_CLOCK = ("hour", "day_of_week", "day", "day_of_year")
_FINE = ("nanosecond", "microsecond", "millisecond", "second", "minute")
_FIELDS = {
    **{unit: (*_FINE[row:], *_CLOCK) for row, unit in enumerate(_FINE)},
    "hour": _CLOCK,
    "day": _CLOCK[1:],
    "business_day": _CLOCK[1:],
    "week": ("day", "week"),
    "semi_month": ("day", "month"),
    "month": ("month",),
    "quarter": ("month",),
    "year": (),
}


@dataclass(frozen=True)
class Frequency:
    """The step from one stamp to the next.

    Attributes:
        unit: nanosecond, microsecond, millisecond, second, minute or hour, which last as long as
            they say; or day, business_day, week, semi_month, month, quarter or year, which are
            steps of the calendar.
        multiple: how many units a step has.
        anchor: where stamps lie: the day of a ``week`` (``"SUN"``); ``"start"`` or ``"end"`` of a
            ``semi_month`` (1st and 15th, or 15th and last); of a ``month`` its ``"start"``,
            ``"end"``, ``"business-start"``, ``"business-end"`` or a day (``"31"`` is the last in
            shorter months); of a ``quarter`` or ``year`` the same and the month (``"end-DEC"``).
        confidence: the share of steps that are exactly one such step.
        evidence: what the frequency is known from.
    """

    unit: str
    multiple: int = 1
    anchor: str = ""
    confidence: float = field(default=1.0, compare=False)
    evidence: str = field(default="stated", compare=False)

    def __str__(self) -> str:
        """Spell the frequency as pandas 3 does, where pandas can."""
        number = "" if self.multiple == 1 else str(self.multiple)
        if self.unit == "week":
            return f"{number}W-{self.anchor}"
        place, month = self.anchor, ""
        if self.unit in _YEARLY:
            place, _, month = self.anchor.rpartition("-")
        for alias, (unit, anchor) in _SPELLINGS.items():
            if unit == self.unit and anchor.removesuffix("-JAN").removesuffix("-DEC") == place:
                return f"{number}{alias}{'-' if month else ''}{month}"
        return f"{number}{self.unit} on day {self.anchor}"

    @property
    def of_calendar(self) -> bool:
        """Whether steps follow the calendar, so that they differ in length."""
        return self.unit not in FIXED

    @property
    def length(self) -> Fraction:
        """How long a step is in seconds, by a clock that is never set.

        Raises:
            ValueError: steps differ by more than changes of the clocks.
        """
        days = {"day": 1, "week": 7}.get(self.unit, 0)
        if self.of_calendar and not days:
            raise ValueError(f"steps of {self} have no fixed length: take steps of the calendar")
        return self.multiple * (Fraction(86_400 * days) or SECONDS[FIXED[self.unit]])


def frequency_of(freq: "str | timedelta | Frequency | Any") -> Frequency:
    """Read a frequency.

    Args:
        freq: a spelling of pandas, such as ``"15min"``, ``"W-SUN"`` or ``"MS"``, with any multiple;
            spellings that pandas 3 has given up are read as pandas 2 did, with a warning that says
            the new one. Or an offset object of pandas, or a ``timedelta``.

    Returns:
        The frequency.

    Raises:
        ValueError: another spelling, or ``"m"``, which is a minute to some and a month to others.

    Example:
        >>> frequency_of("3h")
        Frequency(unit='hour', multiple=3, anchor='', confidence=1.0, evidence='stated')
    """
    if isinstance(freq, Frequency):
        return freq
    if isinstance(freq, timedelta):
        return _of_length(freq)
    # What pandas itself spells in the old way is no one's to correct.
    own = not isinstance(freq, str)
    spelling = getattr(freq, "freqstr", None) if own else freq
    match = _SPELLING.fullmatch(spelling.strip()) if isinstance(spelling, str) else None
    if match is None or (match[1] and not int(match[1])):
        raise ValueError(
            "freq must be a whole number of one of pandas' units, such as '15min' or 'W-SUN', got "
            f"freq={freq!r}"
        )
    if match[2] == "m":
        raise ValueError("freq must be 'min' for minutes or 'ME' for ends of months, got freq='m'")
    alias = _OLD_SPELLINGS.get(match[2], match[2])
    if alias not in _SPELLINGS:
        raise ValueError(
            f"freq must be one of {', '.join(_SPELLINGS)} and a multiple, got freq={freq!r}"
        )
    if alias != match[2] and not own:
        anchored = f"-{match[3]}" if match[3] else ""
        warnings.warn(
            f"the frequency {freq!r} is spelled {match[1] + alias + anchored!r} today",
            FutureWarning,
            stacklevel=2,
        )
    unit, anchor = _SPELLINGS[alias]
    return Frequency(unit, int(match[1] or 1), _anchored(unit, anchor, match[3], freq))


def features_of(freq: "str | timedelta | Frequency | Any") -> tuple[str, ...]:
    """List the fields of the calendar that tell stamps of a frequency apart, the finest first.

    A multiple has the fields of its unit, so that quarters of an hour keep their minute. These are
    the fields of gluonts and of the models that copy its table.

    Args:
        freq: as :func:`frequency_of` reads it.

    Returns:
        Names for :meth:`~posenc_mm.timestamps.TimeAxis.fields`; none for years.

    Example:
        >>> features_of("15min")
        ('minute', 'hour', 'day_of_week', 'day', 'day_of_year')
    """
    return _FIELDS[frequency_of(freq).unit]


def fixed(length: Fraction) -> Frequency:
    """Express a length of whole nanoseconds in the largest unit of the clock that fits."""
    return next(
        Frequency(unit, int(length / SECONDS[alias]))
        for unit, alias in reversed(FIXED.items())
        if length % SECONDS[alias] == 0
    )


def _of_length(step: timedelta) -> Frequency:
    length = Fraction(step // timedelta(microseconds=1), 10**6)
    if length <= 0:
        raise ValueError(f"freq must be positive, got freq={step!r}")
    return fixed(length)


def _anchored(unit: str, anchor: str, asked: str | None, freq: Any) -> str:
    if asked is None:
        return anchor
    name = asked.upper()
    if unit == "week" and name in WEEKDAYS:
        return name
    if unit in _YEARLY and name in MONTHS:
        return f"{anchor.rpartition('-')[0]}-{name}"
    if unit == "semi_month" and asked == "15":
        return anchor
    wanted = "a day of the week" if unit == "week" else "a month" if unit in _YEARLY else "nothing"
    raise ValueError(f"freq must have {wanted} behind the dash, got freq={freq!r}")
