"""A year on the clocks of a zone: what time it is, seasons, and where clocks are set."""

from datetime import datetime, timezone

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.checks import check_whole
from posenc_mm.plots.reading import DATES, dates, numbers, tick_of
from posenc_mm.plots.theme import Theme, figure, limits
from posenc_mm.timestamps import Zone, phases, zone_of
from posenc_mm.timestamps.units import TICKS_PER_SECOND
from posenc_mm.timestamps.zones import offsets_at

_DAY = 86_400
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PHASES = ("year", "quarter", "month")


def seasons(
    what: str | Zone | AdditiveEncoding, year: int = 2024, *, theme: str = "light"
) -> Figure:
    """Draw a year on the clocks of a zone, with the changes of its clocks.

    Above, the phase of the civil day at each moment, dates across, the time in UTC up: local
    midnight and noon shift where clocks are set. Below, phases of the seasons; or, for an encoding,
    what it says at noon UTC of each day.

    References:
        Taylor, Letham: Forecasting at Scale (2018), https://doi.org/10.1080/00031305.2017.1380080

    Args:
        what: a zone, as :func:`posenc_mm.timestamps.zone_of` reads it; or an encoding of moments
            that has one.
        year: in UTC.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.

    Raises:
        ValueError: no zone of that name, an encoding without a zone, ``year`` is not from 1 to
            9998, or ``theme`` unknown.

    Example:
        >>> made = seasons("Europe/London", 2024)
        >>> [text.get_text() for text in made.axes[0].texts][-2:]
        ['31 Mar, +1 h', '27 Oct, -1 h']
    """
    check_whole(year=year)
    if year > 9998:
        raise ValueError(f"year must be from 1 to 9998, got year={year}")
    zone = _zone(what)
    start, end = (int(datetime(y, 1, 1, tzinfo=timezone.utc).timestamp()) for y in (year, year + 1))
    days = torch.arange(start, end, _DAY) + _DAY // 2
    with figure(9.0, 6.6, theme) as (made, look):
        above, below = made.subplots(2, 1, sharex=True, height_ratios=(1.25, 1.0))
        image = day(above, look, zone, start, end)
        made.colorbar(image, ax=above, label="phase of the day (share passed)", pad=0.01)
        if isinstance(what, AdditiveEncoding):
            drawn = _channels(below, look, what, days)
            made.colorbar(drawn, ax=below, label="value (no unit)", pad=0.01)
        else:
            at, told = dates(days, "s"), numbers(phases(days, _PHASES, zone=zone))
            for column, name in enumerate(_PHASES):
                below.plot(at, told[:, column], color=look.lines[column], label=name)
            below.set(ylabel="phase (share passed)", ylim=(0, 1))
            below.legend(
                loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(_PHASES), frameon=False
            )
        for moment, _ in changes(zone, start, end):
            for panel in (above, below):
                panel.axvline(_date(moment), color=look.lines[1], linewidth=1.2, linestyle="dashed")
        months = DATES.MonthLocator()
        below.xaxis.set_major_locator(months)
        below.xaxis.set_major_formatter(DATES.ConciseDateFormatter(months, show_offset=False))
        below.set_xlabel(f"date (UTC), {year}")
        name = type(what).__name__ + ", " if isinstance(what, AdditiveEncoding) else ""
        made.suptitle(f"{name}{zone.name}: {year} on its clocks")
        return made


def day(axes: Axes, look: Theme, zone: Zone, start: int, end: int) -> AxesImage:
    """Draw what time of the day it is on the wall, over dates and times in UTC."""
    midnights = torch.arange(start, end, _DAY)
    half_hours = torch.arange(900, _DAY, 1800)
    told = numbers(phases(half_hours[:, None] + midnights, ["day"], zone=zone)[..., 0])
    box = (_date(start), _date(end), 0.0, 24.0)
    image = axes.imshow(
        told,
        cmap=matplotlib.colormaps["twilight_shifted"],  # dark at midnight, and no seam there
        norm=Normalize(0, 1),
        extent=box,
        aspect="auto",
        origin="lower",
    )
    steps = [at for at, _ in changes(zone, start, end)]
    moments = torch.cat([midnights, torch.tensor(steps, dtype=midnights.dtype)]).sort().values
    east = torch.as_tensor(offsets_at(moments, zone)).expand(len(moments))
    for hour, colour in ((12, "#1A1A1A"), (0, "#F2F2F2")):
        at = (hour - numbers(east) / 3600) % 24
        # No line from one end of the day to the other.
        at[1:][np.abs(np.diff(at)) > 12] = np.nan
        axes.plot(dates(moments, "s"), at, color=colour, linewidth=1.4, drawstyle="steps-post")
        middle = len(at) // 12
        name = "noon" if hour else "midnight"
        high = at[middle] > 20
        axes.annotate(
            name,
            (_date(int(moments[middle])), at[middle]),
            xytext=(0, -4 if high else 4),
            textcoords="offset points",
            color=colour,
            va="top" if high else "bottom",
            fontsize=8,
        )
    axes.set(ylabel="time of day (UTC, hours)", yticks=range(0, 25, 6))
    for moment, by in changes(zone, start, end):
        on = datetime.fromtimestamp(moment, timezone.utc)
        axes.annotate(
            f"{on.day} {_MONTHS[on.month - 1]}, {'+' if by > 0 else '-'}{abs(by) / 3600:g} h",
            (_date(moment), 24.0),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            annotation_clip=False,
        )
    return image


def changes(zone: Zone, start: int, end: int) -> list[tuple[int, int]]:
    """When clocks are set from ``start`` on, before ``end``, in UTC seconds, and by how much."""
    steps = zip(zone.instants, zone.offsets, zone.offsets[1:], strict=False)
    return [(at, after - was) for at, was, after in steps if start <= at < end]


def _channels(axes: Axes, look: Theme, encoding: AdditiveEncoding, days: Tensor) -> AxesImage:
    ticks = days * TICKS_PER_SECOND[tick_of(encoding) or "s"]
    with torch.no_grad():
        values = numbers(encoding(ticks.unsqueeze(-1))).T
    signed = bool((values < 0).any())
    shades, norm = (look.signed, limits(values)) if signed else (look.sequence, None)
    low, high = (_date(int(at)) for at in (days[0] - _DAY // 2, days[-1] + _DAY // 2))
    box = (low, high, len(values) - 0.5, -0.5)
    axes.set_ylabel("channel, at noon UTC")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return axes.imshow(values, cmap=shades, norm=norm, extent=box, aspect="auto")


def _zone(what: object) -> Zone:
    if isinstance(what, (str, Zone)):
        return zone_of(what)
    if isinstance(what, AdditiveEncoding):
        for module in what.modules():
            if isinstance(zone := getattr(module, "zone", None), Zone):
                return zone
    raise ValueError(
        f"seasons is for a zone, or an encoding that has one, such as Seasonal or Calendar, got "
        f"{what if isinstance(what, (int, float)) else type(what).__name__}"
    )


def _date(moment: int) -> float:
    return float(dates(torch.tensor([moment]), "s")[0])
