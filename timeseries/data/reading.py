"""Tables of CSV or Parquet, read into series: whatever stamps and numbers look like."""

from collections.abc import Sequence
from pathlib import Path

from timeseries.data.assembling import Assembler
from timeseries.data.series import Reading, Series
from timeseries.data.sniffing import Table, open_table
from timeseries.data.stamps import find_time, read_stamps
from timeseries.data.written import format_of

__all__ = ["Reading", "Series", "read_table"]


def read_table(
    path: str | Path,
    *,
    time: str | Sequence[str] | None = None,
    targets: str | Sequence[str] | None = None,
    known: str | Sequence[str] | None = None,
    group: str | None = None,
    tz: str | None = None,
    day_first: bool | None = None,
    interpolate: bool = False,
) -> Reading:
    """Read a table of series.

    Args:
        path: of a CSV file with names in its first line, delimited by comma, semicolon, tab or bar,
            with decimal points or commas, compressed by gzip or not; or of a Parquet file.
        time: the column of stamps: dates and times as text, numbers since 1970, or digits such as
            20241231; or columns named year, month, day, hour; or one of days and one of times.
            Found unless given.
        targets: the columns to forecast: all other columns of numbers unless given.
        known: columns of numbers, or of true and false, that are known in advance.
        group: the column that tells series apart, where the table has several below each other.
        tz: the zone that stamps are read on, or shown in if they name an offset from UTC or count
            since 1970. Without it, stamps that name no offset have a clock that nobody sets.
        day_first: whether the day is first where it and the month are two numbers and none of them
            tells: 3/4/2024 is 3 April.
        interpolate: fill values that are missing between others along a line, in time.

    Returns:
        The series, in the order of time and each stamp once, and what was found out.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: a column that is not there or cannot be read, cells that are missing, stamps
            that cannot be read or may be read in two ways, no two rows; the line and the column
            are named.
    """
    table = open_table(path)
    times = _listed(time) or find_time(table)
    asked, known_columns = _listed(targets), _listed(known)
    used = {*times, *known_columns, *([] if group is None else [group])}
    for name in asked:
        if name in used or asked.count(name) > 1:
            raise ValueError(f"targets must be columns of their own, got {name!r} twice")
    stamps = read_stamps(table, times, day_first)
    if any(format_of([name]) for name in times):
        raise ValueError(f"line 1 of {table.path} must name the columns, got {table.names}")
    notes = table.notes
    notes.append(f"stamps are in {' and '.join(map(repr, times))}, written as {stamps.how}")
    if tz is None and set(stamps.offsets) - {0}:
        named = ", ".join(map(_offset, stamps.offsets))
        notes.append(
            f"stamps name other clocks than those of UTC ({named}), which they are shown on, and "
            "encodings go by: say tz= to keep theirs"
        )
    columns = asked or _columns_of_numbers(table, used, notes)
    assembler = Assembler(table, stamps, tz, interpolate, (tuple(columns), tuple(known_columns)))
    series = assembler.series(group)
    return Reading(series, [*notes, *assembler.notes()])


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def _offset(seconds: int) -> str:
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02d}:{minutes:02d}"


def _columns_of_numbers(table: Table, used: set[str], notes: list[str]) -> list[str]:
    """Choose the columns that can be forecast, and say which cannot."""
    free = [name for name in table.names if name not in used]
    chosen = [name for name in free if not table.is_text(name)]
    left = [name for name in free if name not in chosen]
    if not chosen:
        for name in free:
            table.numbers(name, "targets")  # says what else is in which line
        raise ValueError(f"{table.path} must have a column of numbers to forecast, got none")
    if left:
        notes.append(f"columns left out, as they hold no numbers: {', '.join(left)}")
    return chosen
