"""The stamps of a table: which columns have them, and what moments they are."""

import re
from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

import numpy as np
import pandas as pd

from timeseries.data.sniffing import Table
from timeseries.data.written import FORMATS, PARTS, Cells, format_of, read_text, seconds_of

_ONLY_CLOCK = re.compile(r"\d{1,2}([:.])\d{2}(\1\d{2}([.,]\d+)?)?\s*([AaPp]\.?[Mm]\.?)?")
_TIMELY = re.compile(r"time|date|stamp|epoch|unix|^(ts|ds|t)$", re.IGNORECASE)
_DIGITS = FORMATS["digits from the year down"]
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
# Numbers from here on count so: seconds of 1973 on, milliseconds of 1973 on, and so forth.
_MAGNITUDES = {"s": 10**8, "ms": 10**11, "us": 10**14, "ns": 10**17}
_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SAMPLE = 200


class Stamps(NamedTuple):
    """The stamps of all rows.

    Attributes:
        ticks: ``(T,)`` since 1970-01-01T00:00, int64.
        unit: what a tick is.
        zone: the one they bring, and ticks are moments, since then in UTC; or None, and ticks are
            readings of a clock.
        how: they are written.
        offsets: from UTC, in seconds, that they name.
    """

    ticks: np.ndarray
    unit: str
    zone: str | tzinfo | None
    how: str
    offsets: tuple[int, ...] = ()


def find_time(table: Table) -> list[str]:
    """Find the column, or the columns, that hold the stamps.

    Of the columns of text that can be read as stamps the one with most different values has them;
    if it has but days, a column of the time of day or of hours joins it. Then come columns named
    year, month, day, hour; then a column of rising numbers, if it is the first or named as such.

    Args:
        table: to look at.

    Returns:
        Their names.

    Raises:
        ValueError: there are none.
    """
    dated = [name for name in table.names if table.is_text(name) and _has_stamps(table, name)]
    if dated:
        best = max(dated, key=lambda name: table.frame[name].nunique())
        column = table.frame[best]
        if column.dtype != object or column.iloc[:_SAMPLE].str.contains(":", regex=False).any():
            return [best]
        return [best, *[name for name in table.names if _tells_hours(table, name)][:1]]
    parts = {name.lower(): name for name in table.names}
    named = [parts[part] for part in PARTS if part in parts]
    if _are_parts(table, named):
        return named
    for name in table.names:
        if (name == table.names[0] or _TIMELY.search(name)) and not table.is_text(name):
            if _counts_time(table, name):
                return [name]
    raise ValueError(
        f"no column of {table.path} ({', '.join(table.names)}) has stamps in a form that is known: "
        "name it by time="
    )


def read_stamps(table: Table, names: Sequence[str], day_first: bool | None) -> Stamps:
    """Read stamps.

    Args:
        table: that has them.
        names: of their column; or of columns of year, month, day, hour; or of a column of days and
            one of the time of day.
        day_first: whether the day is first, of two numbers that may both be months.

    Returns:
        The stamps.

    Raises:
        ValueError: no such column; a row without a stamp, or with one that cannot be read, or may
            be read in two ways; the line is named.
    """
    columns = [table.column(name, "time") for name in names]
    for name in names:
        missing = np.flatnonzero(table.is_missing(name))
        if len(missing):
            raise ValueError(
                f"column {name!r} must have a stamp in each row, got none in "
                f"{table.where(missing)} of {table.path}"
            )
    if len(columns) == 1 and pd.api.types.is_datetime64_any_dtype(columns[0].dtype):
        zone = getattr(columns[0].dtype, "tz", None)
        column = columns[0].dt.tz_convert("UTC").dt.tz_localize(None) if zone else columns[0]
        array = column.to_numpy()
        unit = np.datetime_data(array.dtype)[0]
        return Stamps(array.astype(np.int64), unit, zone, "a column of moments")
    rows = zip(*(column.astype(str) for column in columns), strict=True)
    cells = Cells(table, " ".join(names), [" ".join(row) for row in rows])
    if _are_parts(table, names):
        parts = {name.lower(): table.numbers(name, "time") for name in names}
        return Stamps(seconds_of(cells, parts), "s", None, "numbers")
    how = format_of(cells.texts[:_SAMPLE]) or format_of(cells.texts)
    if how is not None:
        ticks, unit, offsets, how = read_text(cells, how, day_first)
        return Stamps(ticks, unit, "UTC" if offsets else None, how, tuple(offsets))
    return _epoch(cells)


def _epoch(cells: Cells) -> Stamps:
    """Read numbers since 1970, whose magnitude tells what they count."""
    bad = [row for row, text in enumerate(cells.texts) if not _NUMBER.fullmatch(text)]
    if len(bad) * 2 > len(cells.texts):
        cells.refuse("hold stamps in a form that is known, such as 2024-12-31 13:00", bad)
    if bad:
        cells.refuse("hold seconds or milliseconds since 1970", bad)
    numbers = np.array([float(text) for text in cells.texts])
    unit = next((u for u in reversed(_MAGNITUDES) if np.median(numbers) >= _MAGNITUDES[u]), None)
    if unit is None:
        cells.refuse("hold stamps, or seconds or milliseconds since 1970", [0])
    least = _MAGNITUDES[unit]
    other = np.flatnonzero((numbers < least) | (numbers >= min(1000 * least, 2**63)))
    if len(other):
        cells.refuse(f"count {_WORDS[unit]} since 1970 in all rows", other)
    how = f"{_WORDS[unit]} since 1970"
    if all(text.lstrip("+-").isdigit() for text in cells.texts):
        return Stamps(np.array([int(text) for text in cells.texts]), unit, "UTC", how)
    if unit == "ns" or (numbers % 1 == 0).all():
        return Stamps(np.rint(numbers).astype(np.int64), unit, "UTC", how)
    microseconds = np.rint(numbers * (10**6 / _PER_SECOND[unit])).astype(np.int64)
    return Stamps(microseconds, "us", "UTC", how)


def _are_parts(table: Table, names: Sequence[str]) -> bool:
    if "year" not in [name.lower() for name in names]:
        return False
    return all(name.lower() in PARTS and not table.is_text(name) for name in names)


def _has_stamps(table: Table, name: str) -> bool:
    if pd.api.types.is_datetime64_any_dtype(table.frame[name].dtype):
        return True
    return table.frame[name].dtype == object and format_of(_sample(table, name)) is not None


def _tells_hours(table: Table, name: str) -> bool:
    if name.lower() in ("hour", "hr"):
        return True
    sample = _sample(table, name) if table.is_text(name) else []
    return bool(sample) and all(map(_ONLY_CLOCK.fullmatch, sample))


def _counts_time(table: Table, name: str) -> bool:
    """Whether numbers are digits of days, or rise since 1970."""
    column = table.frame[name]
    if column.astype(str).iloc[:_SAMPLE].map(_DIGITS.fullmatch).notna().all():
        return True
    numbers = pd.to_numeric(column, errors="coerce")
    rising = numbers.dropna().is_monotonic_increasing or _TIMELY.search(name)
    return bool(rising) and float(numbers.median()) >= _MAGNITUDES["s"]


def _sample(table: Table, name: str) -> list[str]:
    return table.frame[name][~table.is_missing(name)].astype(str).iloc[:_SAMPLE].tolist()
