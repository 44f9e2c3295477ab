"""Stamps as people write them, to ticks: the order of day and month, offsets, days there are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from timeseries.data.sniffing import Table

PARTS = ("year", "month", "day", "hour", "minute", "second")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = (
    r"(?:[T ,]\s*(?P<hour>\d{1,2})(?:(?P<tick>[:.])(?P<minute>\d{2})(?:(?P=tick)"
    r"(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<offset>[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
# Where day and month are both numbers, it is to be found out which is first.
FORMATS = {
    how: re.compile(pattern)
    for how, pattern in {
        "year, month, day": r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})"
        r"(?:(?P=sep)(?P<day>\d{1,2}))?" + _CLOCK,
        "two numbers, year": r"(?P<one>0?[1-9]|[12]\d|3[01])(?P<sep>[-/.])"
        r"(?P<two>0?[1-9]|[12]\d|3[01])(?P=sep)"
        r"(?P<year>\d{4}|\d{2})" + _CLOCK,
        "day, name of month, year": r"(?P<day>\d{1,2})[- .]+(?P<named>[A-Za-z]{3,9})[-., ]+"
        r"(?P<year>\d{4}|\d{2})" + _CLOCK,
        "name of month, day, year": r"(?P<named>[A-Za-z]{3,9})[-. ]+(?P<day>\d{1,2})[, ]+"
        r"(?P<year>\d{4})" + _CLOCK,
        "digits from the year down": r"(?P<year>1[89]\d\d|2[01]\d\d)(?P<month>0[1-9]|1[0-2])"
        r"(?:(?P<day>[0-3]\d)(?:[T ]?(?P<hour>[0-2]\d)(?:(?P<minute>[0-5]\d)"
        r"(?P<second>[0-5]\d)?)?)?)?(?P<offset>Z)?",
    }.items()
}
_DEFAULTS = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}


@dataclass
class Cells:
    """The text of a column, or of some joined, and what errors call it."""

    table: Table
    label: str
    texts: list[str]

    def show(self, row: int) -> str:
        return f"{self.texts[row]!r} in {self.table.where([row])}"

    def refuse(self, wanted: str, rows: Sequence[int] | np.ndarray) -> NoReturn:
        """Raise a ValueError that names the rows."""
        raise ValueError(
            f"column {self.label!r} must {wanted}, got {self.texts[rows[0]]!r} in "
            f"{self.table.where(rows)} of {self.table.path}"
        )


def format_of(texts: Sequence[str]) -> str | None:
    """Find how at least half of some texts are written, if they are stamps."""
    fitting = {how: sum(map(bool, map(p.fullmatch, texts))) for how, p in FORMATS.items()}
    how = max(fitting, key=lambda one: fitting[one])
    return how if texts and fitting[how] * 2 >= len(texts) else None


def read_text(cells: Cells, how: str, day_first: bool | None) -> tuple[Any, str, list[int], str]:
    """Read stamps of one format.

    Args:
        cells: what is written.
        how: it is written, of ``FORMATS``.
        day_first: whether the day is first, of two numbers that may both be months.

    Returns:
        ``(T,)`` ticks since 1970-01-01T00:00 in int64; their unit; the offsets from UTC in seconds
        that they name, and ticks are then in UTC; and how they are written, with the order of day
        and month.

    Raises:
        ValueError: stamps of another format, days that there are not, or an order that cannot be
            told; the line is named.
    """
    matches = [FORMATS[how].fullmatch(text) for text in cells.texts]
    bad = [row for row, match in enumerate(matches) if match is None]
    if bad:
        good = next((t for t, m in zip(cells.texts, matches, strict=True) if m), how)
        cells.refuse(f"hold stamps like {good!r} ({how})", bad)
    found = [match.groupdict(default="") for match in matches if match]
    parts = {
        part: np.array([int(one[part] or _DEFAULTS[part]) for one in found])
        for part in PARTS
        if part in found[0] and part != "year"
    }
    years = [one["year"] for one in found]
    # Two digits as POSIX has them.
    parts["year"] = np.array([int(y) + (len(y) == 2) * (1900 + 100 * (y < "69")) for y in years])
    if "named" in found[0]:
        names = [one["named"][:3].lower() for one in found]
        parts["month"] = np.array([MONTHS.index(n) + 1 if n in MONTHS else 0 for n in names])
    if "one" in found[0]:
        one, two = (np.array([int(row[key]) for row in found]) for key in ("one", "two"))
        first = _is_day_first(cells, one, two, found[0]["sep"]) if day_first is None else day_first
        parts["day"], parts["month"] = (one, two) if first else (two, one)
        how = "day, month, year" if first else "month, day, year"
    if any(one.get("half") for one in found):
        half = np.array([one["half"][:1].lower() for one in found])
        hour = parts["hour"]
        wrong = np.flatnonzero((half != "") & ((hour < 1) | (hour > 12)))
        if len(wrong):
            cells.refuse("have hours of 1 to 12 before AM and PM", wrong)
        parts["hour"] = np.where(half == "", hour, hour % 12 + 12 * (half == "p"))
    digits = [one.get("fraction", "") for one in found]
    places = 9 if max(map(len, digits)) > 6 else 6
    seconds = seconds_of(cells, parts)
    offsets, are_named = _offsets(cells, [one.get("offset", "") for one in found])
    named = np.unique(offsets).tolist() if are_named else []
    fractions = np.array([int(text.ljust(places, "0")) if text else 0 for text in digits])
    if places == 9 and np.abs(seconds).max() > 2**63 / 10**9 - 10**5:
        cells.refuse("be within 1678 to 2261 to have nanoseconds", [np.abs(seconds).argmax()])
    return (seconds - offsets) * 10**places + fractions, {6: "us", 9: "ns"}[places], named, how


def seconds_of(cells: Cells, parts: dict[str, np.ndarray]) -> np.ndarray:
    """Seconds since 1970-01-01T00:00 on a clock that is never set.

    Args:
        cells: what errors show.
        parts: ``(T,)`` of each of ``PARTS``, or of those from the year down that are known.

    Returns:
        ``(T,)`` int64. Hour 24 is the next midnight.

    Raises:
        ValueError: there is no such day or time; the line is named.
    """
    whole = [np.asarray(numbers) % 1 == 0 for numbers in parts.values()]
    year, month, day, hour, minute, second = (
        np.broadcast_to(parts.get(part, _DEFAULTS.get(part)), len(cells.texts)).astype(np.int64)
        for part in PARTS
    )
    good = np.all([*whole, year > 0, year < 10_000, month > 0, month < 13, day > 0], axis=0)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first, following = ((months + n).astype("M8[M]").astype("M8[D]").astype("i8") for n in (0, 1))
    good &= (day <= following - first) & (hour >= 0) & (minute >= 0) & (second >= 0)
    time = hour * 3600 + minute * 60 + second
    good &= (minute < 60) & (second < 60) & (time <= 86_400)
    if not good.all():
        cells.refuse("hold days and times that there are", np.flatnonzero(~good))
    return (first + day - 1) * 86_400 + time


def _is_day_first(cells: Cells, one: np.ndarray, two: np.ndarray, separator: str) -> bool:
    """Find out which of two numbers is the day: one that is no month tells."""
    first, second = np.flatnonzero(one > 12), np.flatnonzero(two > 12)
    if len(first) and len(second):
        raise ValueError(
            f"column {cells.label!r} must have day and month in one order, got "
            f"{cells.show(first[0])} and {cells.show(second[0])} of {cells.table.path}"
        )
    if len(first) or len(second):
        return len(first) > 0
    if separator == ".":
        return True  # nobody writes dots with the month first
    rows = np.unique([0, len(cells.texts) - 1])
    raise ValueError(
        f"column {cells.label!r} of {cells.table.path} may have the day first or the month first, "
        f"in all its rows: {' and '.join(map(cells.show, rows))}. Say which by day_first=true or "
        "day_first=false"
    )


def _offsets(cells: Cells, texts: list[str]) -> tuple[np.ndarray, bool]:
    """Seconds east of UTC, and whether rows say so."""
    rows = [row for row, text in enumerate(texts) if bool(text) != bool(texts[0])]
    if rows:
        cells.refuse(f"name offsets from UTC as {cells.show(0)} does, or none at all", rows)
    seconds = {"": 0}
    for text in set(texts) - {""}:
        digits = text[1:].replace(":", "").ljust(4, "0")
        signed = {"+": 1, "-": -1}.get(text[0], 0)
        seconds[text] = signed and signed * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)
    return np.array([seconds[text] for text in texts], dtype=np.int64), bool(texts[0])
