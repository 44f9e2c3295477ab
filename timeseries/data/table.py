"""Any table of CSV or Parquet, as data to train on."""

from typing import Any

from timeseries.data.base import Forecasting
from timeseries.data.reading import Reading, read_table


class Table(Forecasting):
    """Any table of CSV or Parquet: see :func:`timeseries.data.read_table`.

    70 %, 10 % and 20 % of the rows train, validate and test, in the order of time.

    Args:
        path: of the file.
        time: the column of stamps, or the columns; found unless given.
        targets: the columns to forecast; all other columns of numbers unless given.
        known: columns that are known in advance.
        group: the column that tells series apart.
        tz: the zone that stamps are read on or shown in.
        day_first: whether the day is first where that cannot be told.
        interpolate: fill missing values between others along a line.
        lookback: rows that a forecast sees.
        horizon: rows that it makes.
    """

    def __init__(
        self,
        path: str,
        time: str | list[str] | None = None,
        targets: str | list[str] | None = None,
        known: str | list[str] | None = None,
        group: str | None = None,
        tz: str | None = None,
        day_first: bool | None = None,
        interpolate: bool = False,
        lookback: int = 96,
        horizon: int = 24,
        **kwargs: Any,
    ) -> None:
        super().__init__(lookback, horizon, **kwargs)
        self.path = path
        self.options = {"time": time, "targets": targets, "known": known, "group": group}
        self.options |= {"tz": tz, "day_first": day_first, "interpolate": interpolate}

    def load(self) -> Reading:
        return read_table(self.path, **self.options)
