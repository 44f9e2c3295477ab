"""The formulas of time once more, from papers and peers: Python's own clocks, loops, float64.

Moments become exact fractions of seconds since 1970-01-01T00:00 UTC (`instants`) before anything
else. Positions come as tensors or nested sequences (N, A); results are float64 tensors.
"""

from __future__ import annotations

import calendar
import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

import torch
from oracles import Rows, attention, rows, t5_bucket, tensor, visible
from torch import Tensor

Period = str | float
Times, Names = Sequence[Fraction], Sequence[str]
EPOCH, ONE = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(seconds=1)
# Angles are divided by a turn with remainder before anything is rounded.
TURN = 2 * Fraction("3.1415926535897932384626433832795028841971693993751058209749445923")
SECONDS = {
    **{"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000)},
    **{"s": Fraction(1), "min": Fraction(60), "h": Fraction(3600), "D": Fraction(86_400)},
}
# Periods of the clock on the wall that fit into each other a whole number of times, and others.
NESTED = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
LEVELS = {
    **{"nanosecond": 1000, "microsecond": 1000, "millisecond": 1000, "second": 60, "minute": 60},
    **{"hour": 24, "time_of_day": 86_400, "day_of_week": 7, "weekend": 2, "day": 31, "week": 53},
    **{"day_of_year": 366, "sunday_week": 54, "month": 12, "quarter": 4},
}
# TimesFM v1, time_features.py: what is added to a field counted from 0, and the divisor.
TIMESFM = {
    **{"minute": (0, 59), "hour": (0, 23), "day": (1, 30), "day_of_week": (0, 6)},
    **{"day_of_year": (1, 364), "month": (1, 11), "week": (0, 51)},
}


# ---------------------------------------------------------------- clocks
def instants(moments: Rows, unit: str = "s") -> list[Fraction]:
    """Exact seconds; floats mean whole microseconds (nanoseconds where that is their unit)."""
    tick, parts = SECONDS[unit], 10**9 if unit == "ns" else 10**6
    return [
        m * tick if isinstance(m, int) else Fraction(round(Fraction(m) * tick * parts), parts)
        for (m,) in rows(moments)
    ]


def seconds(duration: Period) -> Fraction:
    """A duration such as "29.53D", or a number of seconds."""
    if not isinstance(duration, str):
        return Fraction(duration)
    number = duration.rstrip("".join(SECONDS))
    return Fraction(number or 1) * SECONDS[duration[len(number) :]]


def wall(instant: Fraction, zone: str = "UTC") -> tuple[datetime, Fraction]:
    """What the clocks of a zone show, and the part of a second that they do not."""
    whole = math.floor(instant)
    shown = (EPOCH + whole * ONE).astimezone(ZoneInfo(zone))
    return shown.replace(tzinfo=None, fold=0), instant - whole


def following(last: Fraction, steps: int, unit: str, multiple: int, zone: str) -> list[Fraction]:
    """A day later on the wall is not 24 h later: https://github.com/pandas-dev/pandas/issues/35388."""
    clock, rest = wall(last, zone)
    found = []
    if unit in ("minute", "hour"):
        return [last + multiple * (n + 1) * NESTED[unit] for n in range(steps)]
    for step in range(multiple, multiple * (steps + 1), multiple):
        if unit in ("day", "week"):
            shown = clock + step * NESTED[unit] * ONE
        else:
            years, month = divmod(clock.month - 1 + step, 12)
            shown = clock.replace(year=clock.year + years, month=month + 1, day=1)
            last_day = calendar.monthrange(shown.year, shown.month)[1]
            shown = shown.replace(day=last_day) if unit == "month end" else shown
        # Shown twice: the first. Skipped: as much later as the clocks were set.
        found.append((shown.replace(tzinfo=ZoneInfo(zone)) - EPOCH) // ONE + rest)
    return found


def field(instant: Fraction, name: str, zone: str = "UTC") -> int:
    """A field counted from 0; "week" is ISO 8601's, "sunday_week" C's %U."""
    clock, rest = wall(instant, zone)
    if name in NESTED and name not in ("day", "week"):
        return int(getattr(clock, name))
    return {
        "nanosecond": math.floor(rest * 10**9) % 1000,
        "microsecond": math.floor(rest * 10**6) % 1000,
        "millisecond": math.floor(rest * 1000),
        "time_of_day": 3600 * clock.hour + 60 * clock.minute + clock.second,
        "day_of_week": clock.weekday(),
        "weekend": int(clock.isoweekday() > 5),
        "day": clock.day - 1,
        "day_of_year": clock.timetuple().tm_yday - 1,
        "week": clock.isocalendar().week - 1,
        "sunday_week": int(clock.strftime("%U")),
        "month": clock.month - 1,
        "quarter": (clock.month - 1) // 3,
    }[name]


def actual_values(instant: Fraction, name: str, zone: str = "UTC") -> range:
    """What a field takes in this month, year or ISO year (28 December is in its last week)."""
    clock, _ = wall(instant, zone)
    if name == "sunday_week":
        first, last = (date(clock.year, *day).strftime("%U") for day in ((1, 1), (12, 31)))
        return range(int(first), int(last) + 1)
    week = date(clock.isocalendar().year, 12, 28).isocalendar().week
    month, year = calendar.monthrange(clock.year, clock.month)[1], 365 + calendar.isleap(clock.year)
    return range({"day": month, "day_of_year": year, "week": week}.get(name, LEVELS[name]))


# ---------------------------------------------------------------- additive
def waves(turns: Sequence[float]) -> list[float]:
    """sin and cos of each phase, side by side."""
    return [f(2 * math.pi * turn) for turn in turns for f in (math.sin, math.cos)]


def coded(moments: Times, names: Names, code: str, zone: str) -> Tensor:
    """cyclic: https://github.com/soda-inria/tabicl/issues/136; ramp (GluonTS): https://arxiv.org/abs/1906.05264;
    timesfm1: Das et al. 2024, v1/src/timesfm/time_features.py, https://arxiv.org/abs/2310.10688.
    """
    result = []
    for at in moments:
        row: list[float] = []
        for name in names:
            v, taken = field(at, name, zone), actual_values(at, name, zone)
            if code == "cyclic":
                row += waves([taken.index(v) / len(taken)])
            elif code == "ramp":
                row.append(v / (LEVELS[name] - 1) - 0.5)
            elif code == "timesfm1":
                first, divisor = TIMESFM[name]
                v = field(at, "sunday_week", zone) if name == "week" else v
                row.append((v + first) / divisor - 0.5)
            else:
                row += [float(v == level) for level in range(LEVELS[name])]
        result.append(row)
    return tensor(result)


def informer_index(moments: Times, tables: Mapping[str, Tensor], zone: str) -> Tensor:
    """Sum of rows; month and day from 1, quarters of an hour: Zhou et al. 2021, https://arxiv.org/abs/2012.07436."""
    result = []
    for at in moments:
        marks = {name: field(at, name, zone) for name in tables}
        marks |= {name: marks[name] + 1 for name in ("month", "day") if name in marks}
        marks |= {"minute": marks["minute"] // 15} if "minute" in marks else {}
        chosen = [tables[name][row].double().tolist() for name, row in marks.items()]
        result.append([math.fsum(column) for column in zip(*chosen, strict=True)])
    return tensor(result)


def phase(at: Fraction, period: Period, zone: str = "UTC") -> Fraction:
    """Passed share of the actual length of a calendar period, or of a duration since 1970."""
    if period not in (*NESTED, *MONTHS):
        return at % seconds(period) / seconds(period)
    clock, rest = wall(at, zone)
    if period in NESTED:  # 1 January of the year 1 is a Monday
        return ((clock - datetime.min) // ONE + rest) % NESTED[period] / NESTED[period]
    first = (clock.month - 1) // MONTHS[period] * MONTHS[period]
    start = datetime(clock.year, first + 1, 1)
    years, month = divmod(first + MONTHS[period], 12)
    length = (datetime(clock.year + years, month + 1, 1) - start) // ONE
    return ((clock - start) // ONE + rest) / length


def seasonal(moments: Times, periods: Mapping[Period, int], zone: str) -> Tensor:
    """sin, cos of 2 pi k phase, equal ones once: Taylor, Letham 2018, https://doi.org/10.7287/peerj.preprints.3190v2."""
    chosen: dict[object, tuple[Period, int]] = {}
    for period, harmonics in periods.items():
        for k in range(1, harmonics + 1):
            key: object = (period, k)
            if period in NESTED:
                key = ("wall", Fraction(k, NESTED[period]))
            elif period not in MONTHS:
                key = ("physical", k / seconds(period))
            chosen.setdefault(key, (period, k))
    turns = [[float(k * phase(at, p, zone) % 1) for p, k in chosen.values()] for at in moments]
    return tensor([waves(line) for line in turns])


def oscillating(moments: Times, periods: Sequence[float], counts: Sequence[int]) -> Tensor:
    """sin, cos of 2 pi k t / P with P in seconds, as trained: Taylor, Letham 2018, as above."""
    pairs = [(k, p) for p, count in zip(periods, counts, strict=True) for k in range(1, count + 1)]
    return tensor([waves([float(k * at / Fraction(p) % 1) for k, p in pairs]) for at in moments])


def holidays(
    moments: Times, dates: Names, kernel: str, alpha: float, offsets: Sequence[int], zone: str
) -> Tensor:
    """Kernels of GluonTS on days to the nearest holiday moved by o days: https://arxiv.org/abs/1906.05264."""
    known, result = [date.fromisoformat(text) for text in dates], []
    for at in moments:
        day = wall(at, zone)[0].date()
        gaps = [min(abs((day - known_day).days - o) for known_day in known) for o in offsets]
        alike = {
            "indicator": [float(gap == 0) for gap in gaps],
            "exponential": [math.exp(-alpha * gap) for gap in gaps],
            "gaussian": [math.exp(-alpha * gap**2) for gap in gaps],
        }
        result.append(alike[kernel])
    return tensor(result)


def time2vec(times: Times, weights: Sequence[float], shifts: Sequence[float]) -> Tensor:
    """w_0 t + b_0, then sin(w_i t + b_i): Kazemi et al. 2019, https://arxiv.org/abs/1907.05321."""
    pairs = [(Fraction(w), Fraction(b)) for w, b in zip(weights, shifts, strict=True)]
    lines = [[w * t + b for w, b in pairs] for t in times]
    return tensor([[float(a), *(math.sin(float(b % TURN)) for b in rest)] for a, *rest in lines])


def horizon(positions: Rows, context: int) -> Tensor:
    """[-C, ..., -1]/C for the past, [0, 1, ...]/C ahead: Ansari et al. 2025 (Chronos-2), https://arxiv.org/abs/2510.15821."""
    return tensor([[(p - context) / context, float(p >= context)] for (p,) in rows(positions)])


def tape(positions: Rows, dim: int, length: int) -> Tensor:
    """sin, cos of p w_i d/L: Foumani et al. 2023 (ConvTran), https://arxiv.org/abs/2305.16642."""
    scales = [10_000 ** (-2 * i / dim) * dim / length for i in range(dim // 2)]
    turns = [[p * w / (2 * math.pi) for w in scales] for (p,) in rows(positions)]
    return tensor([waves(line) for line in turns])


def timescales(count: int, step: float, span: float) -> list[float]:
    """From 1/step to 1/span, each the same factor apart."""
    return [(step / span) ** (i / max(count - 1, 1)) / step for i in range(count)]


def patch_centres(positions: Rows, patch: int, stride: int, align: str = "end") -> Tensor:
    """Means of the rows of floor((N - P)/S) + 1 patches: Nie et al. 2023, https://arxiv.org/abs/2211.14730."""
    listed = [[Fraction(p) for p in row] for row in rows(positions)]
    count, left = divmod(len(listed) - patch, stride)
    first = left if align == "end" else 0
    parts = [listed[first + stride * n :][:patch] for n in range(count + 1)]
    return tensor([[float(sum(c) / patch) for c in zip(*part, strict=True)] for part in parts])


# ---------------------------------------------------------------- rotary and bias
def time_rotary(times: Rows, periods: Sequence[Fraction], scales: Sequence[float]) -> Tensor:
    """Angles 2 pi t/P, then t w, in one turn: Su et al. 2021, https://arxiv.org/abs/2104.09864."""
    turning = [*(TURN / period for period in periods), *map(Fraction, scales)]
    return tensor([[float(Fraction(t) * w % TURN) for w in turning] for (t,) in rows(times)])


def durations(queries: Rows, keys: Rows, step: float) -> list[list[Fraction]]:
    """Keys minus queries, in steps, without rounding."""
    ends = [[Fraction(p) for (p,) in rows(some)] for some in (queries, keys)]
    return [[(k - q) / Fraction(step) for k in ends[1]] for q in ends[0]]


def time_alibi(queries: Rows, keys: Rows, slopes: Sequence[float], step: float) -> Tensor:
    """-m |dt|/step: Press et al. 2022, https://arxiv.org/abs/2108.12409."""
    apart = durations(queries, keys, step)
    return tensor([[[-m * float(abs(t)) for t in line] for line in apart] for m in slopes])


def t5_durations(
    queries: Rows, keys: Rows, weight: Tensor, step: float, far: int, both: bool
) -> Tensor:
    """Buckets of whole steps, cut towards 0: Raffel et al. 2020, https://arxiv.org/abs/1910.10683."""
    table = weight.double().tolist()
    apart = [[math.trunc(t) for t in line] for line in durations(queries, keys, step)]
    ids = [[t5_bucket(t, len(table), far, both) for t in line] for line in apart]
    return tensor([[[table[b][h] for b in line] for line in ids] for h in range(len(table[0]))])


def any_variate(queries: Rows, keys: Rows, same: Tensor, other: Tensor) -> Tensor:
    """u1 within a variate, u2 between two: Woo et al. 2024 (Moirai), https://arxiv.org/abs/2402.02592."""
    heads = list(zip(same.double().tolist(), other.double().tolist(), strict=True))
    return tensor(
        [[[u1 if q == k else u2 for k in rows(keys)] for q in rows(queries)] for u1, u2 in heads]
    )


def erpe(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, causal: bool, real: Tensor) -> Tensor:
    """(softmax + bias) v, bias (H, N, M): Foumani et al. 2023, https://arxiv.org/abs/2305.16642."""
    result = attention(q, k, v, causal=causal, key_mask=real)
    for b, h, i, j in itertools.product(*map(range, (*q.shape[:3], k.shape[2]))):
        if visible(i, j, k.shape[2] - q.shape[2], causal, None, None, real[b].tolist()):
            result[b, h, i] += bias[h, i, j].double() * v[b, h, j].double()
    return result


def decayed(weights: Tensor, apart: Sequence[Times], rates: Sequence[float]) -> Tensor:
    """Attention weights (H, N, M) times exp(-m |dt|), made to sum to 1 again."""
    result = torch.zeros_like(weights, dtype=torch.float64)
    for (h, m), (i, line) in itertools.product(enumerate(rates), enumerate(apart)):
        row = [w * math.exp(-m * abs(t)) for w, t in zip(weights[h, i].tolist(), line, strict=True)]
        result[h, i] = tensor([w / math.fsum(row) for w in row])
    return result
