"""The stamps that come next: by the calendar, or by a clock that is never set."""

import torch
from torch import Tensor

from posenc_mm.timestamps.civil import Wall
from posenc_mm.timestamps.frequency import Frequency
from posenc_mm.timestamps.steps import day_of, number_of
from posenc_mm.timestamps.zones import Zone, to_utc


def next_ticks(
    last: Tensor, wall: Wall, steps: int, frequency: Frequency, zone: Zone, calendar: bool
) -> Tensor:
    """Continue stamps.

    A step of the calendar keeps the time on the clock. Where clocks skip that time, it is as much
    later as they were set forward; where they show it twice, it is the first.

    Args:
        last: ``(1,)`` ticks of the last stamp.
        wall: what the clock on the wall showed at it.
        steps: how many to make.
        frequency: how far apart.
        zone: whose clocks.
        calendar: whether steps of the calendar follow it, or are multiples of 24 hours.

    Returns:
        ``(steps,)`` ticks.

    Raises:
        ValueError: the frequency is a guess, or a step is not whole in ticks or not fixed.
    """
    if frequency.confidence < 0.5:
        raise ValueError(f"the frequency is unclear ({frequency.evidence}): state freq")
    count = torch.arange(1, steps + 1) * frequency.multiple
    if calendar and frequency.of_calendar:
        number, _ = number_of(wall.days, frequency)
        days = day_of(number + count, frequency)
        whole, rest = wall.ticks // wall.per_second, wall.ticks % wall.per_second
        moments, _ = to_utc(days * 86_400 + whole, zone)
        return moments * wall.per_second + rest
    step = frequency.length * wall.per_second
    if step.denominator != 1:
        raise ValueError(f"freq must be whole ticks of 1/{wall.per_second} s, got {frequency}")
    return last + torch.arange(1, steps + 1) * int(step)
