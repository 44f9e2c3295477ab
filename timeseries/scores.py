"""How good forecasts are: errors of every window of the test, whatever makes the forecasts."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.timestamps import Zone, zone_of
from posenc_mm.timestamps.zones import offsets_at
from timeseries.data import Batch, Forecasting

STRETCHES = 10


class Scores(NamedTuple):
    """Errors in units of the scaled columns, each element of each window counted once.

    Attributes:
        windows: how many were forecast.
        mse: mean squared error.
        mae: mean absolute error.
        changes: windows in which the clocks of the zone are set.
        mae_change: mean absolute error of these, None if there are none.
        mae_rest: of the others, None if there are none.
        stretches: mean squared error in ten stretches of time with as many windows each.
    """

    windows: int
    mse: float
    mae: float
    changes: int
    mae_change: float | None
    mae_rest: float | None
    stretches: list[float]


def evaluate(
    data: Forecasting,
    forecast: Callable[[Batch], Tensor],
    device: torch.device | str = "cpu",
) -> Scores:
    """Measure forecasts on the windows of the test.

    Args:
        data: windows and zone.
        forecast: from a batch to ``(B, H, V)``.
        device: where to make them.

    Returns:
        The errors.
    """
    zone = clocks_of(data.zone)
    squared, absolute, changed, origins = [], [], [], []
    with torch.inference_mode():
        for batch in data.test_dataloader():
            there = Batch(*(part.to(device) for part in batch))
            error = forecast(there).cpu().double() - batch.future.double()
            squared.append(error.square().mean((1, 2)))
            absolute.append(error.abs().mean((1, 2)))
            changed.append(across_change(batch.moments, zone))
            origins.append(batch.moments[:, data.lookback - 1])
    mse, mae, change = torch.cat(squared), torch.cat(absolute), torch.cat(changed)
    order = torch.cat(origins).argsort(stable=True)
    return Scores(
        len(mse), float(mse.mean()), float(mae.mean()),
        int(change.sum()), _mean(mae[change]), _mean(mae[~change]),
        [float(part.mean()) for part in mse[order].tensor_split(STRETCHES) if len(part)],
    )  # fmt: skip


@lru_cache(maxsize=8)
def clocks_of(name: str | None) -> Zone:
    """Tabulate a zone once, UTC if there is none: reading its rules takes a while."""
    return zone_of(name or "UTC")


def across_change(moments: Tensor, zone: Zone) -> Tensor:
    """Tell windows in which clocks are set, from ``(B, N)`` moments to ``(B,)``."""
    offsets = offsets_at(moments[:, [0, -1]].long(), zone)
    if isinstance(offsets, int):
        return torch.zeros(len(moments), dtype=torch.bool, device=moments.device)
    return offsets[:, 0] != offsets[:, 1]


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if len(values) else None
