"""What is added to the tokens: channel by channel, and how alike two positions are."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.plots.reading import (
    Grid,
    Numbers,
    as_dates,
    axis_names,
    checked,
    counted,
    edges,
    grid_of_tokens,
    kind,
    number_rows,
    numbers,
)
from posenc_mm.plots.theme import Theme, figure, limits

_FITS = (
    "encodings that are added to the tokens (for rotations: decay, plane, wavelengths; for "
    "biases: bias)"
)


def heatmap(
    encoding: AdditiveEncoding,
    positions: Tensor,
    *,
    order: str = "channels",
    unit: str | None = None,
    theme: str = "light",
) -> Figure:
    """Draw what is added at each position: channel across, position down.

    Channels are where the encoding puts them: in ``Sinusoidal``'s default layout fast ones are on
    the left, as in the literature, in a ``"half"`` layout sines are left and cosines right.

    References:
        Vaswani et al.: Attention Is All You Need (2017), https://arxiv.org/abs/1706.03762

    Args:
        encoding: any that is added to the tokens.
        positions: ``(N, A)``
        order: ``"channels"``, or ``"speed"`` to sort them, the fastest on the left: by their
            frequencies, or by how much they change from one token to the next.
        unit: what positions count, for the label; tokens, or patches, unless given.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure. Its first panel's image has the array ``(N, D)``.

    Raises:
        ValueError: another kind of encoding, ``order`` or ``theme`` unknown, or positions are not
            of one sample.

    Example:
        >>> from posenc_mm import Sinusoidal, sequence
        >>> heatmap(Sinusoidal(64), sequence(128)).axes[0].get_ylabel()
        'position (tokens)'
    """
    kind(encoding, AdditiveEncoding, "heatmap", _FITS)
    if order not in ("channels", "speed"):
        raise ValueError(f"order must be 'channels' or 'speed', got order={order!r}")
    positions = checked(positions, encoding)
    with figure(6.5, 4.5, theme) as (made, look):
        axes = made.subplots()
        image = heat(axes, look, encoding, positions, order, unit)
        axes.set_title(f"{type(encoding).__name__}: what is added to each token")
        made.colorbar(image, ax=axes, label="value (no unit)")
        return made


def similarity(
    encoding: AdditiveEncoding,
    positions: Tensor,
    *,
    size: Sequence[int] | None = None,
    most: int = 8,
    unit: str | None = None,
    theme: str = "light",
) -> Figure:
    """Draw how alike what is added at two positions is: the cosine of the angle between them.

    On one axis, all pairs of positions, and the curve of the one in the middle. On a grid, the map
    of maps of the ViT paper: each small map compares one patch with all of them.

    References:
        Dosovitskiy et al.: An Image Is Worth 16x16 Words: Transformers for Image Recognition at
        Scale (2021), figure 7, https://arxiv.org/abs/2010.11929

    Args:
        encoding: any that is added to the tokens.
        positions: ``(N, A)``
        size: rows and columns of tokens that are given row by row, for an encoding that numbers
            patches on one axis; found from positions on two axes.
        most: maps a side at most, evenly chosen; the paper's figure has all.
        unit: what positions count, for the label; tokens, or patches, unless given.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure. Colours run from -1 to 1, or from the least if nothing is
        opposite. A position at which nothing is added has no cosine: it stays grey.

    Raises:
        ValueError: another kind of encoding, ``size`` does not fit, ``most`` is below 1, ``theme``
            unknown, or positions are not of one sample or more than 4,096.

    Example:
        >>> from posenc_mm import Sinusoidal, grid
        >>> similarity(Sinusoidal(64, axes=2), grid(5, 7)).axes[0].get_xlabel()
        'column of the patch (patches)'
    """
    kind(encoding, AdditiveEncoding, "similarity", _FITS)
    if most < 1:
        raise ValueError(f"most must be at least 1, got most={most}")
    positions = checked(positions, encoding, most=4096)
    alike = cosines(encoding, positions)
    title = f"{type(encoding).__name__}: cosine similarity of positions"
    layout = grid_of_tokens(positions, size)
    if layout is not None:
        with figure(6.0, 5.2, theme) as (made, look):
            axes = made.subplots()
            image = maps(axes, look, alike, layout, most, unit)
            axes.set_title(title)
            made.colorbar(image, ax=axes, label="cosine similarity (no unit)")
            return made
    with figure(10.5, 4.2, theme) as (made, look):
        left, right = made.subplots(1, 2, width_ratios=(1.1, 1.0))
        low, high, label, days = edges(positions, encoding, unit)
        shades, norm = _colours(look, alike)
        box = (low, high, high, low)
        image = left.imshow(alike, cmap=shades, norm=norm, extent=box, aspect="auto")
        made.colorbar(image, ax=left, label="cosine similarity (no unit)")
        left.set(xlabel=label, ylabel=label, title="every position with every other")
        middle = len(alike) // 2
        half = (high - low) / len(alike) / 2
        at = np.linspace(low + half, high - half, len(alike))
        right.plot(at, alike[middle], color=look.lines[0])
        right.axhline(0, color=look.faint, linewidth=0.8)
        right.axvline(at[middle], color=look.faint, linewidth=0.8)
        right.set(xlabel=label, ylabel="cosine similarity (no unit)", title="the middle one")
        for axis in (left.xaxis, left.yaxis, right.xaxis) if days else ():
            as_dates(axis)
        made.suptitle(title)
        return made


def heat(
    axes: Axes,
    look: Theme,
    encoding: AdditiveEncoding,
    positions: Tensor,
    order: str = "channels",
    unit: str | None = None,
) -> AxesImage:
    """Draw the image of :func:`heatmap` on a panel."""
    values = _values(encoding, positions)
    where = f"channel ({encoding.layout} layout)" if hasattr(encoding, "layout") else "channel"
    if order == "speed":
        values = values[:, np.argsort(-_speeds(encoding, values), kind="stable")]
        where = "channel, the fastest first"
    low, high, label, days = edges(positions, encoding, unit)
    signed = bool((values < 0).any())
    shades, norm = (look.signed, limits(values)) if signed else (look.sequence, None)
    box = (-0.5, values.shape[1] - 0.5, high, low)
    image = axes.imshow(values, cmap=shades, norm=norm, extent=box, aspect="auto")
    axes.set(xlabel=where, ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if days:
        as_dates(axes.yaxis)
    elif positions.shape[1] > 1:
        number_rows(axes, positions)
    return image


def maps(
    axes: Axes, look: Theme, alike: Numbers, layout: Grid, most: int, unit: str | None = None
) -> AxesImage:
    """Draw the map of maps of :func:`similarity` on a panel."""
    down, across = (_spread(len(side), most) for side in (layout.rows, layout.columns))
    height, width = len(layout.rows), len(layout.columns)
    whole = layout.fold(layout.fold(alike).transpose(1, 2, 0))
    # A line of one cell, without a number, between two maps.
    shape = (len(down) * (height + 1) - 1, len(across) * (width + 1) - 1)
    canvas = np.full(shape, np.nan)
    for i, row in enumerate(down):
        for j, column in enumerate(across):
            top, left = i * (height + 1), j * (width + 1)
            canvas[top : top + height, left : left + width] = whole[:, :, row, column]
    shades, norm = _colours(look, alike)
    image = axes.imshow(canvas, cmap=shades, norm=norm, aspect="equal")
    middles = [
        [i * (n + 1) + (n - 1) / 2 for i in range(len(some))]
        for n, some in ((height, down), (width, across))
    ]
    axes.set_yticks(middles[0], [f"{layout.rows[row]:.3g}" for row in down])
    axes.set_xticks(middles[1], [f"{layout.columns[column]:.3g}" for column in across])
    names = axis_names(2)
    axes.set_ylabel(f"{names[0]} of the patch ({counted(2, unit)})")
    axes.set_xlabel(f"{names[1]} of the patch ({counted(2, unit)})")
    return image


def cosines(encoding: AdditiveEncoding, positions: Tensor) -> Numbers:
    """Cosines of the angles between what is added at all pairs of positions ``(N, N)``."""
    values = _values(encoding, positions)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    unit = np.divide(values, lengths, out=np.full_like(values, np.nan), where=lengths > 0)
    found: Numbers = unit @ unit.T
    return found


def _values(encoding: AdditiveEncoding, positions: Tensor) -> Numbers:
    with torch.no_grad():
        return numbers(encoding(positions))


def _speeds(encoding: AdditiveEncoding, values: Numbers) -> Numbers:
    """One number per channel: frequencies where they are known, else changes between tokens."""
    frequencies, layout = getattr(encoding, "frequencies", None), getattr(encoding, "layout", "")
    if frequencies is not None and layout in ("interleaved", "half"):
        each = np.linalg.norm(np.asarray(frequencies, dtype=float), axis=0)
        if 2 * len(each) == values.shape[1]:
            return np.repeat(each, 2) if layout == "interleaved" else np.tile(each, 2)
    changes: Numbers = np.sqrt(np.square(np.diff(values, axis=0)).sum(0))
    return changes


def _spread(count: int, most: int) -> list[int]:
    """Evenly chosen numbers below ``count``, the first and the last among them."""
    return sorted({round(x) for x in np.linspace(0, count - 1, min(count, most))})


def _colours(look: Theme, alike: Numbers) -> tuple[Colormap, Normalize]:
    """Signed ones if there are opposites, else those that tell apart what there is."""
    least = float(np.nanmin(alike)) if np.isfinite(alike).any() else 0.0
    shades, low = (look.signed, -1.0) if least < -0.01 else (look.sequence, min(least, 0.99))
    return shades.with_extremes(bad=look.faint), Normalize(low, 1.0)
