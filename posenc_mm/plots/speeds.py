"""Wavelengths of the pairs of an encoding beside the lengths that a model reads."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from torch import Tensor, nn

from posenc_mm.plots.reading import Numbers, axis_names, counted, durations, numbers, tick_of
from posenc_mm.plots.theme import Theme, figure
from posenc_mm.rotary import Rotary
from posenc_mm.scaling import PerAxis, Unscaled
from posenc_mm.timestamps.units import TICKS_PER_SECOND

_TIMES = {
    "1 ms": 1e-3,
    "1 s": 1.0,
    "1 min": 60.0,
    "1 h": 3600.0,
    "1 day": 86_400.0,
    "1 week": 604_800.0,
    "1 month": 2_629_746.0,
    "1 year": 31_556_952.0,
    "100 years": 3_155_695_200.0,
}


def wavelengths(
    encoding: nn.Module,
    *,
    trained: float | None = None,
    wanted: float | None = None,
    before: nn.Module | None = None,
    unit: str | None = None,
    theme: str = "light",
) -> Figure:
    r"""Draw how far each pair goes for one turn, beside the trained and the wanted length.

    A pair of frequency :math:`\omega` has the wavelength :math:`2 \pi / \lVert \omega \rVert`. One
    above the trained length never turned in full in training: there a model meets angles that it
    has not seen as its input grows. A rotary encoding with a scaling is drawn before and after it.

    References:
        Peng et al.: YaRN: Efficient Context Window Extension of Large Language Models (2023),
        section 3.2, https://arxiv.org/abs/2309.00071

    Args:
        encoding: one with frequencies: rotary, sinusoidal or Fourier.
        trained: length that the model was trained on; that of the scaling unless given.
        wanted: length that it is to read; that which the encoding was made for, or ``trained``
            times the scaling's factor, unless given.
        before: the encoding as it was trained; that without the scaling unless given.
        unit: what positions count, for the label; tokens, or patches, unless given.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure. Pairs that do not turn are left out.

    Raises:
        ValueError: the encoding has no frequencies, a length is not positive, or ``theme`` unknown.

    Example:
        >>> from posenc_mm import Rotary
        >>> from posenc_mm.scaling import YaRN
        >>> made = wavelengths(Rotary(128, scaling=YaRN(4.0, 4096)))
        >>> [line.get_label() for line in made.axes[0].get_lines()]
        ['before', 'after YaRN', 'trained: 4,096', 'wanted: 16,384']
    """
    said = _said(encoding)
    scaling = said.get("scaling")
    if trained is None:
        trained = getattr(scaling, "original_length", None)
    if wanted is None and scaling is not None:
        factor = getattr(scaling, "factor", None)
        wanted = said["length"] or (trained * factor if trained and factor else None)
    for name, length in (("trained", trained), ("wanted", wanted)):
        if length is not None and not 0 < length < math.inf:
            raise ValueError(f"{name} must be a positive length, got {name}={length}")
    before = before or _without(encoding)
    tick = tick_of(encoding)
    with figure(6.8, 4.4, theme) as (made, look):
        axes = made.subplots()
        if before is not None:
            pairs, turns, _ = of_pairs(before)
            axes.plot(
                pairs,
                turns,
                color=look.text,
                marker="o",
                markersize=3,
                linestyle="none",
                label="before",
            )
        after = f"after {type(scaling).__name__}" if scaling is not None else "after"
        draw(axes, look, encoding, after if before is not None else None)
        for name, length, style in (("trained", trained, "dashed"), ("wanted", wanted, "solid")):
            if length is not None:
                label = f"{name}: {_told(length, tick)}"
                axes.axhline(
                    length, color=look.lines[1], linestyle=style, linewidth=1.2, label=label
                )
        axes.set(yscale="log", xlabel="pair of channels (number)")
        if tick:
            as_times(axes, TICKS_PER_SECOND[tick])
        else:
            axes.set_ylabel(f"wavelength ({counted(_matrix(encoding).shape[-2], unit)})")
        if len(axes.get_lines()) > 1 or _matrix(encoding).ndim == 3:
            axes.legend()
        axes.set_title(f"{type(encoding).__name__}: wavelengths of the pairs")
        return made


def draw(axes: Axes, look: Theme, encoding: nn.Module, label: str | None = None) -> None:
    """Draw the pairs of an encoding: a series of points per axis, or per head."""
    matrix = _matrix(encoding)
    alike = matrix.ndim == 3 and all(
        np.allclose(of_pairs(encoding, head)[1], of_pairs(encoding)[1])
        for head in range(len(matrix))
    )
    if matrix.ndim == 3 and not alike:
        for head, colour in enumerate(look.shades(len(matrix))):
            pairs, turns, _ = of_pairs(encoding, head)
            name = f"head {head}" if len(matrix) <= 8 or head in (0, len(matrix) - 1) else "_"
            axes.plot(
                pairs, turns, color=colour, marker="o", markersize=3, linestyle="none", label=name
            )
        return
    pairs, turns, owner = of_pairs(encoding)
    if alike:
        label, matrix = label or f"all {len(matrix)} heads", matrix[0]
    names = (*axis_names(len(matrix)), "several axes")
    colours = [look.lines[0], *look.lines[2:]]  # the second is that of the lengths
    for index in np.unique(owner):
        mine = owner == index
        parts = [label] if label else []
        parts += [names[index]] if len(matrix) > 1 else []
        axes.plot(
            pairs[mine],
            turns[mine],
            color=colours[index % len(colours)],
            marker="o",
            markersize=3.5,
            linestyle="none",
            label=", ".join(parts) or "pairs",
        )


def of_pairs(encoding: nn.Module, head: int = 0) -> tuple[Numbers, Numbers, Numbers]:
    """Numbers of the pairs that turn, their wavelengths, and the axis of each (A for several)."""
    matrix = _matrix(encoding)
    matrix = matrix[head] if matrix.ndim == 3 else matrix
    speed = np.linalg.norm(matrix, axis=0)
    turning = speed > 0
    many = (matrix != 0).sum(0) > 1
    owner = np.where(many, len(matrix), np.abs(matrix).argmax(0))
    lengths: Numbers = 2 * math.pi / speed[turning]
    places: Numbers = np.flatnonzero(turning).astype(np.float64)
    return places, lengths, owner[turning]


def as_times(axes: Axes, per_second: int) -> None:
    """Label wavelengths in ticks by durations that people have names for."""
    names = {length * per_second: name for name, length in _TIMES.items()}
    axes.yaxis.set_major_locator(FixedLocator(list(names)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: names.get(at, "")))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("wavelength (time)")


def has_frequencies(encoding: nn.Module) -> bool:
    """Whether each pair of an encoding has a frequency that is known."""
    found: Any = getattr(encoding, "frequencies", None)
    return found is not None and np.ndim(found.detach() if isinstance(found, Tensor) else found) > 1


def _matrix(encoding: nn.Module) -> Numbers:
    """Frequencies ``(A, F)`` or ``(H, A, F)``, in radians per unit of position."""
    if has_frequencies(encoding):
        found: Any = encoding.frequencies
        return numbers(found) if isinstance(found, Tensor) else np.asarray(found, dtype=float)
    raise ValueError(
        f"wavelengths is for encodings with a frequency for each pair, got "
        f"{type(encoding).__name__}: try decay if it rotates, heatmap if it is added to tokens, "
        f"bias if it is added to logits"
    )


def _told(length: float, tick: str | None) -> str:
    if tick is None:
        return f"{length:,.6g}"
    number, name = durations(np.asarray([length / TICKS_PER_SECOND[tick]]))
    return f"{number[0]:,.6g} {name}"


def _said(encoding: nn.Module) -> dict[str, Any]:
    """What a rotary encoding was made with."""
    return encoding._arguments if isinstance(encoding, Rotary) else {}


def _without(encoding: nn.Module) -> Rotary | None:
    """The encoding as it was trained, if it has a scaling and no allocation of its own."""
    said = _said(encoding)
    if not isinstance(encoding, Rotary) or said["scaling"] is None or said["allocation"]:
        return None
    base = said["base"] or 10_000.0
    plain = PerAxis([Unscaled()] * encoding.axes).frequencies(said["rotary_dim"], base)
    return Rotary(encoding.head_dim, encoding.axes, frequencies=plain)
