"""Seconds in turns, their middle and their spread, growth, and the most memory held at once."""

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch

Call = Callable[[], object]
# A call shorter than this is repeated within a round: the clock is read rarely enough.
LEAST = 0.005


class Spread(NamedTuple):
    """The median and the quartiles around it."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Say where the middle half of some values lies."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Ratios within each round, since what else the machine does meets both alike there."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Fit e in seconds = c * size**e by least squares of the logarithms.

    Raises:
        ValueError: there are fewer than two sizes.
    """
    if len(set(sizes)) < 2:
        raise ValueError(f"growth needs two sizes or more, got {list(sizes)}")
    slope, _ = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(second) for second in seconds]
    )
    return slope


def seconds_of(call: Call, device: str, number: int = 1) -> float:
    """Seconds of one call, the mean of ``number`` in a row."""
    if torch.device(device).type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(number):
            call()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000 / number
    kept = None
    start_s = time.perf_counter()
    for _ in range(number):
        kept = call()
    taken = (time.perf_counter() - start_s) / number
    del kept  # after the clock: giving memory back is no part of the call
    return taken


def in_turns(calls: Mapping[str, Call], rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Time all calls once per round, in another order each time.

    A first round warms up, and says how often a short call is repeated.

    Returns:
        Seconds per call, one for each round.
    """
    number = {}
    for name, call in calls.items():
        call()
        once = seconds_of(call, device)
        number[name] = min(1000, max(1, math.ceil(LEAST / max(once, 1e-9))))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    order, draw = list(calls), random.Random(0)
    gc.collect()
    gc.disable()  # or whoever allocates next pays for all before
    try:
        for _ in range(rounds):
            draw.shuffle(order)
            for name in order:
                taken[name].append(seconds_of(calls[name], device, number[name]))
    finally:
        gc.enable()
    return taken


def peak_bytes(call: Call, device: str = "cpu") -> int:
    """The most bytes of tensors held at once during a call, above what was held before."""
    call()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = call()
    del kept  # within the measurement it counts, as whoever called would hold it
    held = peak = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
