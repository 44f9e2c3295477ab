"""Rows to series: in order, each stamp once, nothing missing; and what had to be done for that."""

import re
from collections import defaultdict

import numpy as np
import pandas as pd
import torch

from posenc_mm.timestamps import TimeAxis
from timeseries.data.clocks import skipping
from timeseries.data.series import Series
from timeseries.data.sniffing import Table
from timeseries.data.stamps import Stamps

# A table that repeats so many of its stamps has several series below each other.
_SEVERAL = 0.4
_NOTES = {
    "newest first": "turned round, as they came newest first: {rows}",
    "out of order": "sorted, as they came behind later stamps: {rows}",
    "repeated": "left out, as they have the stamp of an earlier row: {rows}",
    "ambiguous": "taken for the earlier of an hour that clocks showed twice: {rows}",
    "filled": "filled along a line, as they had no value: {rows}",
}


class Assembler:
    """Makes series of the rows of a table, and remembers what was done to them.

    Args:
        table: of all rows.
        stamps: of all rows.
        tz: the zone to read or to show them in.
        interpolate: whether to fill what is missing.
        columns: names of what is to be forecast, and of what is known in advance.
    """

    def __init__(
        self,
        table: Table,
        stamps: Stamps,
        tz: str | None,
        interpolate: bool,
        columns: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        self.table, self.stamps, self.tz, self.interpolate = table, stamps, tz, interpolate
        self.columns = columns
        self.values, self.known = (
            np.stack([table.numbers(name, option) for name in names], axis=1)
            if names
            else np.zeros((len(table.lines), 0))
            for option, names in zip(("targets", "known"), columns, strict=True)
        )
        self.done: dict[str, list[int]] = defaultdict(list)
        self.short: list[str] = []
        self.clock: str | None = None

    def series(self, group: str | None) -> list[Series]:
        """Make one series, or one for each value of a column.

        Raises:
            ValueError: rows that miss a value, stamps that the clocks of the zone never showed, no
                two rows, or several series that no column tells apart; the line is named.
        """
        rows = np.arange(len(self.table.lines))
        if group is None:
            self._refuse_several()
            groups = {self.table.path.name.partition(".")[0]: rows}
        else:
            labels = self.table.column(group, "group").astype(str)
            groups = {name: rows[labels == name] for name in labels.unique()}
        found = {name: self._one(name, rows) for name, rows in groups.items()}
        self.short = [name for name, one in found.items() if len(one.axis) < 2]
        if len(self.short) == len(found):
            raise ValueError(f"{self.table.path} must have two rows or more, got {len(rows)}")
        return [one for name, one in found.items() if name not in self.short]

    def _one(self, name: str, rows: np.ndarray) -> Series:
        ticks = self.stamps.ticks
        # Mostly: over a change of the clocks, readings step back the other way.
        if len(rows) > 1 and np.median(np.diff(ticks[rows])) < 0:
            rows = rows[::-1]
            self.done["newest first"] += rows.tolist()
        axis = self._axis(rows)
        moments = axis.ticks.numpy()
        early = np.flatnonzero(np.diff(moments) < 0) + 1
        self.done["out of order"] += rows[early].tolist()
        order = np.argsort(moments, kind="stable")
        again = np.flatnonzero(np.diff(moments[order]) == 0) + 1
        if len(again) and axis.zone is None and self.clock is None:
            clock = skipping(axis.seconds().numpy())
            self.clock = str(clock) if clock is not None and clock.twice else None
        self.done["repeated"] += rows[order[again]].tolist()
        order = np.delete(order, again)
        rows, axis = rows[order], axis[torch.from_numpy(order)]
        values, known = (
            torch.from_numpy(self._complete(array[rows], axis, rows, names))
            for array, names in zip((self.values, self.known), self.columns, strict=True)
        )
        return Series(name, axis, values, known, *self.columns)

    def _axis(self, rows: np.ndarray) -> TimeAxis:
        ticks, unit, zone = self.stamps[:3]
        try:
            if zone is not None:
                return TimeAxis(ticks[rows], self.tz if self.tz is not None else zone, unit)
            readings = ticks[rows].astype(f"M8[{unit}]")
            try:
                return TimeAxis(readings, self.tz, ambiguous="infer")
            except ValueError as error:
                if "twice" not in str(error):
                    raise
                earlier, later = (
                    TimeAxis(readings, self.tz, ambiguous=a) for a in ("earlier", "later")
                )
                self.done["ambiguous"] += rows[(earlier.ticks != later.ticks).numpy()].tolist()
                return earlier
        except ValueError as error:
            # The axis counts its rows from 0.
            text = re.sub(
                r"in row (\d+)", lambda m: f"in {self.table.where([rows[int(m[1])]])}", str(error)
            )
            raise ValueError(f"{self.table.path}: {text}") from error

    def _complete(
        self, array: np.ndarray, axis: TimeAxis, rows: np.ndarray, names: tuple[str, ...]
    ) -> np.ndarray:
        """Fill what is missing, if that was asked for; else refuse it."""
        seconds = axis.seconds().double().numpy()
        for name, column in zip(names, array.T, strict=True):
            missing = np.isnan(column)
            if self.interpolate and not missing.all():
                inside = missing & (np.arange(len(rows)) > np.argmin(missing))
                inside &= np.arange(len(rows)) < len(rows) - 1 - np.argmin(missing[::-1])
                column[inside] = np.interp(seconds[inside], seconds[~missing], column[~missing])
                self.done["filled"] += rows[inside].tolist()
                missing &= ~inside
            if missing.any():
                holes = np.sort(rows[missing])
                advice = "interpolation has no value before or behind them: leave them out"
                raise ValueError(
                    f"column {name!r} must have a value in each row, got none in {len(holes):,} of "
                    f"{len(rows):,}, {self.table.where(holes)} of {self.table.path}: "
                    f"{advice if self.interpolate else 'fill them, or say interpolate=true'}"
                )
        return array

    def _refuse_several(self) -> None:
        """Refuse stamps that come again and again with other values: most would be left out."""
        ticks = pd.Series(self.stamps.ticks)
        again = int(ticks.duplicated().sum())
        if again < _SEVERAL * len(ticks):
            return
        for name in self.table.names:
            labels = self.table.frame[name]
            if name in sum(self.columns, ()) or labels.nunique() * 2 > len(labels):
                continue
            left = pd.DataFrame({"ticks": ticks, "label": labels.astype(str)}).duplicated().sum()
            if left * 10 < again:
                raise ValueError(
                    f"stamps of {self.table.path} must tell rows apart, but {again:,} of "
                    f"{len(ticks):,} come again: if {name!r} tells series apart, say group={name!r}"
                )
        rows = self.table.frame.astype(str).assign(ticks=ticks)
        if int((ticks.duplicated() & ~rows.duplicated()).sum()) >= _SEVERAL * len(ticks):
            raise ValueError(
                f"stamps of {self.table.path} must tell rows apart, but {again:,} of "
                f"{len(ticks):,} come again, with other values: if another column has the time of "
                "day, name it by time= with that of the days"
            )

    def notes(self) -> list[str]:
        """Say what was done, for people."""
        notes = []
        for what, text in _NOTES.items():
            rows = sorted(self.done[what])
            if rows:
                count = f"{len(rows):,} row{'s' if len(rows) > 1 else ''}"
                notes.append(text.format(rows=f"{count} ({self.table.where(rows)})"))
        if self.clock is not None:
            notes.append(
                f"stamps skip and repeat hours as clocks do in {self.clock}: say tz= to keep them"
            )
        if self.short:
            notes.append(f"series of less than two rows were left out: {', '.join(self.short)}")
        return notes
