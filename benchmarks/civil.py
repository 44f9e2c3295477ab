"""Civil phases of millions of stamps: posenc_mm beside pandas.

Both start from the same int64 nanoseconds UTC and end at the same float64 columns: how much of the
day, the week and the year has passed on the clocks of a zone, the year in its own length.
"""

import argparse
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.comparing import Table, Way, compare
from benchmarks.correctness import Checked
from benchmarks.measuring import Call, peak_bytes
from benchmarks.reporting import Growth, grown
from posenc_mm import TimeAxis

PERIODS = ("day", "week", "year")
DAY = 86_400 * 10**9
# A phase is right to the float64 rounding of a nanosecond's share of a day.
ROUNDING = 1e-12
SMALL = {"stamps": 2000, "lengths": [1000, 2000], "rounds": 2}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    parser.add_argument("--stamps", type=int, default=10_000_000)
    parser.add_argument("--lengths", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--zone", default="Australia/Melbourne")
    parser.set_defaults(rounds=5)


def run(
    options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Table], list[Growth]]:
    """Measure sorted and shuffled stamps, and how both grow."""
    shuffled = _drawn(options.stamps)
    tables = [
        table(f"{name}, {options.stamps:,} stamps", ticks, options, say)
        for name, ticks in (("sorted", np.sort(shuffled)), ("shuffled", shuffled))
    ]
    grows = [table(f"{n:,} stamps", np.sort(_drawn(n)), options, say) for n in options.lengths]
    return tables, grown("sorted stamps", options.lengths, grows)


def table(
    title: str,
    ticks: np.ndarray,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> Table:
    """Measure both ways on the same stamps."""
    few = slice(None, None, max(len(ticks) // 10_000, 1))

    def check(way: Way, out: Any) -> Checked:
        if way.kind == "base":
            return Checked(None, None)
        try:
            wanted = with_pandas(ticks[few], options.zone)
        except ModuleNotFoundError:
            return Checked(None, None)
        off = float(np.abs(out[few] - wanted).max())
        if off > ROUNDING:
            return Checked(off, "other", "computes something else than pandas")
        return Checked(off, "same", "error: largest difference to pandas")

    ways = [
        Way("pandas", "base", partial(_bound, with_pandas, ticks, options.zone), "", "pandas"),
        Way("posenc_mm", "ours", partial(_bound, with_posenc_mm, ticks, options.zone)),
    ]
    return compare(title, ways, rounds=options.rounds, check=check, memory=both_peaks, say=say)


def both_peaks(call: Call) -> int:
    """Sum the peaks of NumPy's memory and of torch's: no less than what is held at once."""
    call()
    tracemalloc.start()
    kept = call()
    of_numpy = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del kept
    return of_numpy + peak_bytes(call)


def with_pandas(ticks: np.ndarray, zone: str) -> np.ndarray:
    """The way of its documentation: localise, read the fields, put them together."""
    import pandas as pd

    index = pd.DatetimeIndex(ticks.view("M8[ns]")).tz_localize("UTC").tz_convert(zone)
    seconds = index.hour * 3600 + index.minute * 60 + index.second
    day = (seconds + index.microsecond / 10**6 + index.nanosecond / 10**9) / 86_400
    week = (index.day_of_week + day) / 7
    year = (index.day_of_year - 1 + day) / np.where(index.is_leap_year, 366, 365)
    return np.stack([day, week, year], axis=1)


def with_posenc_mm(ticks: np.ndarray, zone: str) -> np.ndarray:
    """Build the axis, then ask for its phases."""
    return TimeAxis(ticks, tz=zone, unit="ns").phases(*PERIODS).numpy()


def _bound(
    way: Callable[[np.ndarray, str], np.ndarray], ticks: np.ndarray, zone: str
) -> Callable[[], np.ndarray]:
    return lambda: way(ticks, zone)


def _drawn(stamps: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 40 * 365 * DAY, stamps)
