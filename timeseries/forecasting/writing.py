"""``forecast.csv`` and ``report.json``."""

import csv
import json
import math
from pathlib import Path
from typing import Any

from torch import Tensor

from posenc_mm import TimeAxis
from timeseries.data import Series

COLUMNS = ("stamp", "series", "column", "lower", "forecast", "upper")


def write_forecast(
    path: Path, series: list[Series], axes: list[TimeAxis], bounds: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Write a row per stamp and column, in the units of the data.

    Args:
        path: of the file.
        series: past ones, for names.
        axes: the stamps, on the clocks of the zone with their offset from UTC.
        bounds: ``(S, H, V)`` lower bounds, forecasts and upper bounds.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for row, (one, axis) in enumerate(zip(series, axes, strict=True)):
            for at, stamp in enumerate(axis.isoformat()):
                for number, column in enumerate(one.columns):
                    values = (f"{float(bound[row, at, number]):.8g}" for bound in bounds)
                    lines.writerow((stamp, one.name, column, *values))


def write_report(path: Path, told: dict[str, Any]) -> None:
    """Write everything that was told, for machines."""
    path.write_text(json.dumps(_plain(told), indent=2) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
