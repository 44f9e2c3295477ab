"""Errors on every window of the held-out rows, of all forecasts in one pass."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from timeseries.baselines import baselines
from timeseries.data import Batch
from timeseries.forecasting.fitting import Fit
from timeseries.forecasting.preparing import Ready, batches
from timeseries.forecasting.reading import clock
from timeseries.networks import Linear
from timeseries.scores import across_change

# Below this share of an error, a difference is none to speak of.
NOTHING = 0.01
# Stretches of time that a difference has to show in: windows that overlap are no independent ones.
STRETCHES = 10
_STUDENT = 2.26
Forecast = Callable[[Batch], Tensor]


class Errors(NamedTuple):
    """Errors of one forecast.

    Attributes:
        squared: ``(N,)`` sum over the rows and columns of each window, scaled; rows that were
            filled do not count.
        absolute: ``(N,)`` likewise.
        counts: ``(N,)`` of how many values these are sums.
        units: ``(V,)`` mean absolute error of each column in its own unit.
    """

    squared: Tensor
    absolute: Tensor
    counts: Tensor
    units: Tensor

    @property
    def mse(self) -> float:
        return float(self.squared.sum() / self.counts.sum())

    @property
    def mae(self) -> float:
        return float(self.absolute.sum() / self.counts.sum())

    def mae_of(self, windows: Tensor) -> float | None:
        """Mean absolute error of some windows."""
        count = float(self.counts[windows].sum())
        return float(self.absolute[windows].sum()) / count if count else None


class Evaluation(NamedTuple):
    """Errors of all forecasts on one split.

    Attributes:
        errors: by the name of the forecast.
        changed: ``(N,)`` windows in which clocks are set.
        origins: ``(N,)`` moment of the last row seen.
        residuals: by the name of the forecast ``(N, H, V)`` what was less what was forecast,
            scaled, NaN where a row was filled; of those that were asked for.
    """

    errors: dict[str, Errors]
    changed: Tensor
    origins: Tensor
    residuals: dict[str, Tensor]


def regressions(network: Linear, fits: list[Fit]) -> Callable[[Batch], dict[str, Tensor]]:
    """Make the forecasts of several regressions, whose encodings are evaluated once.

    Args:
        network: with all encodings.
        fits: by whose weights.

    Returns:
        From a batch to ``(B, H, V)`` by the name of the regression.
    """
    steps, width = network.read.shape
    reads = torch.zeros(steps, width, len(fits), dtype=torch.float64)
    for row, one in enumerate(fits):
        reads[:, one.columns, row] = one.read

    def forecast(batch: Batch) -> dict[str, Tensor]:
        past = batch.past.double()
        seen, future = network.regressors(past, batch.moments, batch.known.double())
        ahead = (future.movedim(1, 0) @ reads).permute(2, 1, 0).unsqueeze(-1)
        return {
            one.name: (seen @ one.look).movedim(1, 2) + past[:, -1:] + read
            for one, read in zip(fits, ahead, strict=True)
        }

    return forecast


def evaluate_all(
    ready: Ready,
    split: str,
    single: dict[str, Forecast],
    several: Callable[[Batch], dict[str, Tensor]],
    kept: list[str],
    tell: Callable[[float], None],
) -> Evaluation:
    """Measure many forecasts on every window of a split, in one pass.

    Args:
        ready: the windows.
        split: val or test.
        single: forecasts by name, besides those that learn nothing.
        several: what makes several forecasts at once.
        kept: names of forecasts whose residuals are kept.
        tell: takes the share done.

    Returns:
        Their errors.
    """
    windows, (real, owners) = getattr(ready.split, split), ready.held[split]
    zone, std = clock(ready.zone), ready.scaler.std[owners]
    ahead = torch.arange(ready.lookback, ready.lookback + ready.horizon)
    found: dict[str, list[tuple[Tensor, ...]]] = {}
    changed, residuals = [], {name: [] for name in kept}
    every, single = batches(windows), {**baselines(ready), **single}
    with torch.inference_mode():
        for number, rows in enumerate(every):
            batch = windows.__getitems__(rows)
            there = real[windows.starts[rows][:, None] + ahead].unsqueeze(-1)
            forecasts = {name: one(batch) for name, one in single.items()} | several(batch)
            for name, forecast in forecasts.items():
                error = (batch.future.double() - forecast.double()) * there
                units = (error.abs() * std[rows].unsqueeze(1)).sum((0, 1))
                count = there.expand_as(error).sum((1, 2))
                sums = error.square().sum((1, 2)), error.abs().sum((1, 2))
                found.setdefault(name, []).append((*sums, count, units))
                if name in residuals:
                    residuals[name].append(error.masked_fill(~there, torch.nan).float())
            changed.append(across_change(batch.moments, zone))
            tell((number + 1) / len(every))
    errors = {}
    for name, sums in found.items():
        squared, absolute, counts, units = zip(*sums, strict=True)
        count = torch.cat(counts)
        each = count.sum() / ready.variates
        errors[name] = Errors(torch.cat(squared), torch.cat(absolute), count, sum(units) / each)
    together = {name: torch.cat(parts) for name, parts in residuals.items()}
    return Evaluation(errors, torch.cat(changed), windows.origins, together)


def better(one: Errors, other: Errors, origins: Tensor) -> bool | None:
    """Tell whether one forecast has smaller errors than another, by more than chance explains.

    Args:
        one: errors of the forecast.
        other: errors of the other one.
        origins: moments of the windows.

    Returns:
        Whether its mean absolute error is smaller, None if that is by less than a hundredth, or not
        to be told with 95 % certainty by Student's distribution over ten stretches of time, or if
        there are not as many windows.
    """
    if len(origins) < STRETCHES:
        return None
    order = origins.argsort(stable=True)
    difference = (other.absolute - one.absolute)[order].tensor_split(STRETCHES)
    counts = one.counts[order].tensor_split(STRETCHES)
    means = torch.stack(
        [
            part.sum() / count.sum().clamp(min=1)
            for part, count in zip(difference, counts, strict=True)
        ]
    )
    bound = _STUDENT * float(means.std()) / STRETCHES**0.5
    mean = float(means.mean())
    bound = max(bound, NOTHING * other.mae)
    return None if abs(mean) <= bound else mean > 0
