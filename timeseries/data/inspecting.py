"""What a careful person would notice about a series before forecasting it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posenc_mm.timestamps import Frequency, TimeAxis
from timeseries.data.clocks import followed, skipping
from timeseries.data.series import Series
from timeseries.data.weeks import has_five_days, wandering

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FEW = 5
# Below this share of steps of one length there is none to speak of.
_REGULAR = 0.5


class Finding(NamedTuple):
    """Something about a series.

    Attributes:
        level: ``"info"``, or ``"warning"`` where forecasts or encodings may suffer.
        what: in words.
        rows: that it is about, counted from 0; the first few of many.
    """

    level: str
    what: str
    rows: tuple[int, ...] = ()


def inspect(series: Series) -> list[Finding]:
    """Look at stamps and values as a careful person would.

    Args:
        series: to look at, as read.

    Returns:
        How many rows there are, and how far apart; gaps; stamps that come twice; clocks that were
        set, or that values follow and stamps do not; a calendar that the values know nothing of;
        columns that never change.
    """
    return list(_findings(series))


def _findings(series: Series) -> Iterator[Finding]:
    axis = series.axis
    start, end = axis[[0, -1]].isoformat()
    yield Finding(
        "info",
        f"{len(axis):,} rows, {start} to {end}, "
        f"{f'clocks of {axis.zone}' if axis.zone else 'on a clock without a zone'}",
    )
    seconds = axis.seconds().double().numpy()
    again = axis.duplicates()
    if again:
        stamps = ", ".join(axis[again[:_FEW]].isoformat())
        yield Finding(
            "warning",
            f"{_counted(len(again), 'row')} have the stamp of an earlier row: {stamps}",
            tuple(again[:_FEW]),
        )
    if len(np.unique(seconds)) < 3:
        return
    frequency = axis.frequency
    yield from _steps(axis, np.sort(seconds), frequency)
    if frequency.confidence > _REGULAR:
        yield from _clocks(series, seconds, frequency)
        if (frequency.unit, frequency.multiple) == ("day", 1):
            yield from _calendar(series)
    for name, column in zip(series.columns, series.values.T, strict=True):
        if bool((column == column[0]).all()):
            yield Finding("warning", f"column {name!r} is {float(column[0]):g} in every row")


def _steps(axis: TimeAxis, seconds: np.ndarray, frequency: Frequency) -> Iterator[Finding]:
    sure = f"{frequency.evidence} (confidence {frequency.confidence:.0%})"
    steps = np.diff(seconds)
    if frequency.confidence <= _REGULAR:
        typical = float(np.median(steps[steps > 0]))
        yield Finding(
            "warning",
            f"stamps are irregular: {sure}; half of the steps are below {_spoken(typical)}, the "
            f"longest is {_spoken(steps.max())}: where rows are in time tells more than their "
            "number",
            (int(steps.argmax()),),
        )
        return
    yield Finding("info", f"a step is {frequency}: {sure}")
    gaps = axis.gaps()
    if gaps:
        first = "; ".join(f"{gap.missing:,} from {gap.start} to {gap.end}" for gap in gaps[:_FEW])
        more = f" and {len(gaps) - _FEW:,} more" if len(gaps) > _FEW else ""
        longest = max(gaps, key=lambda gap: gap.missing)
        yield Finding(
            "warning",
            f"{_counted(sum(gap.missing for gap in gaps), 'row')} missing in "
            f"{_counted(len(gaps), 'gap')}, at most {longest.missing:,} behind {longest.start}: "
            f"{first}{more}",
            tuple(gap.row for gap in gaps[:_FEW]),
        )


def _clocks(series: Series, seconds: np.ndarray, frequency: Frequency) -> Iterator[Finding]:
    """Clocks that stamps or values go by, though stamps name none that are set."""
    axis = series.axis
    if frequency.of_calendar or frequency.length > 3600 or _is_set(axis):
        return
    step = int(frequency.length)
    clock = skipping(seconds) if axis.zone is None else None
    if clock is not None:
        forward = [change for change in clock.changes if change.shift > 0]
        back = [change for change in clock.changes if change.shift < 0]
        rows = np.searchsorted(np.unique(seconds), [c.reading + clock.at for c in forward]) - 1
        days = _listed([change.day for change in forward])
        if clock.at:
            what = (
                f"an hour is missing on {days}, when clocks were set in {clock}: not the one they "
                "skipped but the next. Stamps passed through such clocks, but do not go by them"
            )
        else:
            twice = f"; {clock.twice} of {len(back)} that they showed twice are there twice"
            what = (
                f"the hours missing on {days} are those that clocks skipped in {clock}"
                f"{twice if clock.twice else ''}: if stamps are of such clocks, read them with "
                f"tz={clock.zones[0]!r}, or the like"
            )
        yield Finding("warning", what, tuple(rows[:_FEW].tolist()))
    order = np.unique(seconds, return_index=True)[1]
    stamps, values = seconds[order], series.values.numpy()[order]
    if step and 3600 % step == 0 and np.ptp(stamps) < 1.1 * step * len(stamps):
        grid = np.arange(stamps[0], stamps[-1] + step, step)
        filled = np.stack([np.interp(grid, stamps, column) for column in values.T], axis=1)
        clock = followed(filled, int(stamps[0]), step)
        if clock is not None:
            days = _listed([change.day for change in clock.changes])
            rows = np.searchsorted(stamps, [change.instant for change in clock.changes])
            yield Finding(
                "warning",
                f"the daily pattern shifts by an hour on {days}, when clocks were set in {clock}, "
                f"but those of the stamps ({axis.zone or 'no zone'}) were not: encodings should go "
                f"by clocks as the values do, such as tz={clock.zones[0]!r}",
                tuple(rows[:_FEW].tolist()),
            )


def _calendar(series: Series) -> Iterator[Finding]:
    """A calendar that values do not go by."""
    values = series.values.numpy()
    quiet = wandering(values, series.axis.field("day_of_week").numpy())
    advice = "stamps seem made up: leave encodings of the calendar out"
    if quiet:
        dates = series.axis[[one.row for one in quiet]].isoformat()
        days = [
            f"{WEEKDAYS[one.weekday]} in {date[:7]}" for one, date in zip(quiet, dates, strict=True)
        ]
        changed = [0] + [n for n in range(1, len(quiet)) if quiet[n][1] != quiet[n - 1][1]]
        yield Finding(
            "warning",
            "the week in the values wanders through the week of the stamps: the day that changes "
            f"least is stamped {_listed([days[n] for n in changed])}; {advice}",
            tuple(quiet[n].row for n in changed[:_FEW]),
        )
    elif len(values) > 60 and has_five_days(values):
        yield Finding(
            "warning",
            "values repeat every 5 rows and not every 7, as working days do, but every day of the "
            f"week has a stamp; {advice}",
        )


def _is_set(axis: TimeAxis) -> bool:
    """Whether the clocks that stamps are shown on were set between the first and the last."""
    if axis.zone is None:
        return False
    offsets = {stamp[-6:] for stamp in axis.isoformat()}
    return len(offsets) > 1


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _FEW} more" if len(words) > _FEW else ""
    return ", ".join(words[:_FEW]) + more


def _spoken(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} seconds"
