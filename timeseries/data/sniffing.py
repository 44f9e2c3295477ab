"""Tables as they come: delimiter, decimal comma, encoding, compression; cells by their line."""

import csv
import gzip
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# A comma last: in the tables of half the world it is within the numbers.
DELIMITERS = (";", "\t", "|", ",")
_NONE = ("NA", "N/A", "#N/A", "NaN", "<NA>", "NaT", "Null", "None")
MISSING = {"", *_NONE, *map(str.lower, _NONE), *map(str.upper, _NONE)}
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
PARQUET = (".parquet", ".pq")
_SAMPLE = 1000
_COMMAS_GROUP = r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"
_DOTS_GROUP = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?"
_DECIMAL_COMMA = rf"{_DOTS_GROUP}|[+-]?\d*,\d+"


@dataclass
class Table:
    """A table, and where in the file its rows are.

    Attributes:
        path: of the file.
        frame: its columns: text without blanks around it, or what a Parquet file has.
        lines: ``(T,)`` for each row its number in the file, as people count.
        word: what these number, lines or rows.
        notes: what was found out about it.
        decimal_comma: whether numbers have one.
    """

    path: Path
    frame: pd.DataFrame
    lines: np.ndarray
    word: str
    notes: list[str]
    decimal_comma: bool = False

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def column(self, name: str, option: str) -> pd.Series:
        """Take the column that an option names."""
        if name not in self.frame.columns:
            raise ValueError(
                f"{option} must name a column of {self.path}, got {name!r}: it has "
                f"{', '.join(self.names)}"
            )
        return self.frame[name]

    def where(self, rows: Any, most: int = 3) -> str:
        """Say where rows are in the file; of many, where the first are."""
        lines = [f"{line:,}" for line in self.lines[rows]]
        more = f" and {len(lines) - most:,} more" if len(lines) > most else ""
        return f"{self.word}{'s' if len(lines) > 1 else ''} {', '.join(lines[:most])}{more}"

    def is_missing(self, name: str) -> np.ndarray:
        """Tell where a column has nothing."""
        column = self.frame[name]
        return (column.isin(MISSING) if column.dtype == object else column.isna()).to_numpy()

    def is_text(self, name: str) -> bool:
        """Whether less than half of what a column has are numbers: it is no series then."""
        if self.frame[name].dtype != object:
            return not pd.api.types.is_numeric_dtype(self.frame[name].dtype)
        sample = self.frame[name][~self.is_missing(name)].iloc[:_SAMPLE]
        return int(self._numbers(sample).notna().sum()) * 2 <= len(sample)

    def numbers(self, name: str, option: str) -> np.ndarray:
        """Read a column of numbers, or of true and false.

        Args:
            name: of the column.
            option: that named it.

        Returns:
            ``(T,)`` float64, NaN where there is nothing.

        Raises:
            ValueError: text among the numbers, or an infinite one; the line is named.
        """
        column = self.column(name, option)
        if column.dtype == object:
            read = self._numbers(column)
            if read.isna().any():
                read = read.fillna(column.str.lower().map(TRUTHS).astype("float64"))
        elif pd.api.types.is_numeric_dtype(column.dtype):  # truths too
            read = column.astype("float64")
        else:
            raise ValueError(f"column {name!r} must hold numbers, got {column.dtype}")
        numbers = read.to_numpy("float64", na_value=np.nan)
        bad = np.flatnonzero(~np.isfinite(numbers) & ~self.is_missing(name))
        if len(bad):
            raise ValueError(
                f"column {name!r} must hold finite numbers, got {column.iloc[bad[0]]!r} in "
                f"{self.where(bad)} of {self.path}"
            )
        return numbers

    def _numbers(self, column: pd.Series) -> pd.Series:
        # In a table with decimal commas, dots may still be decimal in a column without commas.
        dotted = column[column.str.contains(".", regex=False)] if self.decimal_comma else column
        if self.decimal_comma and dotted.str.fullmatch(_DOTS_GROUP).all():
            column = column.str.replace(".", "").str.replace(",", ".")
        read = pd.to_numeric(column, errors="coerce")
        if read.isna().any() and not self.decimal_comma:
            grouped = read.isna() & column.str.fullmatch(_COMMAS_GROUP)
            column = column.where(~grouped, column.str.replace(",", ""))
            read = pd.to_numeric(column, errors="coerce")
        return read.astype("float64")


def open_table(path: str | Path) -> Table:
    """Open a table.

    Args:
        path: of a CSV file with names in its first line, delimited by comma, semicolon, tab or bar,
            compressed by gzip or not; or of a Parquet file.

    Returns:
        The table, without blank lines.

    Raises:
        FileNotFoundError: there is nothing.
        ValueError: it is no such table; the line is named.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: a table of CSV or Parquet is wanted")
    table = _open_parquet(path) if path.suffix.lower() in PARQUET else _open_csv(path)
    if not len(table.frame):
        raise ValueError(f"{path} must have names in its first line and rows below, got no rows")
    return table


def _open_csv(path: Path) -> Table:
    text, notes = _text(path)
    delimiter = _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows, lines = [], []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append(cells)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(
            f"{path} must be text in columns: {error}, line {reader.line_num}"
        ) from error
    width = len(rows[0]) if rows else 0
    for cells, line in zip(rows, lines, strict=True):
        # A delimiter behind the last cell makes one more of nothing.
        while len(cells) > width and not cells[-1]:
            cells.pop()
        if len(cells) != width:
            raise ValueError(
                f"lines of {path} must have as many cells as the first one, {width} between "
                f"{delimiter!r}, got {len(cells)} in line {line:,}"
            )
    frame = pd.DataFrame(rows[1:], columns=_names(rows[0] if rows else [], path), dtype=object)
    table = Table(path, frame, np.array(lines[1:], dtype=np.int64), "line", notes)
    if delimiter != ",":
        notes.append(f"cells are delimited by {delimiter!r}")
    comma = _with_decimal_comma(frame, delimiter)
    if comma:
        notes.append(f"numbers have a decimal comma: {comma} is {comma.replace(',', '.')}")
    table.decimal_comma = comma is not None
    return table


def _open_parquet(path: Path) -> Table:
    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ValueError(f"{path} takes pyarrow to be read: pip install pyarrow") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a Parquet file: {error}") from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    frame = frame.reset_index(drop=True)
    frame.columns = _names(frame.columns, path)
    for name in frame.columns:
        column = frame[name]
        types = pd.api.types
        if types.is_object_dtype(column) or not (
            types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column)
        ):
            text = column.astype(object).where(column.notna(), "")
            frame[name] = text.map(lambda cell: str(cell).strip()).astype(object)
    return Table(path, frame, np.arange(1, len(frame) + 1), "row", [])


def _names(names: Iterable[Any], path: Path) -> pd.Index:
    found = [str(name).strip() or f"column {number}" for number, name in enumerate(names, 1)]
    again = sorted({name for name in found if found.count(name) > 1})
    if again:
        raise ValueError(f"columns of {path} must differ in their names, got {again} twice")
    return pd.Index(found, dtype=object)


def _text(path: Path) -> tuple[str, list[str]]:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise ValueError(f"{path} must be a whole gzip file: {error}") from error
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return raw.decode(encoding), []
    except UnicodeDecodeError:
        return raw.decode("latin-1"), ["the text is not UTF-8, and was read as Latin-1"]


def _delimiter(text: str) -> str:
    """Find what cuts most lines into as many cells as the first one, and into most."""
    lines = [line for line in text[:100_000].splitlines()[:100] if line.strip()]

    def score(delimiter: str) -> tuple[float, int]:
        widths = [len(cells) for cells in csv.reader(lines, delimiter=delimiter)]
        same = sum(width == widths[0] for width in widths) / len(widths)
        return (same, widths[0]) if widths[0] > 1 else (0.0, 0)

    return max(DELIMITERS, key=score) if lines else ","


def _with_decimal_comma(frame: pd.DataFrame, delimiter: str) -> str | None:
    """Find a number with a decimal comma, if that is what commas are."""
    cells: Iterable[str] = frame.iloc[:_SAMPLE].to_numpy().ravel()
    with_comma = [cell for cell in cells if "," in cell]
    decimal = [cell for cell in with_comma if re.fullmatch(_DECIMAL_COMMA, cell)]
    grouped = [cell for cell in with_comma if re.fullmatch(_COMMAS_GROUP, cell)]
    # 1,234 is either: where commas delimit, they group digits, as they do in 1,234.5.
    certain = [cell for cell in decimal if cell not in set(grouped)]
    if set(grouped) - set(decimal) or (delimiter == "," and not certain):
        return None
    return next(iter(certain or decimal), None)
