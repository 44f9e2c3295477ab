"""Which forecast: with which encodings, and how it does against what needs no model."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from timeseries.forecasting.choosing import Choice, Part, on_clocks
from timeseries.forecasting.evaluating import (
    Errors,
    Evaluation,
    Forecast,
    evaluate_all,
    regressions,
)
from timeseries.forecasting.fitting import (
    Fit,
    columns_of,
    measure,
    network_of,
    refit,
    stride_of,
)
from timeseries.forecasting.intervals import Widths, calibrate, coverage
from timeseries.forecasting.keeping import Stages
from timeseries.forecasting.preparing import Ready
from timeseries.forecasting.reading import Data, clock
from timeseries.forecasting.telling import Telling, progress
from timeseries.forecasting.trying import Tried, attempt, described, other_clock, tell_choice


class Compared(NamedTuple):
    """The forecast that was chosen, and how good it is.

    Attributes:
        name: of it, among the errors.
        model: what it is made of.
        final: forecasts ``(B, H, V)`` by all there is.
        evaluated: forecasts likewise, by weights that have not seen the test.
        test: errors of all on the test.
        widths: of the intervals.
        coverage: share of the test within intervals that validation calibrated, per step; None if
            validation has too few windows for that.
        tried: regressions.
    """

    name: str
    model: str
    final: Forecast
    evaluated: Forecast
    test: Evaluation
    widths: Widths
    coverage: Tensor | None
    tried: Tried


def compare(
    data: Data,
    ready: Ready,
    choice: Choice,
    options: argparse.Namespace,
    stages: Stages,
    telling: Telling,
) -> Compared:
    """Fit, choose on validation, and measure on the test.

    Args:
        data: that was read.
        ready: its windows.
        choice: encodings.
        options: of the command line.
        stages: that keep what is finished.
        telling: who tells.

    Returns:
        What to forecast with.
    """
    other = other_clock(data, ready, options)
    others = [] if other is None else on_clocks(choice.parts, clock(other))
    network = network_of(ready, [*choice.parts, *others])
    stride = stride_of(ready, network.read.shape[1])
    if stride > 1:
        telling.decide(
            "windows that train",
            f"one in {stride}",
            "so that it takes seconds; the test has every one",
        )

    def solve() -> dict[str, Any]:
        with progress("fitting on all windows") as tell:
            sums = measure(ready, network, stride, tell)
        tried = attempt(sums, ready, choice, others, other, options)
        final = refit(sums, tried.fits[tried.best])
        return {
            **tried._replace(fits=[one._asdict() for one in tried.fits])._asdict(),
            "final": final._asdict(),
        }

    solved = stages.take("regressions", solve)
    fits = [Fit(**one) for one in solved["fits"]]
    tried = Tried(fits, solved["builds_on"], solved["kept"], solved["best"])
    best, final = fits[tried.best], Fit(**solved["final"])
    name, model, forecasts = best.name, described(tried, choice, options), {}
    tell_choice(model, best, choice, other, telling)
    if options.network == "patches":
        from timeseries.forecasting.training import train

        name = "patches beside it"
        parts = _parts_of(best, [*choice.parts, *others], ready)
        folder = stages.folder / f"patches-{stages.key[:12]}"
        forecasts[name] = train(ready, parts, choice, options, folder, telling)
    measured = stages.take(
        f"errors-{options.network}",
        lambda: _measure(ready, forecasts, regressions(network, fits), name),
    )
    val, test = (_evaluation(measured[split]) for split in ("val", "test"))
    evaluated = last = forecasts.get(name) or _by(network, best)
    widths, held = _intervals(ready, val, test, name, options)
    fitted = "the rows that train, as a transformer would have to be trained anew"
    if not forecasts:
        last, fitted = _by(network, final), "all rows, with the penalty that validation chose"
    why = "errors below are of weights that have not seen the test"
    telling.decide("weights of the forecast", f"fitted to {fitted}", why)
    return Compared(name, model, last, evaluated, test, widths, held, tried)


def _measure(
    ready: Ready, single: dict[str, Forecast], several: Any, name: str
) -> dict[str, dict[str, Any]]:
    measured = {}
    for split in ("val", "test"):
        with progress(f"forecasting every window of {split}") as tell:
            found = evaluate_all(ready, split, single, several, [name], tell)
        errors = {key: one._asdict() for key, one in found.errors.items()}
        measured[split] = found._replace(errors=errors)._asdict()
    return measured


def _evaluation(kept: dict[str, Any]) -> Evaluation:
    errors = {name: Errors(**one) for name, one in kept["errors"].items()}
    return Evaluation(**{**kept, "errors": errors})


def _by(network: Any, one: Fit) -> Forecast:
    several = regressions(network, [one])
    return lambda batch: several(batch)[one.name]


def _parts_of(best: Fit, parts: Sequence[Part], ready: Ready) -> list[Part]:
    columns, _ = columns_of(parts, ready.known_width)
    return [part for part, own in zip(parts, columns, strict=True) if set(own) <= set(best.columns)]


def _intervals(
    ready: Ready, val: Evaluation, test: Evaluation, name: str, options: argparse.Namespace
) -> tuple[Widths, Tensor | None]:
    count, level = len(ready.series), options.level
    owners = {split: ready.held[split].series for split in ("val", "test")}
    first = calibrate(val.residuals[name], owners["val"], count, level)
    held = None if first.short else coverage(test.residuals[name], owners["test"], first)
    both = torch.cat((val.residuals[name], test.residuals[name]))
    return calibrate(both, torch.cat((owners["val"], owners["test"])), count, level), held
