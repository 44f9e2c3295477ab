"""``python -m timeseries forecast``: any table in, forecasts out, and what they are worth."""

import argparse
import shutil
import sys
import time

import torch
from torch import Tensor

from posenc_mm import TimeAxis
from timeseries.forecasting.asking import UndecidedError, UnusableError, parse
from timeseries.forecasting.choosing import choose
from timeseries.forecasting.comparing import Compared, compare
from timeseries.forecasting.concluding import bounds_of, conclude, panels_of
from timeseries.forecasting.drawing import draw
from timeseries.forecasting.future import to_come
from timeseries.forecasting.gaps import SHORT, Filled, fill, whole
from timeseries.forecasting.keeping import Stages, key_of
from timeseries.forecasting.preparing import Ready, prepare, seen_last
from timeseries.forecasting.reading import Data, read
from timeseries.forecasting.sizing import size
from timeseries.forecasting.telling import Telling, counted, listed
from timeseries.forecasting.writing import write_forecast, write_report


def main(argv: list[str]) -> None:
    """Forecast a table.

    Args:
        argv: arguments, as on the command line.
    """
    options = parse(argv)
    try:
        forecast(options)
    except UndecidedError as error:
        print(f"\na decision is needed: {error}", file=sys.stderr)
        sys.exit(2)
    except UnusableError as error:
        print(f"\nthis cannot be forecast: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        print(f"\nthis cannot be written: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        kept = options.out / "stages"
        print(f"\ninterrupted; finished stages are kept in {kept}: the same command goes on")
        sys.exit(130)


def forecast(options: argparse.Namespace) -> None:
    """Read, decide, evaluate, forecast and write.

    Args:
        options: of :func:`timeseries.forecasting.asking.parse`.

    Raises:
        UndecidedError: an option has to decide something.
        UnusableError: the data cannot be forecast.
    """
    began, telling = time.monotonic(), Telling()
    telling.keep("options", {name: str(value) for name, value in vars(options).items()})
    data = read(options, telling)
    telling.heading("decisions")
    ready = _prepared(data, options, telling)
    axes, known = to_come(data, ready, options, telling)
    choice = choose(data, ready, options, telling)
    stages = Stages(options.out / "stages", key_of(options), options.again, telling)
    compared = compare(data, ready, choice, options, stages, telling)
    bounds = _forecast(ready, compared, axes, known, options)
    conclude(ready, compared, options, telling)
    _write(ready, compared, axes, bounds, options, telling, time.monotonic() - began)


def _prepared(data: Data, options: argparse.Namespace, telling: Telling) -> Ready:
    """Decide on targets, lengths, gaps and splits."""
    first = data.series[0]
    telling.decide(
        "forecast", listed(first.columns),
        "as asked" if options.target else "all columns of numbers", "--target COLUMN...",
    )  # fmt: skip
    if first.known_columns:
        telling.decide("known in advance", listed(first.known_columns), "as asked", "--known")
    telling.decide(
        "clock", data.zone or "the stamps' own",
        "as asked" if options.tz else "as of the stamps" if data.zone else "stamps name no zone",
        "--tz ZONE",
    )  # fmt: skip
    filled = [fill(one, data.frequency) if data.regular else whole(one) for one in data.series]
    _tell_gaps(filled, telling)
    rows = [len(one.series.axis) for one in filled]
    lookback, horizon = size(data, rows, options, telling)
    ready = prepare(data, filled, lookback, horizon, telling)
    ends, series = ready.borders[0], ready.series[0]
    starts = series.axis[[ends.train, ends.val]].isoformat()
    several = f" of {series.name}" if len(ready.series) > 1 else ""
    split = ready.split
    telling.decide(
        "split",
        f"{ends.train:,} rows{several} train, {ends.val - ends.train:,} from {starts[0]} validate, "
        f"{ends.test - ends.val:,} from {starts[1]} test; {len(split.train):,}, "
        f"{len(split.val):,} and {len(split.test):,} windows, every one",
        "70, 10 and 20 % in the order of time; scaled by the rows that train alone",
    )
    telling.keep("windows", ready.counts)
    telling.keep("borders", {one.name: end._asdict() for one, end in
                             zip(ready.series, ready.borders, strict=True)})  # fmt: skip
    return ready


def _tell_gaps(filled: list[Filled], telling: Telling) -> None:
    short = sum(int((~one.real).sum()) for one in filled)
    pieces = sum(len(one.pieces) - 1 for one in filled)
    if short:
        telling.decide(
            "short gaps", f"{counted(short, 'missing row')} filled along a line",
            f"gaps of at most {SHORT} rows; they are seen, but forecasts of them do not count",
        )  # fmt: skip
    if pieces:
        telling.decide(
            "long gaps", f"no window crosses {counted(pieces, 'gap')} of "
            f"{sum(one.long for one in filled):,} rows",
            f"more than {SHORT} rows are no slip",
        )  # fmt: skip


def _forecast(
    ready: Ready,
    compared: Compared,
    axes: list[TimeAxis],
    known: list[Tensor],
    options: argparse.Namespace,
) -> tuple[Tensor, Tensor, Tensor]:
    """Forecast the rows to come, in the units of the data: lower bounds, forecasts, upper ones."""
    batch = seen_last(ready, [axis.seconds().double() for axis in axes], known)
    with torch.inference_mode():
        ahead = compared.final(batch).double()
    return bounds_of(ready, ahead, compared.widths.half, options.least)


def _write(
    ready: Ready,
    compared: Compared,
    axes: list[TimeAxis],
    bounds: tuple[Tensor, Tensor, Tensor],
    options: argparse.Namespace,
    telling: Telling,
    seconds: float,
) -> None:
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    csv, png, report = (out / name for name in ("forecast.csv", "forecast.png", "report.json"))
    write_forecast(csv, ready.series, axes, bounds)
    first, last = axes[0][[0, -1]].isoformat()
    draw(
        png, panels_of(ready, compared, axes, bounds, options.least),
        title=f"{options.path.name}: {counted(ready.horizon, 'row')} from {first} to {last} by "
        f"{compared.model}",
        zone=ready.zone, region=options.holidays, level=options.level,
    )  # fmt: skip
    telling.keep("seconds", round(seconds, 1))
    telling.keep("files", {"forecast": str(csv), "picture": str(png), "report": str(report)})
    write_report(report, telling.told)
    width = shutil.get_terminal_size().columns
    telling.heading("-" * min(width, 60))
    shown = ready.variates * len(ready.series)
    print(f"forecast: {csv} ({counted(ready.horizon * shown, 'row')})")
    print(f"picture:  {png}")
    print(f"report:   {report}")
