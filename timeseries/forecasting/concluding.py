"""What it all comes to: tables, sentences, and the numbers of the picture."""

import argparse
from typing import Any

import torch
from torch import Tensor

from posenc_mm import TimeAxis
from timeseries.forecasting.comparing import Compared
from timeseries.forecasting.drawing import PANELS, Panel
from timeseries.forecasting.evaluating import NOTHING, STRETCHES, Errors, better
from timeseries.forecasting.preparing import Ready
from timeseries.forecasting.telling import Telling, counted, listed
from timeseries.forecasting.trying import RIDGE


def bounds_of(
    ready: Ready, ahead: Tensor, half: Tensor, least: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Lower bounds, forecasts and upper bounds ``(S, H, V)`` in the units of the data.

    Args:
        ready: series and scales.
        ahead: forecasts, scaled.
        half: half the width of intervals, scaled.
        least: that values can be; where it is None, 0 of what is counted.
    """
    mean, std = (of.unsqueeze(1) for of in ready.scaler)
    bounds = [(ahead + sign * half) * std + mean for sign in (-1, 0, 1)]
    lower, middle, upper = (_ended(bound, ready.tallies.unsqueeze(1), least) for bound in bounds)
    return lower, middle, upper


def conclude(
    ready: Ready, compared: Compared, options: argparse.Namespace, telling: Telling
) -> None:
    """Tell how good the forecasts are, and what each encoding bought.

    Args:
        ready: windows.
        compared: what came of them.
        options: of the command line.
        telling: who tells.
    """
    test, windows = compared.test, len(ready.split.test)
    changes = int(test.changed.sum())
    across = f", of which {changes:,} have a change of the clocks in them" if changes else ""
    telling.heading(
        f"errors on {windows:,} windows of the test, every one{across} (1 is the deviation of the "
        "rows that train)"
    )
    fits, best = compared.tried.fits, compared.tried.fits[compared.tried.best]
    names = [name for name in test.errors if name not in {one.name for one in fits}]
    # A transformer stands behind the regression it is to improve on.
    models = list(dict.fromkeys([RIDGE, best.name, compared.name]))
    names = [name for name in names if name != compared.name] + models
    telling.table(
        "errors", [_row(name, ready, compared) for name in names],
        {"forecast": str, "MSE": _three, "MAE": _three, "MAE in its unit": _short,
         "MAE across clock changes": _three, "MAE of the rest": _three},
    )  # fmt: skip
    if len(fits) > 1:
        _tell_bought(compared, telling)
    telling.heading("in short")
    if not any("seasonal" in name for name in test.errors):
        telling.find(
            "there is no seasonal naive forecast: rows have no season, or none that the lookback "
            "holds"
        )
    _tell_verdict(compared, telling)
    _tell_intervals(ready, compared, options, telling)


def panels_of(
    ready: Ready,
    compared: Compared,
    axes: list[TimeAxis],
    bounds: tuple[Tensor, Tensor, Tensor],
    least: float | None,
) -> list[tuple[Panel, Panel]]:
    """The first columns, each with its forecast and with the last one that can be checked."""
    rows = []
    windows, owners = ready.split.test, ready.held["test"].series
    for number, (one, axis) in enumerate(zip(ready.series, axes, strict=True)):
        last = int((owners == number).nonzero()[-1])
        batch = windows.__getitems__([last])
        with torch.inference_mode():
            scaled = compared.evaluated(batch).double()
        mean, std = ready.scaler.mean[number], ready.scaler.std[number]
        held = [
            (scaled[0] + sign * compared.widths.half[number]) * std + mean for sign in (-1, 0, 1)
        ]
        held = [_ended(bound, ready.tallies[number], least) for bound in held]
        past, future = (part[0].double() * std + mean for part in (batch.past, batch.future))
        seconds, tail = one.axis.seconds().double(), _tail(ready)
        at = batch.moments[0]
        for column, name in enumerate(one.columns):
            title = f"{one.name}: {name}" if len(ready.series) > 1 else name
            rows.append((
                Panel(
                    f"{title}, forecast", (seconds[-tail:], one.values[-tail:, column]),
                    axis.seconds().double(),
                    torch.stack([bound[number, :, column] for bound in bounds]),
                ),
                Panel(
                    "held out: the last rows, forecast without having seen them",
                    (at[: ready.lookback][-tail:], past[-tail:, column]), at[ready.lookback :],
                    torch.stack([bound[:, column] for bound in held]), future[:, column],
                ),
            ))  # fmt: skip
            if len(rows) == PANELS:
                return rows
    return rows


def _ended(bound: Tensor, tallies: Tensor, least: float | None) -> Tensor:
    if least is not None:
        return bound.clamp(min=least)
    return torch.where(tallies, bound.clamp(min=0), bound)


def _tail(ready: Ready) -> int:
    return min(ready.lookback, max(4 * ready.horizon, 48))


def _row(name: str, ready: Ready, compared: Compared) -> dict[str, Any]:
    test = compared.test
    errors, changed = test.errors[name], test.changed
    return {
        "forecast": _label(name, compared),
        "MSE": errors.mse,
        "MAE": errors.mae,
        "MAE in its unit": float(errors.units[0]) if ready.variates == 1 else None,
        "MAE across clock changes": errors.mae_of(changed),
        "MAE of the rest": errors.mae_of(~changed) if bool(changed.any()) else None,
        "MAE of columns": dict(zip(ready.columns, errors.units.tolist(), strict=True)),
    }


def _label(name: str, compared: Compared) -> str:
    best = compared.tried.fits[compared.tried.best].name
    label = "ridge + encodings" if name == best and name != RIDGE else name
    return f"{label}  <- the model" if name == compared.name else label


def _tell_bought(compared: Compared, telling: Telling) -> None:
    """The table of what each encoding bought."""
    telling.heading("what each encoding bought (each row with one more than what was kept before)")
    tried, test, rows = compared.tried, compared.test, []
    for row, one in enumerate(tried.fits):
        errors, before = test.errors[one.name], test.errors[tried.fits[tried.builds_on[row]].name]
        rows.append({
            "regression": one.name, "columns": len(one.columns), "val MSE": one.val,
            "MSE": errors.mse, "MAE": errors.mae,
            "MAE change": _change(errors.mae, before.mae) if row else None,
            "told from chance": None if not row else _told(errors, before, compared),
            "kept": "yes" if tried.kept[row] else "no",
        })  # fmt: skip
    telling.table(
        "encodings", rows,
        {"regression": str, "columns": str, "val MSE": _three, "MSE": _three, "MAE": _three,
         "MAE change": "{:+.1%}".format, "told from chance": str, "kept": str},
    )  # fmt: skip


def _told(errors: Errors, before: Errors, compared: Compared) -> str:
    told = better(errors, before, compared.test.origins)
    return {True: "better", False: "worse", None: "no"}[told]


def _tell_verdict(compared: Compared, telling: Telling) -> None:
    test, own = compared.test, compared.test.errors[compared.name]
    plain = [name for name in test.errors if "naive" in name]
    best = min(plain, key=lambda name: test.errors[name].mae)
    other = test.errors[best]
    told = better(own, other, test.origins)
    change = " and ".join(
        f"{name} {_change(a, b) or 0.0:+.0%}"
        for name, a, b in (("MSE", own.mse, other.mse), ("MAE", own.mae, other.mae))
    )
    if told:
        telling.find(f"the model beats {best} ({change})")
    elif told is None:
        why = "as chance may have it, over ten stretches of the test"
        if abs(own.mae - other.mae) <= NOTHING * other.mae:
            why = "a hundredth or less"
        elif len(test.origins) < STRETCHES:
            why = f"of {counted(len(test.origins), 'window')}, too few to tell"
        telling.warn(
            f"the model is not told from {best} ({change}): the difference is {why}. What needs no "
            "model may do as well"
        )
    else:
        telling.warn(
            f"{best} is better than the model ({change}): trust it, or find what drives it"
        )
    telling.keep("verdict", {"against": best, "better": told})


def _tell_intervals(
    ready: Ready, compared: Compared, options: argparse.Namespace, telling: Telling
) -> None:
    widths, held = compared.widths, compared.coverage
    pooled = "; series of too few windows take those of all" if widths.pooled else ""
    telling.decide(
        "intervals", f"{options.level:.0%}",
        f"split conformal: at each step the errors of {widths.windows:,} held-out windows or more, "
        f"in each series and column{pooled}", "--level",
    )  # fmt: skip
    if held is not None:
        share, first, last = (float(of) for of in (held.nanmean(), held[0], held[-1]))
        text = (
            f"calibrated on validation alone they hold {share:.1%} of the test ({first:.1%} at the "
            f"first step, {last:.1%} at the last); those of the forecast are calibrated on both"
        )
        coverage = {"wanted": options.level, "test": share, "by step": held.tolist()}
        telling.keep("coverage", coverage)
        if share < options.level - 0.05:
            telling.warn(f"{text}, but errors have grown once: expect surprises")
        else:
            telling.find(text)
    if widths.short:
        telling.warn(
            f"{widths.windows:,} held-out windows are too few for {options.level:.0%}: intervals "
            "are as wide as the largest error"
        )
    counts = [name for name, is_count in zip(ready.columns, ready.tallies.all(0), strict=True)
              if is_count]  # fmt: skip
    if options.least is not None:
        telling.decide("least value", f"{options.least:g}", "as asked", "--least")
    elif counts:
        why = "whole numbers, and none is below 0"
        telling.decide("least value", f"0 for {listed(counts)}", why, "--least")


def _change(after: float, before: float) -> float | None:
    return after / before - 1 if before else None


def _three(number: float) -> str:
    return f"{number:.3f}" if 0.1 <= abs(number) < 100 else f"{number:.3g}"


def _short(number: float) -> str:
    return f"{number:.4g}"
