"""``forecast.png``: what was, what is to come, and a forecast of rows that were held out."""

import datetime
import math
import textwrap
import warnings
import zoneinfo
from pathlib import Path
from typing import NamedTuple

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from torch import Tensor

from posenc_mm.timestamps import holiday_dates
from posenc_mm.timestamps.zones import offsets_at, to_utc
from timeseries.forecasting.reading import clock

BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#555555", "#009E73"
PANELS = 4
_DAY = 86_400
# Steps that are drawn as a gap are so many times as long as the others.
_GAP = 5
_MARKED = 60


class Panel(NamedTuple):
    """One column of one series over some time.

    Attributes:
        title: above it.
        past: moments in seconds, and values.
        ahead: moments that are forecast.
        bounds: ``(3, H)`` lower bounds, forecasts and upper bounds.
        real: ``(H,)`` what came, if it did.
    """

    title: str
    past: tuple[Tensor, Tensor]
    ahead: Tensor
    bounds: Tensor
    real: Tensor | None = None


def draw(
    path: Path,
    rows: list[tuple[Panel, Panel]],
    *,
    title: str,
    zone: str | None,
    region: str | None,
    level: float,
) -> None:
    """Draw a row per column: the forecast, and the last one that can be checked.

    Args:
        path: of the picture.
        rows: panels.
        title: above all.
        zone: whose clocks are below, and are marked where they are set.
        region: whose holidays are marked.
        level: of the intervals.
    """
    with matplotlib.rc_context({"font.size": 9, "axes.titlesize": 10}):
        size = 13, 1.3 + 3.1 * len(rows)
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        axes = figure.subplots(len(rows), 2, squeeze=False, width_ratios=(3, 2))
        for panels, places in zip(rows, axes, strict=True):
            for panel, place in zip(panels, places, strict=True):
                _draw(place, panel, zone, level)
                _mark_changes(place, panel, zone)
                if region is not None:
                    _mark_holidays(place, panel, zone, region)
        shown = {}
        for place in axes.flat:
            for handle, label in zip(*place.get_legend_handles_labels(), strict=True):
                shown.setdefault(label, handle)
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=len(shown))
        figure.suptitle("\n".join(textwrap.wrap(title, 150)), fontsize=11)
        with warnings.catch_warnings():
            # Names may be in any script; what the font lacks is drawn as a box.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(path, dpi=130)


def _draw(place: Axes, panel: Panel, zone: str | None, level: float) -> None:
    moments, values = panel.past
    usual = float(moments.diff().median())
    place.plot(*_broken(moments, values, usual), color=GREY, linewidth=1.1, label="past")
    lower, middle, upper = panel.bounds
    ahead, low, high = _broken(panel.ahead, torch.stack((lower, upper)), usual)
    # With an edge, so that a row by itself has an interval too.
    place.fill_between(
        ahead, low, high, color=BLUE, alpha=0.18, linewidth=1.5, label=f"{level:.0%} interval"
    )
    joined = torch.cat((moments[-1:], panel.ahead)), torch.cat((values[-1:], middle))
    place.plot(*_broken(*joined, usual), color=BLUE, linewidth=1.4, label="forecast")
    if len(middle) <= _MARKED:
        place.plot(_dates(panel.ahead), middle, color=BLUE, marker="o", markersize=2.5, linewidth=0)
    if panel.real is not None:
        place.plot(
            *_broken(panel.ahead, panel.real, usual),
            color=ORANGE, linewidth=1.2, linestyle="--", label="what came",
            marker="o" if len(panel.real) <= _MARKED else None, markersize=2.5,
        )  # fmt: skip
    place.axvline(_date(float(moments[-1])), color="black", linewidth=0.6, alpha=0.5)
    place.set_title(panel.title, loc="left")
    place.grid(True, color="#dddddd", linewidth=0.5)
    place.spines[["top", "right"]].set_visible(False)
    locator = AutoDateLocator(minticks=3, maxticks=8, tz=_tz(zone))
    place.xaxis.set_major_locator(locator)
    place.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=_tz(zone)))
    place.margins(x=0.01, y=0.1)


def _broken(moments: Tensor, values: Tensor, usual: float) -> tuple[list[float], ...]:
    """Dates, and values ``(..., N)`` as a list each, with nothing drawn where rows are missing."""
    rows = values.reshape(-1, values.shape[-1])
    after = (moments.diff() > _GAP * usual).nonzero()[:, 0] + 1
    cuts = after.tolist()
    pieces = moments.tensor_split(cuts), rows.tensor_split(cuts, dim=-1)
    dates: list[float] = []
    lines: list[list[float]] = [[] for _ in rows]
    for part, own in zip(*pieces, strict=True):
        if dates:
            dates.append(dates[-1])
        dates += _dates(part)
        for line, piece in zip(lines, own, strict=True):
            line += [math.nan] * (len(line) > 0) + piece.tolist()
    return dates, *lines


def _mark_changes(place: Axes, panel: Panel, zone: str | None) -> None:
    """A line where clocks are set."""
    if zone is None:
        return
    table = clock(zone)
    start, end = float(panel.past[0][0]), float(panel.ahead[-1])
    label = "clocks are set"
    for row, instant in enumerate(table.instants):
        shift = table.offsets[row + 1] - table.offsets[row]
        if start < instant <= end and shift:
            at = _date(instant)
            place.axvline(at, color=ORANGE, linewidth=1.2, linestyle=":", label=label)
            place.annotate(
                f"{shift / 3600:+g} h", (at, 0.02), xycoords=("data", "axes fraction"),
                xytext=(3, 0), textcoords="offset points", color=ORANGE, fontsize=8,
            )  # fmt: skip
            label = "_"


def _mark_holidays(place: Axes, panel: Panel, zone: str | None, region: str) -> None:
    """A band over each holiday."""
    table = clock(zone)
    start, end = float(panel.past[0][0]), float(panel.ahead[-1])
    if end - start > 400 * _DAY:
        return
    years = [
        datetime.datetime.fromtimestamp(one, datetime.timezone.utc).year for one in (start, end)
    ]
    label = f"holiday ({region})"
    for day, _ in holiday_dates(region, years[0], years[1]):
        midnight = datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.timezone.utc)
        civil = torch.tensor([int(midnight.timestamp())])
        first, last = (float(to_utc(civil + ahead, table)[0]) for ahead in (0, _DAY))
        if last > start and first <= end:
            span = _date(max(first, start)), _date(last)
            place.axvspan(*span, color=GREEN, alpha=0.12, linewidth=0, label=label)
            label = "_"


def _tz(zone: str | None) -> datetime.tzinfo:
    if zone is None:
        return datetime.timezone.utc
    try:
        return zoneinfo.ZoneInfo(zone)
    except (ValueError, zoneinfo.ZoneInfoNotFoundError):
        offset = offsets_at(torch.tensor([0]), clock(zone))
        return datetime.timezone(datetime.timedelta(seconds=int(offset)))


def _dates(moments: Tensor) -> list[float]:
    return [_date(one) for one in moments.tolist()]


def _date(moment: float) -> float:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return float(date2num(epoch + datetime.timedelta(seconds=moment)))
