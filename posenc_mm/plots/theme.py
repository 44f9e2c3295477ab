"""How every picture looks, on light and on dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

# Okabe and Ito's colours, those first that stand out most from the background.
_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1A1A1A")
_DARK = ("#56B4E9", "#E69F00", "#2FBF93", "#F0E442", "#CC79A7", "#E8743B", "#F2F2F2")


class Theme(NamedTuple):
    """The colours of a picture.

    Attributes:
        name: ``"light"`` or ``"dark"``.
        background: of the figure and its panels.
        text: of titles, labels and ticks.
        faint: of grid lines, frames and whatever must not catch the eye.
        lines: colours for lines and points, safe for the colour-blind.
        sequence: colours for numbers from low to high.
        signed: colours for numbers on both sides of zero, which has the background's.
    """

    name: str
    background: str
    text: str
    faint: str
    lines: tuple[str, ...]
    sequence: Colormap
    signed: Colormap

    def shades(self, count: int) -> list[Any]:
        """Give lines that have an order a colour each, all of them seen on the background.

        Args:
            count: number of lines.

        Returns:
            The colours, from the first line to the last.
        """
        if count <= len(self.lines):
            return list(self.lines[:count])
        colours = self.ramp()
        return [colours(index / (count - 1)) for index in range(count)]

    def ramp(self) -> Colormap:
        """Colours from low to high without those that would vanish in the background."""
        low, high = (0.0, 0.75) if self.name == "light" else (0.25, 1.0)
        colours = [self.sequence(low + (high - low) * step / 63) for step in range(64)]
        return LinearSegmentedColormap.from_list(f"{self.name} ramp", colours)


THEMES = {
    "light": Theme(
        "light",
        "#FFFFFF",
        "#1A1A1A",
        "#C8C8C8",
        _LIGHT,
        matplotlib.colormaps["viridis"],
        matplotlib.colormaps["RdBu_r"],
    ),
    "dark": Theme(
        "dark",
        "#14161A",
        "#E8E8E8",
        "#4A4E57",
        _DARK,
        matplotlib.colormaps["viridis"],
        LinearSegmentedColormap.from_list(
            "posenc_mm dark", ["#B5DCFF", "#3F8FD2", "#14161A", "#D9702B", "#FFD2A8"]
        ),
    ),
}


def theme_of(theme: str) -> Theme:
    """Find a theme by its name.

    Args:
        theme: ``"light"`` or ``"dark"``.

    Returns:
        Its colours.

    Raises:
        ValueError: there is none of that name.
    """
    if theme not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(map(repr, THEMES))}, got {theme!r}")
    return THEMES[theme]


@contextmanager
def figure(
    width: float, height: float, theme: str = "light", *, dpi: int = 120
) -> Iterator[tuple[Figure, Theme]]:
    """Make an empty figure; what is drawn on it within the context has the theme's colours.

    Nothing of matplotlib's own settings is left changed, and pyplot knows nothing of the figure.

    Args:
        width: in inches.
        height: in inches.
        theme: ``"light"`` or ``"dark"``.
        dpi: pixels per inch.

    Yields:
        The figure and its colours.

    Raises:
        ValueError: there is no such theme.

    Example:
        >>> with figure(5, 3, "dark") as (made, look):
        ...     line = made.subplots().plot([0, 1], color=look.lines[0])
        >>> made.get_facecolor()[0] < 0.1
        True
    """
    look = theme_of(theme)
    with matplotlib.rc_context(_settings(look)):
        made = Figure(figsize=(width, height), dpi=dpi)
        made.set_layout_engine("constrained", w_pad=0.07, h_pad=0.07, wspace=0.03)
        yield made, look


def limits(values: Any) -> Normalize:
    """Scale colours for signed numbers: zero in the middle, the largest at an end.

    Args:
        values: an array, numbers that are not finite left out.

    Returns:
        A scale for :attr:`Theme.signed`.
    """
    finite = np.abs(np.asarray(values, dtype=float))
    finite = finite[np.isfinite(finite)]
    most = float(finite.max()) if finite.size else 0.0
    most = most or 1.0
    return Normalize(-most, most)


def grid_of(count: int, most: int = 4) -> tuple[int, int]:
    """Arrange panels in rows and columns, as evenly as can be.

    Args:
        count: number of panels.
        most: columns at most.

    Returns:
        Rows and columns.
    """
    rows = -(-count // most)
    return rows, -(-count // rows)


def _settings(look: Theme) -> Any:
    text = dict.fromkeys(
        (
            "text.color",
            "axes.labelcolor",
            "axes.titlecolor",
            "xtick.labelcolor",
            "ytick.labelcolor",
        ),
        look.text,
    )
    background = dict.fromkeys(
        ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"),
        look.background,
    )
    faint = dict.fromkeys(
        ("axes.edgecolor", "grid.color", "legend.edgecolor", "xtick.color", "ytick.color"),
        look.faint,
    )
    return {
        **text,
        **background,
        **faint,
        "font.family": ["sans-serif"],
        "font.size": 9.0,
        "axes.titlesize": 10.0,
        "axes.labelsize": 9.0,
        "xtick.labelsize": 8.0,
        "ytick.labelsize": 8.0,
        "figure.titlesize": 11.0,
        "legend.fontsize": 8.0,
        "axes.grid": False,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.linewidth": 1.6,
        "image.interpolation": "nearest",
        "axes.prop_cycle": cycler(color=look.lines),
    }
