"""Readings of a clock on the wall to moments: hours that come twice, hours that never come."""

import torch
from torch import Tensor

from posenc_mm.timestamps.iso import render
from posenc_mm.timestamps.units import TICKS_PER_SECOND
from posenc_mm.timestamps.zones import Zone, to_utc

AMBIGUOUS = ("refuse", "earlier", "later", "infer")


def localise(readings: Tensor, unit: str, zone: Zone, ambiguous: str) -> Tensor:
    """Find the moments at which the clocks of a zone showed each reading.

    Args:
        readings: ``(N,)`` ticks since 1970-01-01T00:00 on those clocks, int64.
        unit: what ticks count.
        zone: the table.
        ambiguous: what a reading means that comes twice, as clocks are set back: the ``"earlier"``
            or the ``"later"`` of the two; ``"infer"`` lets rows tell, which rise but for one step
            back within the hours that come twice; ``"refuse"`` is an error.

    Returns:
        ``(N,)`` ticks since 1970-01-01T00:00 UTC.

    Raises:
        ValueError: a reading that comes twice is refused or cannot be told, or one never comes, as
            clocks were set forward; its row is named.
    """
    if ambiguous not in AMBIGUOUS:
        raise ValueError(
            f"ambiguous must be one of {', '.join(AMBIGUOUS)}, got ambiguous={ambiguous!r}"
        )
    per_second = TICKS_PER_SECOND[unit]
    civil = readings // per_second
    first, last = to_utc(civil, zone)
    never = (first > last).nonzero()
    if len(never):
        row = int(never[0, 0])
        raise ValueError(
            f"stamps must be what clocks in {zone.name} show, got {_text(civil, row)} in row "
            f"{row}, which they never did, set forward over it: leave tz out if the stamps come "
            "from a clock that was never changed"
        )
    twice = first < last
    if twice.any():
        if ambiguous == "refuse":
            _refuse_twice(civil, int(twice.nonzero()[0, 0]), zone, "say which by ambiguous=")
        if ambiguous == "infer":
            first = torch.where(_inferred(readings, civil, twice, zone), last, first)
        elif ambiguous == "later":
            first = last
    return readings + (first - civil) * per_second


def _inferred(readings: Tensor, civil: Tensor, twice: Tensor, zone: Zone) -> Tensor:
    """Which of the readings that come twice are the later ones."""
    later = torch.zeros_like(twice)
    rows = twice.nonzero()[:, 0]
    breaks = (rows.diff() > 1).nonzero()[:, 0] + 1
    for run in rows.tensor_split(breaks):
        steps = readings[run].diff()
        back = (steps < 0).nonzero()[:, 0]
        if not len(back):
            back = (steps == 0).nonzero()[:1, 0]
        if len(back) != 1:
            _refuse_twice(civil, int(run[0]), zone, "and the rows around do not tell which")
        later[run[int(back) + 1 :]] = True
    return later


def _refuse_twice(civil: Tensor, row: int, zone: Zone, advice: str) -> None:
    raise ValueError(
        f"stamps must be what clocks in {zone.name} show once, got {_text(civil, row)} in row "
        f"{row}, which they showed twice, set back: {advice}"
    )


def _text(civil: Tensor, row: int) -> str:
    return render([int(civil[row])], [0], None, "s")[0]
