"""Frequencies of stamps as they are: with gaps, with duplicates, over changes of the clocks."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.timestamps.civil import Wall
from posenc_mm.timestamps.days import date, weekday
from posenc_mm.timestamps.frequency import MONTHS, WEEKDAYS, Frequency, fixed
from posenc_mm.timestamps.steps import number_of

# A shorter step is none of the calendar: no change of clocks takes more than an hour or two.
_SHORTEST_DAY = 20 * 3600


class Gap(NamedTuple):
    """A place where stamps are missing.

    Attributes:
        row: of the last stamp before.
        start: that stamp, as ISO 8601 text.
        end: the next stamp.
        missing: how many steps of the frequency lie between the two.
    """

    row: int
    start: str
    end: str
    missing: int


def in_order(ticks: Tensor) -> tuple[Tensor, Tensor]:
    """Sort moments and drop duplicates.

    Args:
        ticks: ``(N,)``

    Returns:
        Those that differ, rising, and the last row of each.
    """
    ticks, rows = ticks.sort(stable=True)
    last = torch.ones_like(ticks, dtype=torch.bool)
    last[:-1] = ticks[1:] != ticks[:-1]
    return ticks[last], rows[last]


def infer(ticks: Tensor, wall: Wall) -> Frequency:
    """Find the frequency that most steps follow.

    On the physical clock that is the step seen most often. On the clock on the wall every kind of
    step of the calendar is tried; one kind has many lengths, 23 to 25 hours or 28 to 31 days. The
    frequency with most steps of exactly its kind wins, and of equals the coarsest of the calendar.

    Args:
        ticks: ``(N,)`` moments, rising, without duplicates.
        wall: what the clock on the wall shows at each.

    Returns:
        The frequency with its confidence and evidence.

    Raises:
        ValueError: fewer than two moments.
    """
    if len(ticks) < 2:
        raise ValueError(
            f"stamps must be two or more to tell their frequency, got {len(ticks)} that differ: "
            "state freq"
        )
    steps = ticks.diff()
    step = _commonest(steps)
    found = [(fixed(Fraction(step, wall.per_second)), steps, step)]
    if step >= _SHORTEST_DAY * wall.per_second:
        found = [*_calendar_steps(wall), *found]
    scored = [
        (int((apart == one).sum()), int(((apart > one) & (apart % one == 0)).sum()), frequency)
        for frequency, apart, one in found
    ]
    exact, longer, best = max(scored, key=lambda score: score[0])
    evidence = f"{exact:,} of {len(steps):,} steps are {best}"
    if longer:
        evidence += f", {longer:,} longer by whole steps"
    return replace(best, confidence=exact / len(steps), evidence=evidence)


def missing_between(ticks: Tensor, wall: Wall, frequency: Frequency) -> Tensor:
    """Count the steps of a frequency that lie between neighbours.

    Args:
        ticks: ``(N,)`` moments, rising, without duplicates.
        wall: what the clock on the wall shows at each.
        frequency: how far neighbours should be.

    Returns:
        ``(N - 1,)``; steps of the clock are rounded to the nearest whole number, so that jitter is
        no gap.
    """
    if frequency.of_calendar:
        numbers, _ = number_of(wall.days, frequency)
        return numbers.diff() // frequency.multiple - 1
    step = float(frequency.length * wall.per_second)
    return (ticks.diff().double() / step).round().long() - 1


def _calendar_steps(wall: Wall) -> Iterator[tuple[Frequency, Tensor, int]]:
    """Every kind of step that occurs, with how many each two neighbours are apart (0: no such)."""
    same_time = wall.ticks.diff() == 0
    for kind in _kinds(wall.days):
        numbers, on_grid = number_of(wall.days, kind)
        apart = numbers.diff() * (same_time & on_grid[1:] & on_grid[:-1])
        if apart.any():
            multiple = _commonest(apart[apart > 0])
            month = int(date(wall.days[on_grid][:1])[0]) % 12
            yield _in_largest_unit(kind, multiple, month), apart, multiple


def _kinds(days: Tensor) -> Iterator[Frequency]:
    for place in ("start", "end", "business-start", "business-end"):
        yield Frequency("month", anchor=place)
    day = _commonest(date(days)[1]) + 1
    if day > 1:
        yield Frequency("month", anchor=str(day))
    yield Frequency("week", anchor=WEEKDAYS[_commonest(weekday(days))])
    yield Frequency("day")
    yield Frequency("business_day")
    yield Frequency("semi_month", anchor="start")
    yield Frequency("semi_month", anchor="end")


def _in_largest_unit(kind: Frequency, multiple: int, month: int) -> Frequency:
    if kind.unit != "month" or multiple % 3:
        return replace(kind, multiple=multiple)
    if multiple % 12 == 0:
        return Frequency("year", multiple // 12, f"{kind.anchor}-{MONTHS[month]}")
    # Quarters are named by the first of their months that starts one, or the last that ends one.
    named = month % 3 + (9 if kind.anchor.endswith("end") else 0)
    return Frequency("quarter", multiple // 3, f"{kind.anchor}-{MONTHS[named]}")


def _commonest(values: Tensor) -> int:
    found, counts = torch.unique(values, return_counts=True)
    return int(found[counts.argmax()])
