"""Forecasts that learn nothing: what any model has to beat."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.timestamps import UTC, Zone
from posenc_mm.timestamps.zones import offsets_at
from timeseries.data import Batch, Forecasting
from timeseries.scores import clocks_of

_DAY = 86_400.0
_YEAR = 365.2425 * _DAY


class Season(NamedTuple):
    """What is taken to come again.

    Attributes:
        name: ``"hour"``, ``"day"``, ``"week"`` or ``"year"``.
        seconds: how long it lasts.
    """

    name: str
    seconds: float


def season_of(step: float) -> Season | None:
    """Choose the season of a frequency.

    An hour for rows every few seconds, a day for rows from every ten seconds to below every 12
    hours, a week for half days and days (business days too), a year for weeks, months and quarters.

    Args:
        step: seconds from one row to the next.

    Returns:
        The season, or None for rows that are seasons or years apart.
    """
    if step < 10:
        return Season("hour", 3600.0)
    if step < _DAY / 2:
        return Season("day", _DAY)
    if step < 4 * _DAY:
        return Season("week", 7 * _DAY)
    return Season("year", _YEAR) if step < 0.6 * _YEAR else None


def naive(batch: Batch) -> Tensor:
    """Repeat the last value seen, ``(B, H, V)``."""
    return batch.past[:, -1:].expand_as(batch.future)


def mean(batch: Batch) -> Tensor:
    """Repeat the mean of what was seen, ``(B, H, V)``."""
    return batch.past.mean(1, keepdim=True).expand_as(batch.future)


def seasonal_naive(batch: Batch, season: Season, zone: Zone = UTC) -> Tensor:
    """Repeat the last season seen: each future row takes the past one nearest to a season ago.

    A season ago is found on the clocks of the zone (8:00 is followed by 8:00, whatever the day's
    length) and in time, not in rows, so that gaps and jitter do no harm. On regular stamps these
    are the rows of the last season, again and again.

    Args:
        batch: windows.
        season: that comes again.
        zone: whose clocks.

    Returns:
        ``(B, H, V)``
    """
    lookback = batch.past.shape[1]
    past, future = batch.moments.split([lookback, batch.future.shape[1]], dim=1)
    half = past.diff(dim=1).median(1, keepdim=True).values / 2 if lookback > 1 else 0
    ahead = _civil(future, zone) - _civil(past[:, -1:], zone)
    back = season.seconds * ((ahead - half) / season.seconds).ceil().clamp(min=1)
    wanted = future - back
    wanted = wanted + (_civil(future, zone) - future) - (_civil(wanted, zone) - wanted)
    after = torch.searchsorted(past.contiguous(), wanted.contiguous()).clamp(max=lookback - 1)
    before = (after - 1).clamp(min=0)
    nearer = (wanted - past.gather(1, before)) < (past.gather(1, after) - wanted)
    rows = torch.where(nearer, before, after)
    return batch.past.gather(1, rows.unsqueeze(-1).expand_as(batch.future))


def baselines(data: Forecasting) -> dict[str, Callable[[Batch], Tensor]]:
    """List the baselines that the lookback of the data is long enough for.

    Args:
        data: to forecast.

    Returns:
        Forecasts of windows by name; the name of the seasonal one says which season it is.
    """
    found = {"naive": naive, "mean of the lookback": mean}
    season, zone = season_of(data.step), clocks_of(data.zone)
    if season is not None and season.seconds <= (data.lookback + 0.5) * data.step:
        name = f"seasonal naive ({season.name})"
        found[name] = lambda batch: seasonal_naive(batch, season, zone)
    return found


def _civil(moments: Tensor, zone: Zone) -> Tensor:
    """What the clocks of a zone show, in seconds."""
    return moments + offsets_at(moments.long(), zone)
