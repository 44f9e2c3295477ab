"""One pair of a token's channels in the plane: a sinusoid added to it, and the pair turned."""

import math

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from posenc_mm.plots.reading import Numbers, checked, kind, numbers
from posenc_mm.plots.theme import Theme, figure
from posenc_mm.plots.turned import FITS
from posenc_mm.rotary import RotaryEncoding, Rotation, rotate


def plane(
    encoding: RotaryEncoding,
    positions: Tensor,
    *,
    pair: int | None = None,
    token: tuple[float, float] = (1.0, 0.5),
    head: int = 0,
    theme: str = "light",
) -> Figure:
    r"""Draw one pair of a token's channels as its position moves: a sinusoid added, and turned.

    Both panels have the angles :math:`\theta` of the same pair. Left, :math:`(\sin \theta, \cos
    \theta)` is added, as ``Sinusoidal`` does: length and direction change. Right, the encoding
    turns the pair: a rotation keeps the length.

    References:
        Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding (2021), figure 1,
        https://arxiv.org/abs/2104.09864

    Args:
        encoding: any that turns pairs.
        positions: ``(N, A)``
        pair: its number; that which turns nearest to four fifths of a turn unless given.
        token: its two channels :math:`(a, b)` before any position.
        head: whose rotation, where heads have their own.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.

    Raises:
        ValueError: another kind of encoding, one that turns larger blocks than pairs, no such pair
            or head, ``theme`` unknown, or positions are not of one sample.

    Example:
        >>> from posenc_mm import Rotary, sequence
        >>> plane(Rotary(64), sequence(24)).axes[1].get_title()
        'turned: length 1.12 throughout'
    """
    kind(encoding, RotaryEncoding, "plane", FITS)
    positions = checked(positions, encoding)
    pair = _telling(_angles(encoding, positions, head)) if pair is None else pair
    paths = both(encoding, positions, token, pair, head)
    with figure(9.0, 4.4, theme) as (made, look):
        panels = made.subplots(1, 2, sharex=True, sharey=True)
        for panel, path, name in zip(panels, paths, ("added", "turned"), strict=True):
            points = trail(panel, look, token, path)
            panel.set_title(f"{name}: length {_said(np.linalg.norm(path, axis=1))}")
        panels[1].set_ylabel("")
        made.colorbar(points, ax=panels, label="token (number in order)")
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center")
        made.suptitle(f"{type(encoding).__name__}: pair {pair} of a token as its position moves")
        return made


def both(
    encoding: RotaryEncoding, positions: Tensor, token: tuple[float, float], pair: int, head: int
) -> tuple[Numbers, Numbers]:
    """A pair of a token's channels ``(N, 2)`` with a sinusoid added, and turned."""
    angle = _angles(encoding, positions, head)
    if not 0 <= pair < angle.shape[1]:
        raise ValueError(f"pair must be below {angle.shape[1]}, the pairs that turn, got {pair}")
    theta = angle[:, pair]
    added = np.asarray(token, dtype=float) + np.stack((np.sin(theta), np.cos(theta)), -1)
    with torch.no_grad():
        return added, _turned(encoding(positions), token, pair, head)


def trail(
    axes: Axes, look: Theme, token: tuple[float, float] | None, path: Numbers
) -> PathCollection:
    """Draw a pair at each position as a point of the plane, on the circle of the token's length."""
    length = math.hypot(*(path[0] if token is None else token))
    axes.add_patch(Circle((0, 0), length, fill=False, color=look.faint, linestyle=":"))
    for x, y in path if len(path) <= 40 else path[:: len(path) - 1]:
        axes.plot((0, x), (0, y), color=look.faint, linewidth=0.8)
    points = axes.scatter(
        path[:, 0], path[:, 1], c=np.arange(len(path)), cmap=look.ramp(), s=18, zorder=3
    )
    if token is not None:
        axes.plot(
            *token,
            marker="*",
            color=look.lines[1],
            markersize=11,
            linestyle="none",
            zorder=4,
            label="the token without a position",
        )
    axes.set(aspect="equal", xlabel="first channel (no unit)", ylabel="second channel (no unit)")
    return points


def _turned(rotation: Rotation, token: tuple[float, float], pair: int, head: int) -> Numbers:
    """What becomes of a pair at each position ``(N, 2)``, by the encoding's own rotation."""
    pairs = rotation.cos.shape[-1]
    each = pairs // rotation.blocks
    first = {
        "half": pair,
        "interleaved": 2 * pair,
        "axis_half": 2 * each * (pair // each) + pair % each,
    }[rotation.layout]
    second = first + {"half": pairs, "interleaved": 1, "axis_half": each}[rotation.layout]
    heads = rotation.cos.shape[-3] if rotation.per_head else 1
    width = 2 * pairs if rotation.basis is None else rotation.basis.shape[-1]
    x = torch.zeros(heads, width, dtype=torch.float64, device=rotation.cos.device)
    x[:, first], x[:, second] = token
    if rotation.basis is not None:
        # The pair lies in the basis: go there from the channels that the basis makes of them.
        x = (rotation.basis.double() @ x.unsqueeze(-1)).squeeze(-1)
    at = x[None, :, None].expand(1, heads, rotation.cos.shape[-2], width)
    return numbers(rotate(at, rotation)[0, head][:, [first, second]])


def _angles(encoding: RotaryEncoding, positions: Tensor, head: int) -> Numbers:
    """By how much each pair turns ``(N, F)``, where it is pairs that turn."""
    with torch.no_grad():
        rotation = encoding(positions)
    if rotation.matrices is not None or rotation.layout == "vjepa2":
        raise ValueError(
            f"plane is for encodings that turn pairs of channels, got {encoding}: try decay"
        )
    heads = rotation.cos.shape[-3] if rotation.per_head else 1
    if not 0 <= head < heads:
        raise ValueError(f"head must be below {heads}, the heads that turn apart, got head={head}")
    cos, sin = (
        numbers(part[head] if rotation.per_head else part) for part in (rotation.cos, rotation.sin)
    )
    found: Numbers = np.arctan2(sin, cos)
    return found


def _telling(angle: Numbers) -> int:
    turns = np.ptp(np.unwrap(angle, axis=0), axis=0) / (2 * math.pi)
    return int(np.argmin(np.abs(np.log(np.maximum(turns, 1e-9) / 0.8))))


def _said(lengths: Numbers) -> str:
    low, high = f"{lengths.min():.2f}", f"{lengths.max():.2f}"
    return f"{low} throughout" if low == high else f"{low} to {high}"
