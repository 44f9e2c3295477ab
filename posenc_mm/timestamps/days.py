"""The Gregorian calendar in integers: dates of days, days of dates, weeks, lengths of periods.

Days count from 1970-01-01, months from January of the year 0, everything within a month, a week or
a year from 0. All functions take tensors of any shape and device; :func:`date` and
:func:`first_day` take plain integers too.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from torch import Tensor

Whole = TypeVar("Whole", Tensor, int)
OfDay = Callable[[Tensor], Tensor]


def date(days: Whole) -> tuple[Whole, Whole]:
    r"""Find the month and the day in it.

    Years are counted from 1 March, so that the leap day is a year's last. An era is 400 years,
    always 146097 days. Within it the year is the day over 365, after one day is taken off for each
    leap day passed; within the year, months of 31, 30, 31, 30, 31 days repeat, so that the month is
    :math:`\lfloor (5 d + 2) / 153 \rfloor`.

    References:
        Hinnant: chrono-Compatible Low-Level Date Algorithms (2013),
        https://howardhinnant.github.io/date_algorithms.html

    Args:
        days: since 1970-01-01, int64 or an integer.

    Returns:
        Months since January of the year 0, and days since the first of the month.

    Example:
        >>> months, day = date(19782)
        >>> months // 12, months % 12 + 1, day + 1
        (2024, 2, 29)
    """
    since_march = days + 719_468
    era = since_march // 146_097
    in_era = since_march - era * 146_097
    leap_days = in_era // 1460 - in_era // 36_524 + in_era // 146_096
    year = (in_era - leap_days) // 365
    in_year = in_era - (365 * year + year // 4 - year // 100)
    month = (5 * in_year + 2) // 153
    return 12 * (400 * era + year) + month + 2, in_year - (153 * month + 2) // 5


def first_day(months: Whole) -> Whole:
    """Find the first day of a month: the inverse of :func:`date`.

    Args:
        months: since January of the year 0, int64 or an integer.

    Returns:
        Days since 1970-01-01.

    Example:
        >>> first_day(12 * 2024 + 1)
        19754
    """
    since_march = months - 2
    year = since_march // 12
    month = since_march - 12 * year
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468


def weekday(days: Tensor) -> Tensor:
    """Days since Monday."""
    return (days + 3) % 7


def since_first(days: Tensor, span: int) -> Tensor:
    """Days since the month, quarter or year began: the period of ``span`` months."""
    months, day = date(days)
    return day if span == 1 else days - first_day(months - months % span)


def length(days: Tensor, span: int) -> Tensor:
    """How many days the month, quarter or year has: the period of ``span`` months."""
    months, _ = date(days)
    first = months - months % span
    return first_day(first + span) - first_day(first)


def iso_week(days: Tensor) -> Tensor:
    """Weeks since the first ISO week of the year that this week's Thursday is in."""
    return since_first(days - weekday(days) + 3, 12) // 7


def iso_weeks(days: Tensor) -> Tensor:
    """How many ISO weeks the year has that this week's Thursday is in: 52 or 53 Thursdays."""
    thursday = days - weekday(days) + 3
    passed = since_first(thursday, 12)
    return passed // 7 + (length(thursday, 12) - 1 - passed) // 7 + 1


def sunday_week(days: Tensor) -> Tensor:
    """Sundays since the year began, this day included: C's ``%U``."""
    return (since_first(days, 12) + 7 - weekday(days + 1)) // 7


def sunday_weeks(days: Tensor) -> Tensor:
    """How many values :func:`sunday_week` takes in the year: from 0, or from its first on."""
    last = days - since_first(days, 12) + length(days, 12) - 1
    return sunday_week(last) - first_sunday_week(days) + 1


def first_sunday_week(days: Tensor) -> Tensor:
    """The first value of :func:`sunday_week` in the year: 1 if that begins on a Sunday, else 0."""
    return sunday_week(days - since_first(days, 12))


_SPANS = {"month": 1, "quarter": 3, "year": 12}

PASSED_DAYS: dict[str, OfDay] = {
    "week": weekday,
    **{period: partial(since_first, span=span) for period, span in _SPANS.items()},
}
LENGTH_IN_DAYS: dict[str, OfDay] = {
    period: partial(length, span=span) for period, span in _SPANS.items()
}
DAY_FIELDS: dict[str, OfDay] = {
    "day_of_week": weekday,
    "weekend": lambda days: weekday(days) // 5,
    "day": PASSED_DAYS["month"],
    "day_of_year": PASSED_DAYS["year"],
    "week": iso_week,
    "sunday_week": sunday_week,
    "month": lambda days: date(days)[0] % 12,
    "quarter": lambda days: date(days)[0] % 12 // 3,
    "year": lambda days: date(days)[0] // 12,
}
# How many values a field takes in this month or year, where that is not always the same.
VALUES_OF: dict[str, OfDay] = {
    "day": LENGTH_IN_DAYS["month"],
    "day_of_year": LENGTH_IN_DAYS["year"],
    "week": iso_weeks,
    "sunday_week": sunday_weeks,
}
