"""Series that are made up: a day, a week, a trend and some noise, hourly, in any zone."""

import math

import torch

from posenc_mm.timestamps import TimeAxis
from timeseries.data import Forecasting, Reading, Series


class Made(Forecasting):
    """Two series of two columns, and one covariate known in advance.

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes.
        tz: zone of the stamps, none unless given.
        rows: of the first series; the second has 45 fewer.
        start: of both.
    """

    def __init__(
        self,
        lookback: int = 24,
        horizon: int = 6,
        tz: str | None = None,
        rows: int = 480,
        start: str = "2024-03-20",
        **kwargs: int,
    ) -> None:
        super().__init__(lookback, horizon, **kwargs)
        self.tz, self.rows, self.start = tz, rows, start

    def load(self) -> Reading:
        series = [self._one("north", self.rows, 3.0), self._one("south", self.rows - 45, 50.0)]
        return Reading(series, [])

    def _one(self, name: str, rows: int, scale: float) -> Series:
        axis = TimeAxis([self.start], tz=self.tz, unit="s", freq="h")
        axis = axis.extend(rows)
        generator = torch.Generator().manual_seed(rows)
        hours = torch.arange(rows, dtype=torch.float64)
        noise = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
        known = noise[:, :1].cumsum(0).sin()
        day = (hours * 2 * math.pi / 24).sin()
        slow = (hours * 2 * math.pi / 168).cos() + hours / 300
        columns = torch.stack((day + slow, 2 * day - slow), dim=1) + known + 0.1 * noise[:, 1:]
        return Series(name, axis, scale * columns + scale, known, ("level", "flow"), ("forecast",))
