"""Civil phases of millions of stamps: posenc_mm beside pandas, in one run.

    python benchmarks/civil_phases.py --stamps 10000000

Both start from the same int64 nanoseconds UTC and end at the same float64 columns: how much of the
day, the week and the year has passed on the clocks of a zone, the year in its own length.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch

from posenc_mm import TimeAxis

PERIODS = ("day", "week", "year")
DAY = 86_400 * 10**9
Way = Callable[[np.ndarray, str], np.ndarray]


def with_pandas(ticks: np.ndarray, zone: str) -> np.ndarray:
    """The way of its documentation: localise, read the fields, put them together."""
    index = pd.DatetimeIndex(ticks.view("M8[ns]")).tz_localize("UTC").tz_convert(zone)
    seconds = index.hour * 3600 + index.minute * 60 + index.second
    day = (seconds + index.microsecond / 10**6 + index.nanosecond / 10**9) / 86_400
    week = (index.day_of_week + day) / 7
    year = (index.day_of_year - 1 + day) / np.where(index.is_leap_year, 366, 365)
    return np.stack([day, week, year], axis=1)


def with_posenc_mm(ticks: np.ndarray, zone: str) -> np.ndarray:
    """Build the axis, then ask for its phases."""
    return TimeAxis(ticks, tz=zone, unit="ns").phases(*PERIODS).numpy()


def seconds_of(ways: Sequence[Way], ticks: np.ndarray, zone: str, repeats: int) -> list[float]:
    """The best of some runs of each, in turns: other work on the machine then meets all alike."""
    best = [float("inf")] * len(ways)
    for _ in range(repeats):
        for row, way in enumerate(ways):
            start = time.perf_counter()
            way(ticks, zone)
            best[row] = min(best[row], time.perf_counter() - start)
    return best


def main() -> None:
    """Compare, and print a row per order of the stamps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stamps", type=int, default=10_000_000)
    parser.add_argument("--zone", default="Australia/Melbourne")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)  # as pandas has
    shuffled = np.random.default_rng(0).integers(0, 40 * 365 * DAY, options.stamps)
    print(f"{options.stamps:,} stamps, {options.zone}, pandas {pd.__version__}")
    for name, ticks in (("sorted", np.sort(shuffled)), ("shuffled", shuffled)):
        few = ticks[:: max(options.stamps // 10_000, 1)]
        apart = np.abs(with_pandas(few, options.zone) - with_posenc_mm(few, options.zone)).max()
        ways = (with_pandas, with_posenc_mm)
        theirs, ours = seconds_of(ways, ticks, options.zone, options.repeats)
        print(
            f"{name}: pandas {theirs:.2f} s, posenc_mm {ours:.2f} s, {theirs / ours:.1f} times "
            f"faster; largest difference {apart:.1e}"
        )


if __name__ == "__main__":
    main()
