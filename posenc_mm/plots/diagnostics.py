"""What diagnostics found: attention by distance, loss by context, change by shift."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from posenc_mm.checks import check_whole
from posenc_mm.diagnostics import (
    ContentShift,
    Distances,
    EffectiveContext,
    LayerDistances,
    PositionShift,
)
from posenc_mm.plots.reading import Numbers, numbers
from posenc_mm.plots.theme import Theme, figure, grid_of

_ROUNDING = 2.0**-23


def attention_by_distance(
    found: Distances, *, unit: str = "tokens", most: int = 15, theme: str = "light"
) -> Figure:
    """Draw how far each head looks: its mean distance, and for each layer its share by distance.

    References:
        Dosovitskiy et al.: An Image Is Worth 16x16 Words: Transformers for Image Recognition at
        Scale (2021), figure 7, https://arxiv.org/abs/2010.11929

    Args:
        found: of :func:`posenc_mm.diagnostics.attention_by_distance`.
        unit: what positions count.
        most: layers that get a panel of their own, evenly chosen.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure. Its first panel has all layers, each other one a layer.

    Raises:
        ValueError: ``most`` is below 1, or ``theme`` is unknown.

    Example:
        >>> import torch
        >>> from posenc_mm import sequence
        >>> from posenc_mm.diagnostics import AttentionMap
        >>> from posenc_mm.diagnostics import attention_by_distance as sort
        >>> even = AttentionMap("blocks.0", torch.full((1, 2, 4, 4), 0.25))
        >>> attention_by_distance(sort([even], sequence(4))).axes[0].get_ylabel()
        'mean distance (tokens)'
    """
    check_whole(most=most)
    layers = found.layers
    chosen = sorted({round(i) for i in np.linspace(0, len(layers) - 1, min(len(layers), most))})
    rows, columns = grid_of(len(chosen) + 1)
    with figure(3.1 * columns + 0.4, 2.6 * rows + 0.4, theme) as (made, look):
        panels = made.subplots(rows, columns, squeeze=False).flatten()
        _means(panels[0], look, layers, unit)
        edges = numbers(found.edges)
        for panel, index in zip(panels[1:], chosen, strict=False):
            _shares(panel, look, layers[index], edges)
            panel.set(title=f"{index + 1}: {_short(layers[index].layer)}")
            panel.set_xlabel(f"distance ({unit})")
        for panel in panels[1:]:
            if panel.get_subplotspec().is_first_col() or panel is panels[1]:
                panel.set_ylabel("share of the attention")
        for panel in panels[len(chosen) + 1 :]:
            panel.remove()
        left = f", {len(chosen)} of {len(layers)} layers" if len(chosen) < len(layers) else ""
        made.suptitle(f"How far each head attends{left}")
        return made


def effective_context(found: EffectiveContext, *, theme: str = "light") -> Figure:
    """Draw the loss of the same tokens by how many others the model saw before them.

    References:
        Khandelwal, He, Qi, Jurafsky: Sharp Nearby, Fuzzy Far Away: How Neural Language Models Use
        Context (2018), https://arxiv.org/abs/1805.04623

    Args:
        found: of :func:`posenc_mm.diagnostics.effective_context`.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure of one panel.

    Raises:
        ValueError: ``theme`` is unknown.

    Example:
        >>> import torch
        >>> from posenc_mm.diagnostics import EffectiveContext
        >>> found = EffectiveContext((1, 2, 4), torch.tensor([3.0, 2.0, 1.99]), 0.01, 2, 16)
        >>> effective_context(found).axes[0].get_title()
        'Effective context: 2 tokens'
    """
    losses, contexts = numbers(found.losses), np.asarray(found.contexts, dtype=float)
    with figure(5.6, 3.8, theme) as (made, look):
        axes = made.subplots()
        most = losses[-1] * (1 + found.tolerance)
        within = f"within {100 * found.tolerance:g} % of the longest context"
        axes.axhspan(losses[-1], most, color=look.lines[2], alpha=0.25, linewidth=0, label=within)
        axes.axvline(found.effective, color=look.lines[1], linestyle="dashed", label="effective")
        axes.plot(contexts, losses, "o-", color=look.lines[0], markersize=4, label="loss")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(_apart(contexts)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set(
            xlabel="context (tokens)",
            ylabel=f"loss of {found.counted} tokens (nats)",
            title=f"Effective context: {found.effective} token{'s' * (found.effective > 1)}",
        )
        axes.grid(True)
        axes.legend(framealpha=1.0)
        return made


def shift(
    found: PositionShift | ContentShift, *, unit: str = "tokens", theme: str = "light"
) -> Figure:
    """Draw the shift test: the change at each offset of positions, or at each move of contents.

    Args:
        found: of :func:`posenc_mm.diagnostics.shift_positions` or
            :func:`posenc_mm.diagnostics.shift_contents`.
        unit: what positions count; contents move by patches.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure of one panel.

    Raises:
        ValueError: ``found`` is neither, or ``theme`` is unknown.

    Example:
        >>> import torch
        >>> found = PositionShift((1, 2), torch.tensor([0.0, 1e-7]))
        >>> shift(found).axes[0].get_xlabel()
        'offset of all positions (tokens)'
    """
    if not isinstance(found, (PositionShift, ContentShift)):
        raise ValueError(
            f"found must be what shift_positions or shift_contents gives, got {found!r}"
        )
    with figure(5.6, 3.8, theme) as (made, look):
        axes = made.subplots()
        if isinstance(found, PositionShift):
            _positions(axes, look, found, unit)
        else:
            _contents(axes, look, found)
        axes.grid(True, axis="y")
        axes.legend(framealpha=1.0)
        return made


def _means(axes: Axes, look: Theme, layers: tuple[LayerDistances, ...], unit: str) -> None:
    depth = np.arange(1, len(layers) + 1)
    for number, layer in zip(depth, layers, strict=True):
        means = numbers(layer.mean)
        # Heads of a layer stand side by side, so that none hides another.
        at = number + (np.linspace(-0.2, 0.2, len(means)) if len(means) > 1 else np.zeros(1))
        axes.scatter(at, means, s=14, c=look.shades(len(means)), zorder=3)
    even = [layer.even_mean for layer in layers]
    ends = np.concatenate(([depth[0] - 0.4], depth, [depth[-1] + 0.4]))
    axes.plot(
        ends, [even[0], *even, even[-1]], color=look.text, linestyle="dashed", linewidth=1.0,
        label="even attention",
    )  # fmt: skip
    axes.set(xlabel="layer", ylabel=f"mean distance ({unit})", title="a point per head, in order")
    highest = max(*even, *(float(layer.mean.max()) for layer in layers))
    axes.set_ylim(0.0, 1.3 * highest or 1.0)
    axes.set_xlim(ends[0], ends[-1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.grid(True, axis="y")
    axes.legend(loc="upper right", fontsize=7.5, borderaxespad=0.2)


def _shares(axes: Axes, look: Theme, layer: LayerDistances, edges: Numbers) -> None:
    shares = numbers(layer.mass)
    for colour, share in zip(look.shades(len(shares)), shares, strict=True):
        axes.stairs(share, edges, color=colour, linewidth=1.3, baseline=None)
    axes.stairs(
        numbers(layer.even), edges, color=look.text, linestyle="dashed", linewidth=1.0,
        baseline=None,
    )  # fmt: skip
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(edges[0], edges[-1])
    axes.grid(True, axis="y")


def _short(name: str) -> str:
    """The end of a long name, which tells layers apart."""
    return name if len(name) <= 26 else f"…{name[-25:]}"


def _apart(contexts: Numbers) -> list[float]:
    """Contexts whose numbers do not run into each other on the axis, the longest among them."""
    kept: list[float] = []
    for context in contexts[::-1]:
        if not kept or context < kept[-1] / 1.4:
            kept.append(float(context))
    return kept


def _positions(axes: Axes, look: Theme, found: PositionShift, unit: str) -> None:
    offsets, changes = np.asarray(found.offsets, dtype=float), numbers(found.changes)
    axes.axhline(
        _ROUNDING, color=look.text, linestyle="dashed", linewidth=1.0, label="rounding of float32"
    )
    axes.plot(
        offsets, changes, "o-", color=look.lines[0], markersize=4, label="change", clip_on=False
    )
    if (offsets > 0).all():
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_yscale("symlog", linthresh=_ROUNDING / 10, linscale=0.5)
    axes.set_ylim(0.0, max(1.0, 2.0 * float(changes.max())))
    axes.yaxis.set_major_locator(FixedLocator([0.0, *(10.0**k for k in range(-7, 3))]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set(
        xlabel=f"offset of all positions ({unit})",
        ylabel="relative change of the output",
        title="Positions moved, contents the same",
    )


def _signed(step: int) -> str:
    return f"{step:+d}".replace("-", "−") if step else "0"


def _contents(axes: Axes, look: Theme, found: ContentShift) -> None:
    at = np.arange(len(found.moves))
    axes.bar(at, numbers(found.errors), 0.6, color=look.lines[0], label="features moved along")
    axes.hlines(
        numbers(found.stayed), at - 0.3, at + 0.3, color=look.lines[1], linewidth=2.0,
        label="features where they were",
    )  # fmt: skip
    axes.set_xticks(at, [f"{_signed(row)}, {_signed(column)}" for row, column in found.moves])
    axes.tick_params(axis="x", rotation=45 if len(at) <= 12 else 90)
    axes.set_ylim(0.0, 1.35 * max(float(found.stayed.max()), float(found.errors.max()), 1e-6))
    axes.set(
        xlabel="move of the contents (rows, columns of patches)",
        ylabel="relative difference of features",
        title="Contents moved: do features move along?",
    )
