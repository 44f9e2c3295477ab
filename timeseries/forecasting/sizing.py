"""How many rows are seen and forecast, and which of them train, validate and test."""

import argparse
from collections.abc import Sequence

from timeseries.data import Borders
from timeseries.forecasting.asking import UnusableError
from timeseries.forecasting.reading import Data
from timeseries.forecasting.telling import Telling, counted, lasting

_DAY = 86_400.0
# By unit of the calendar: rows seen and forecast, and why.
_CALENDAR = {
    "day": (56, 14, "two weeks after eight"),
    "business_day": (40, 10, "two weeks of business days after eight"),
    "week": (104, 13, "a quarter after two years"),
    "semi_month": (48, 12, "half a year after two years"),
    "month": (36, 12, "a year after three"),
    "quarter": (16, 4, "a year after four"),
    "year": (10, 3, "three years after ten"),
}
# Below a day: from this step in seconds on, seen and forecast for so many seconds.
_CLOCK = (
    (600.0, 7 * _DAY, _DAY, "a day after a week"),
    (300.0, _DAY, 3600.0, "an hour after a day"),
    (60.0, 8 * 3600.0, 3600.0, "an hour after eight"),
    (1.0, 600.0, 60.0, "a minute after ten"),
)
# Windows that validation and test have at least, beyond the first.
_SPARE = 2
_TRAINED = 8


def usual(step: float, unit: str | None, multiple: int = 1) -> tuple[int, int, str]:
    """Say what rows of a frequency are usually seen and forecast.

    Args:
        step: seconds from one row to the next.
        unit: of the calendar, None for rows that are hours, minutes or seconds apart.
        multiple: of that unit.

    Returns:
        Rows seen, rows forecast, and why.
    """
    if unit in _CALENDAR:
        lookback, horizon, why = _CALENDAR[unit]
        return max(lookback // multiple, 2), max(horizon // multiple, 1), why
    for least, seen, ahead, why in _CLOCK:
        if step >= least:
            lookback, horizon = round(seen / step), round(ahead / step)
            return max(lookback, 2), max(horizon, 1), why
    return 300, 50, "a number of rows, as they are less than a second apart"


def size(
    data: Data, rows: Sequence[int], options: argparse.Namespace, telling: Telling
) -> tuple[int, int]:
    """Decide how many rows are seen and how many forecast.

    Args:
        data: that was read.
        rows: of each series, without its long gaps.
        options: of the command line.
        telling: who tells.

    Returns:
        The two lengths.

    Raises:
        UnusableError: there are too few rows.
    """
    step, per_day = _typical(data)
    calendar = data.regular and data.frequency.of_calendar
    if data.regular:
        unit = data.frequency.unit if calendar else None
        lookback, horizon, why = usual(step, unit, data.frequency.multiple)
    elif step < _DAY:
        lookback, horizon, why = max(3 * per_day, 2), per_day, "about a day after three"
    else:
        lookback, horizon, why = 30, 7, "a number of rows, as stamps are irregular"
    longest, reasons = max(rows), {"lookback": why, "horizon": why}
    if options.horizon is not None:
        horizon, reasons["horizon"] = options.horizon, "as asked"
    elif (room := max(1, longest // 5)) < horizon:
        horizon, reasons["horizon"] = room, f"no more, as there are {longest:,} rows"
    lookback = max(lookback, horizon)
    if options.lookback is not None:
        lookback, reasons["lookback"] = options.lookback, "as asked"
    else:
        train = borders(longest, horizon).train
        room = max(1, min(train - horizon - _TRAINED, train // 2))
        if room < lookback:
            lookback, reasons["lookback"] = room, f"no more, as there are {train:,} rows to train"
    _check(longest, lookback, horizon)
    for name, number in (("horizon", horizon), ("lookback", lookback)):
        about = data.regular and not calendar
        telling.decide(name, _rows(number, step, about), reasons[name], f"--{name} N")
    return lookback, horizon


def borders(rows: int, horizon: int) -> Borders:
    """Say where splits end: 70 %, 10 % and 20 % of the rows, or more where a horizon takes it."""
    test = max(rows - (rows - int(rows * 0.2)), horizon + _SPARE)
    val = max(rows - test - int(rows * 0.7), horizon + _SPARE)
    return Borders(max(rows - test - val, 0), max(rows - test, 0), rows)


def _check(rows: int, lookback: int, horizon: int) -> None:
    ends = borders(rows, horizon)
    if ends.train < lookback + horizon:
        most = (rows - lookback - 2 * _SPARE) // 3
        advice = f"--horizon {most} is the most" if most > 0 else "give more rows"
        raise UnusableError(
            f"{rows:,} rows are too few to forecast {horizon:,} after {lookback:,}: "
            f"{rows - ends.train:,} are held out to validate and to test, and of the other "
            f"{ends.train:,} one window takes {lookback + horizon:,}; {advice}"
        )


def _typical(data: Data) -> tuple[float, int]:
    """Seconds from one row to the next, and rows in a day that has any, both by the median."""
    seconds = data.series[0].axis.seconds().double()
    step = float(seconds.diff().median())
    days = (seconds // _DAY).unique(return_counts=True)[1]
    if data.regular and not data.frequency.of_calendar:
        step = float(data.frequency.length)
    return step, max(1, int(days.median()))


def _rows(number: int, step: float, about: bool) -> str:
    return counted(number, "row") + (f", {lasting(number * step)}" if about else "")
