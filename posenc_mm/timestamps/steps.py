"""Steps of the calendar: days on a frequency's grid, numbered so that neighbours differ by one."""

import torch
from torch import Tensor

from posenc_mm.timestamps.days import date, first_day, weekday
from posenc_mm.timestamps.frequency import MONTHS, WEEKDAYS, Frequency

_MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}


def number_of(days: Tensor, frequency: Frequency) -> tuple[Tensor, Tensor]:
    """Number the days of a grid.

    Args:
        days: ``(N,)`` since 1970-01-01, int64.
        frequency: one of the calendar; its multiple does not count here.

    Returns:
        The number of the last day on the grid up to each day, and whether it is that day.
    """
    unit, anchor = frequency.unit, frequency.anchor
    if unit == "day":
        return days, torch.ones_like(days, dtype=torch.bool)
    if unit == "business_day":
        of_week = weekday(days)
        return (days + 3) // 7 * 5 + of_week.clamp(max=4), of_week < 5
    if unit == "week":
        since = days + 3 - WEEKDAYS.index(anchor)
        return since // 7, since % 7 == 0
    months, _ = date(days)
    if unit == "semi_month":
        numbers = 2 * months + 1
        # The second day of this month, its first, or the second of the last month.
        for _ in range(2):
            numbers = torch.where(day_of(numbers, frequency) > days, numbers - 1, numbers)
    else:
        length, first = _MONTHS_OF[unit], _first_month(frequency)
        numbers = (months - first) // length
        numbers = torch.where(day_of(numbers, frequency) > days, numbers - 1, numbers)
    return numbers, day_of(numbers, frequency) == days


def day_of(numbers: Tensor, frequency: Frequency) -> Tensor:
    """Find days on a grid by their number.

    Args:
        numbers: ``(N,)`` as :func:`number_of` gives them.
        frequency: one of the calendar.

    Returns:
        Days since 1970-01-01.
    """
    unit, anchor = frequency.unit, frequency.anchor
    if unit == "day":
        return numbers
    if unit == "business_day":
        return numbers // 5 * 7 + numbers % 5 - 3
    if unit == "week":
        return numbers * 7 - 3 + WEEKDAYS.index(anchor)
    if unit == "semi_month":
        months, second = numbers // 2, numbers % 2
        first = first_day(months)
        if anchor == "start":
            return first + 14 * second
        return torch.where(second == 1, first_day(months + 1) - 1, first + 14)
    months = numbers * _MONTHS_OF[unit] + _first_month(frequency)
    first, last = first_day(months), first_day(months + 1) - 1
    place = anchor if unit == "month" else anchor.rpartition("-")[0]
    if place == "start":
        return first
    if place == "end":
        return last
    if place == "business-start":
        return first + torch.where(weekday(first) > 4, 7 - weekday(first), 0)
    if place == "business-end":
        return last - (weekday(last) - 4).clamp(min=0)
    return torch.minimum(first + int(place) - 1, last)


def _first_month(frequency: Frequency) -> int:
    if frequency.unit == "month":
        return 0
    return MONTHS.index(frequency.anchor[-3:]) % _MONTHS_OF[frequency.unit]
