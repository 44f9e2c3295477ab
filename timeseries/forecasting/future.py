"""The rows to come: their stamps, and what is known of them."""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posenc_mm import TimeAxis
from posenc_mm.timestamps.zones import offsets_at, to_utc
from timeseries.data.sniffing import Table, open_table
from timeseries.data.stamps import Stamps, find_time, read_stamps
from timeseries.forecasting.asking import UndecidedError, UnusableError, refusal
from timeseries.forecasting.preparing import Ready
from timeseries.forecasting.reading import Data, clock, like, stated
from timeseries.forecasting.telling import Telling, counted, listed

_DAY = 86_400
TEMPLATE = "future-template.csv"


def to_come(
    data: Data, ready: Ready, options: argparse.Namespace, telling: Telling
) -> tuple[list[TimeAxis], list[Tensor]]:
    """Find the stamps of the rows to come, and what is known of them.

    Args:
        data: that was read.
        ready: its series.
        options: of the command line.
        telling: who tells.

    Returns:
        For each series the stamps, and ``(H, F)`` of what is known, scaled.

    Raises:
        UndecidedError: something is known of past rows and not of these.
        UnusableError: the table of these has not the stamps it should.
    """
    if options.future is not None and not ready.known_width:
        raise UndecidedError("--future takes the names of its columns: --known COLUMN...")
    if options.future is None:
        axes = [_continued(one.axis, data, options, ready.horizon) for one in ready.series]
        _tell(axes, data, options, telling)
        if ready.known_width:
            path = _template(axes, ready, options)
            raise UndecidedError(
                f"--known {listed(ready.known_columns)} must be known of the "
                f"{ready.horizon} rows to come too: fill in {path} and give it as --future, or "
                "leave --known out"
            )
        return axes, [one.known.new_zeros(ready.horizon, 0) for one in ready.series]
    axes, known = _read(data, ready, options, telling)
    _tell(axes, data, options, telling)
    scaled = [
        (one - ready.known_scaler.mean[row]) / ready.known_scaler.std[row]
        for row, one in enumerate(known)
    ]
    return axes, scaled


def _tell(axes: list[TimeAxis], data: Data, options: argparse.Namespace, telling: Telling) -> None:
    first, last = axes[0][[0, -1]].isoformat()
    several = ", of the first series" if len(axes) > 1 else ""
    if options.freq is not None:
        why = f"steps of {options.freq}, as asked"
    elif data.regular:
        why = f"steps of {data.frequency} behind the last row, on the clocks of the stamps"
        if data.frequency.of_calendar:
            why += ", which keep the time of day"
    elif options.future is not None:
        why = f"those of {options.future}"
    else:
        why = "as a week ago, as stamps are irregular"
    telling.decide("rows to come", f"{first} to {last}{several}", why, "--freq F")


def _continued(axis: TimeAxis, data: Data, options: argparse.Namespace, horizon: int) -> TimeAxis:
    if data.regular or options.freq is not None:
        frequency = options.freq if options.freq is not None else data.frequency
        try:
            return stated(axis, frequency).extend(horizon)
        except ValueError as error:
            raise UnusableError(f"stamps cannot go on: {error}") from error
    return _repeated(axis, horizon)


def _repeated(axis: TimeAxis, horizon: int) -> TimeAxis:
    """Repeat the last week of irregular stamps, or the last day of less, on their clocks."""
    zone = clock(axis.zone)
    seconds = axis.seconds().double()
    civil = seconds + offsets_at(seconds.long(), zone)
    span = float(civil[-1] - civil[0])
    period = next((days * _DAY for days in (7, 1) if span >= 2 * days * _DAY), None)
    if period is None:
        period = float(civil.diff().median())
    last = civil[civil > civil[-1] - period]
    turns = torch.arange(1, horizon // len(last) + 2, dtype=torch.float64)
    ahead = (last + period * turns[:, None]).flatten()[:horizon]
    whole = ahead.floor()
    moments = to_utc(whole.long(), zone)[0] + (ahead - whole)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[axis.unit]
    ticks = moments.long() * per_second + ((moments % 1) * per_second).round().long()
    return like(axis, ticks)


def _template(axes: list[TimeAxis], ready: Ready, options: argparse.Namespace) -> Path:
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / TEMPLATE
    group = [] if options.group is None else [options.group]
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["stamp", *group, *ready.known_columns])
        for one, axis in zip(ready.series, axes, strict=True):
            for stamp in axis.isoformat():
                name = [one.name] if group else []
                lines.writerow([stamp, *name, *[""] * ready.known_width])
    return path


def _read(
    data: Data, ready: Ready, options: argparse.Namespace, telling: Telling
) -> tuple[list[TimeAxis], list[Tensor]]:
    try:
        table = open_table(options.future)
        stamps = read_stamps(table, _time(table, options), data.day_first)
        labels = None if options.group is None else table.column(options.group, "group").astype(str)
        numbers = [table.numbers(name, "known") for name in ready.known_columns]
    except (ValueError, OSError) as error:
        raise refusal(error) from error
    values = torch.from_numpy(np.stack(numbers, axis=1))
    lines = torch.arange(len(values))
    axes, known = [], []
    for one in ready.series:
        own = (
            lines
            if labels is None
            else torch.from_numpy((labels == one.name).to_numpy().nonzero()[0])
        )
        axis = _axis(one.axis, stamps, own, table)
        rows = _expected(one.axis, axis, data, options, ready.horizon, telling)
        _complete(values[own[rows]], table, own[rows], ready)
        axes.append(axis[rows])
        known.append(values[own[rows]])
    return axes, known


def _time(table: Table, options: argparse.Namespace) -> list[str]:
    asked = [name for name in options.time or () if name in table.names]
    return asked if asked and len(asked) == len(options.time) else find_time(table)


def _axis(past: TimeAxis, stamps: Stamps, rows: Tensor, table: Table) -> TimeAxis:
    ticks, unit, zone = stamps[:3]
    if not len(rows):
        raise UnusableError(f"{table.path} has no row of one of the series of --group")
    if (zone is None) != (past.zone is None) and past.zone is None:
        raise UndecidedError(
            f"stamps of {table.path} name an offset from UTC and those of the data do not: say --tz"
        )
    try:
        if zone is not None:
            return TimeAxis(ticks[rows.numpy()], past.zone, unit)
        readings = ticks[rows.numpy()].astype(f"M8[{unit}]")
        try:
            return TimeAxis(readings, past.zone, ambiguous="infer")
        except ValueError:
            return TimeAxis(readings, past.zone, ambiguous="earlier")
    except ValueError as error:
        raise UnusableError(f"{table.path}: {error}") from error


def _expected(
    past: TimeAxis,
    future: TimeAxis,
    data: Data,
    options: argparse.Namespace,
    horizon: int,
    telling: Telling,
) -> Tensor:
    """Rows of the future in the order in which they come."""
    there = (future.seconds().double() * 1000).round().long()
    last = int((past.seconds()[-1:].double() * 1000).round())
    if not data.regular and options.freq is None:
        order = there.argsort(stable=True)
        order = order[there[order] > last][:horizon]
        if len(order) < horizon:
            raise UnusableError(
                f"{options.future} must have {horizon} rows behind the last one of the data, "
                f"{past[-1].isoformat()[0]}, got {len(order)}: --horizon {max(1, len(order))} "
                "forecasts these"
            )
        return order
    wanted = _continued(past, data, options, horizon)
    moments = (wanted.seconds().double() * 1000).round().long()
    row_of: dict[int, int] = {}
    for row, moment in enumerate(there.tolist()):
        row_of.setdefault(moment, row)
    if len(row_of) < len(there):
        telling.warn(
            f"left out of {options.future}, as they have the stamp of an earlier row: "
            f"{counted(len(there) - len(row_of), 'row')}"
        )
    missing = [row for row, moment in enumerate(moments.tolist()) if moment not in row_of]
    if missing:
        stamps = wanted[missing].isoformat()
        raise UnusableError(
            f"{options.future} must have the {horizon} rows from {wanted[0].isoformat()[0]} to "
            f"{wanted[-1].isoformat()[0]}, got none for {listed(stamps, 4)}; its rows are of "
            f"{' to '.join(future[[int(there.argmin()), int(there.argmax())]].isoformat())}"
        )
    more = len(row_of) - horizon
    if more > 0:
        telling.find(f"{more:,} more rows of {options.future} are not of the horizon")
    return torch.tensor([row_of[int(moment)] for moment in moments.tolist()])


def _complete(values: Tensor, table: Table, rows: Tensor, ready: Ready) -> None:
    for name, column in zip(ready.known_columns, values.T, strict=True):
        missing = rows[column.isnan()]
        if len(missing):
            raise UnusableError(
                f"column {name!r} must have a value in each row to come, got none in "
                f"{table.where(missing.numpy())} of {table.path}"
            )
