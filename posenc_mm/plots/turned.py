"""Rotations of queries and keys: how scores fall with distance."""

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from posenc_mm.plots.against import against
from posenc_mm.plots.reading import Numbers, checked, kind, numbers, tick_of
from posenc_mm.plots.theme import Theme
from posenc_mm.rotary import RotaryEncoding, Rotation, XPos, rotate

FITS = (
    "encodings that rotate queries and keys (for what is added to tokens: heatmap, similarity; "
    "for biases: bias)"
)


def decay(
    encoding: RotaryEncoding, positions: Tensor, *, unit: str | None = None, theme: str = "light"
) -> Figure:
    r"""Draw how the score of a vector with itself falls as the two turn apart.

    It is the mean over all directions of the vector, relative to distance 0: for pairs that turn,
    the same as for a vector of ones,

    .. math:: s(\Delta) = \frac{1}{F} \sum_i \cos(\Delta \omega_i)

    On one axis with one rotation for all heads, beside it the authors' upper bound: with
    :math:`h_i` the product of pair :math:`i` of a query and a key as complex numbers, and
    :math:`h_F = 0`,

    .. math:: |q \cdot k| \le \max_i |h_{i+1} - h_i| \, F \, u(\Delta), \quad
        u(\Delta) = \frac{1}{F} \sum_{j=1}^{F} |S_j|, \quad
        S_j = \sum_{i < j} e^{\mathrm{i} \Delta \omega_i}

    of which :math:`u` is drawn. For equal pairs it bounds the score itself: :math:`|s| \le u`. The
    query is the last token on one axis, the middle one on a grid, where there is a map per head; on
    more axes the key moves along one at a time.

    References:
        Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding (2021), section
        3.4.3, https://arxiv.org/abs/2104.09864

    Args:
        encoding: any that rotates.
        positions: ``(N, A)``
        unit: what positions count, for the label; tokens, or patches, unless given.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.

    Raises:
        ValueError: another kind of encoding, ``theme`` unknown, or positions are not of one sample.

    Example:
        >>> from posenc_mm import Rotary, sequence
        >>> made = decay(Rotary(64), sequence(129))
        >>> float(made.axes[0].get_lines()[0].get_ydata()[0])
        1.0
    """
    kind(encoding, RotaryEncoding, "decay", FITS)
    positions = checked(positions, encoding)
    bound = upper_bound(encoding, positions) if positions.shape[1] == 1 else None

    def more(panel: Axes, look: Theme, at: Numbers, order: Any) -> None:
        if bound is not None:
            panel.plot(at, bound[order], color=look.lines[1])
            panel.set_ylabel("upper bound, per largest step (no unit)")
            panel.grid(True)

    return against(
        lambda query, keys: scores(encoding, query, keys),
        positions,
        title=f"{type(encoding).__name__}: score of a vector with itself by distance",
        label="score, relative to distance 0 (no unit)",
        tick=tick_of(encoding),
        last=positions.shape[1] == 1,
        more=more if bound is not None else None,
        unit=unit,
        theme=theme,
    )


def scores(encoding: RotaryEncoding, query: Tensor, keys: Tensor) -> Numbers:
    """Mean over directions of a vector's score with itself ``(H, M)``, relative to distance 0."""
    with torch.no_grad():
        of_query, of_keys = _pair(encoding, query, keys)
        here = _trace(*_pair(encoding, query, query))
        return numbers(_trace(of_query, of_keys) / here)


def upper_bound(encoding: RotaryEncoding, positions: Tensor) -> Numbers | None:
    """The bound of :func:`decay` for the last token and each of all ``(N,)``.

    None where heads differ, or what acts is more than a turn of each pair by its own angle.
    """
    with torch.no_grad():
        rotation = encoding(positions)
    more = rotation.basis is not None or rotation.matrices is not None or rotation.side != "both"
    if more or rotation.per_head or rotation.layout == "vjepa2":
        return None
    angle = np.arctan2(numbers(rotation.sin), numbers(rotation.cos))
    sums = np.cumsum(np.exp(1j * (angle[-1:] - angle)), axis=1)
    found: Numbers = np.abs(sums).mean(1)
    return found


def _pair(encoding: RotaryEncoding, query: Tensor, keys: Tensor) -> tuple[Rotation, Rotation]:
    if isinstance(encoding, XPos):
        return encoding.pair(query, keys)
    return encoding(query), encoding(keys)


def _trace(of_query: Rotation, of_keys: Rotation) -> Tensor:
    heads = of_keys.cos.shape[-3] if of_keys.per_head else 1
    width = 2 * of_keys.cos.shape[-1] if of_keys.basis is None else of_keys.basis.shape[-1]
    total = torch.zeros(heads, of_keys.cos.shape[-2], dtype=torch.float64)
    for one in torch.eye(width, dtype=torch.float64, device=of_keys.cos.device):
        q, k = (
            rotate(one.expand(1, heads, rotation.cos.shape[-2], width), rotation)
            for rotation in (of_query, of_keys)
        )
        total = total + (q * k).sum(-1)[0].cpu()
    return total
