"""Weeks in daily values: do they go with the stamps, or were the stamps made up?"""

from typing import NamedTuple

import numpy as np
import pandas as pd

# Half a year: long enough to see a week, short enough that a week that wanders stays in place.
_ROWS = 26 * 7
# Beyond this the statistic, chi-square of 4 or 6 degrees, is chance once in a million times or two;
# below the other it is what chance gives 98 times in a hundred.
_CERTAIN, _NOTHING = 40.0, 15.0


class Quiet(NamedTuple):
    """A day of the week on which values change least.

    Attributes:
        row: where the half year begins.
        weekday: by the stamps, 0 is Monday.
    """

    row: int
    weekday: int


def wandering(values: np.ndarray, weekdays: np.ndarray) -> list[Quiet]:
    """Find a week in the values that wanders through the week of the stamps.

    On some days of the week values change less: markets rest, offices close. Such a pattern stays
    on its days of the week, whatever else changes. Where half a year has the pattern of another one
    turned by a day or more, and none of the pattern at its own place, days are missing between the
    two that the stamps know nothing of.

    Args:
        values: ``(T, V)``
        weekdays: ``(T,)`` of the stamps, 0 is Monday.

    Returns:
        The quietest day of each half year that has a week, if they wander; else nothing.
    """
    found = []
    for start in range(0, len(values) - _ROWS, _ROWS):
        changes = _changes(values[start : start + _ROWS + 1])
        days = weekdays[start + 1 : start + _ROWS + 1]
        if _effect(changes, days, 7) > _CERTAIN:
            found.append((start, np.array([changes[days == day].mean() for day in range(7)])))
    for _, pattern in found:
        for _, other in found:
            fits = [np.corrcoef(np.roll(pattern, turn), other)[0, 1] for turn in range(7)]
            if max(fits[1:]) > 0.8 and fits[0] < 0.5:
                return [Quiet(row, int(pattern.argmin())) for row, pattern in found]
    return []


def has_five_days(values: np.ndarray) -> bool:
    """Tell whether changes repeat every five rows, and not every seven."""
    changes, rows = _changes(values), np.arange(len(values) - 1)
    return _effect(changes, rows % 5, 5) > _CERTAIN and _effect(changes, rows % 7, 7) < _NOTHING


def _changes(values: np.ndarray) -> np.ndarray:
    """How large changes are, by rank, the mean of all columns."""
    return pd.DataFrame(np.abs(np.diff(values, axis=0))).rank(pct=True).to_numpy().mean(1)


def _effect(changes: np.ndarray, days: np.ndarray, period: int) -> float:
    """Kruskal and Wallis's statistic: do changes differ among the days?"""
    count = len(changes)
    ranks = pd.Series(changes).rank().to_numpy() - (count + 1) / 2
    sums = np.bincount(days, ranks, period)
    return float(12 / (count * (count + 1)) * (sums**2 / np.bincount(days, minlength=period)).sum())
