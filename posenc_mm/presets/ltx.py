"""Rotary encodings of LTX: fractions of a largest video, one rising ladder, across the heads."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Matrices, geometric, per_head
from posenc_mm.placed import Placed
from posenc_mm.positions import grid
from posenc_mm.rotary import Rotary


def ltx(
    head_dim: int,
    heads: int,
    *,
    fps: float = 25.0,
    stride: tuple[float, float, float] = (8.0, 32.0, 32.0),
    extent: tuple[float, float, float] = (20.0, 2048.0, 2048.0),
    base: float = 10_000.0,
) -> Placed:
    r"""Rotary encoding of LTX-Video: seconds and pixels, as parts of 20 s and 2048 pixels.

    .. math:: \theta_{ai} = \frac{\pi}{2} \, b^{i/(F-1)} \, (2 p_a / P_a - 1), \quad
        p = (8 t / \mathrm{fps}, \, 32 r, \, 32 c), \quad F = \lfloor HD/6 \rfloor

    Speeds rise, and the three axes of each lie side by side, over the width of all heads together:
    slow pairs are in the first heads. What six does not divide is in front and does not turn. The
    positions here are cells from the middle of the extent, with the units in the frequencies: the
    same angles, without the rounding of such parts, by which diffusers' table is off by 3e-3.

    Equal to LTXVideoRotaryPosEmbed of diffusers 0.42.1, computed in float64.

    References:
        HaCohen et al.: LTX-Video: Realtime Video Latent Diffusion (2024),
        https://arxiv.org/abs/2501.00103

    Args:
        head_dim: channels :math:`D` of a head, even.
        heads: number of heads :math:`H`.
        fps: frames per second of the video.
        stride: frames, rows and columns of it in one cell.
        extent: :math:`P`, seconds, rows and columns that count as 1.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` with frequencies of heads, read at cells from the middle.

    Raises:
        ValueError: ``head_dim`` is odd, the width of all heads below 6, or a number not positive.

    Example:
        >>> ltx(64, heads=32).positions(1, 1, 2).tolist()
        [[-31.25, -32.0, -32.0], [-31.25, -32.0, -31.0]]
    """
    cells = _cells(fps, stride, extent)
    encoding = Rotary(
        head_dim, 3, layout="interleaved", frequencies=_across(head_dim, heads, cells, base)
    )
    return Placed(encoding, partial(grid, offset=[-cell / 2 for cell in cells]))


def ltx2(
    head_dim: int,
    heads: int,
    *,
    fps: float = 24.0,
    stride: tuple[int, int, int] = (8, 32, 32),
    extent: tuple[float, float, float] = (20.0, 2048.0, 2048.0),
    base: float = 10_000.0,
    layout: str = "half",
) -> Placed:
    r"""Rotary encoding of LTX-2's videos: that of :func:`ltx` at the middle of what a cell covers.

    .. math:: p = \left( \frac{\max(8 t - 7, 0) + 8 t + 1}{2 \, \mathrm{fps}}, \;
        32 r + 16, \; 32 c + 16 \right)

    The first cell covers one frame, the others eight. Equal to LTX2AudioVideoRotaryPosEmbed of
    diffusers 0.42.1 for ``modality="video"``, computed in float64.

    References:
        HaCohen et al.: LTX-2: Efficient Joint Audio-Visual Foundation Model (2026),
        https://arxiv.org/abs/2601.03233

    Args:
        head_dim: channels :math:`D` of a head, even.
        heads: number of heads :math:`H`.
        fps: frames per second of the video.
        stride: frames, rows and columns of it in one cell.
        extent: :math:`P`, seconds, rows and columns that count as 1.
        base: :math:`b`.
        layout: ``"half"`` (``rope_type="split"`` there) or ``"interleaved"``.

    Returns:
        A :class:`posenc_mm.Rotary` with frequencies of heads, read at cells from the middle.

    Raises:
        ValueError: ``head_dim`` is odd, the width of all heads below 6, a number not positive, or
            ``layout`` unknown.

    Example:
        >>> placed = ltx2(64, heads=32)
        >>> (placed.positions(3, 1, 1)[:, 0] + 30).tolist()  # 1/16 of a cell, then 5/8, 1 5/8
        [0.0625, 0.625, 1.625]
    """
    cells = _cells(fps, stride, extent)
    encoding = Rotary(head_dim, 3, layout=layout, frequencies=_across(head_dim, heads, cells, base))
    return Placed(encoding, partial(_middles, cells=cells, stride=stride[0]))


def _cells(fps: float, stride: Sequence[float], extent: Sequence[float]) -> tuple[float, ...]:
    """How many cells there are in the extent of each axis."""
    check_number(above=True, fps=fps)
    for name, values in (("stride", stride), ("extent", extent)):
        for value in values:
            check_number(above=True, **{name: value})
        if len(values) != 3:
            raise ValueError(f"{name} must be 3 numbers, got {name}={values}")
    return tuple(
        long * unit / step for long, unit, step in zip(extent, (fps, 1, 1), stride, strict=True)
    )


def _across(head_dim: int, heads: int, cells: Sequence[float], base: float) -> Matrices:
    """Rising speeds in radians per cell, the axes of each side by side, over all heads."""
    check_whole(2, head_dim=head_dim)
    check_whole(heads=heads)
    width = head_dim * heads
    if head_dim % 2 or width < 6:
        raise ValueError(
            f"head_dim must be even, and 6 or more in all heads, got head_dim={head_dim} and "
            f"heads={heads}"
        )
    rising = [math.pi / 2 * f for f in geometric(width // 6, 1 / base, endpoint=True)]
    idle = (0.0,) * (width % 6 // 2)
    rows = [
        (*idle, *[f * 2 / cell if axis == own else 0.0 for f in rising for own in range(3)])
        for axis, cell in enumerate(cells)
    ]
    return per_head(rows, heads)


def _middles(
    frames: int,
    height: int,
    width: int,
    *,
    cells: Sequence[float],
    stride: int,
    device: torch.device | str | None = None,
) -> Tensor:
    offset = (1 / stride - 0.5, 0.5, 0.5)
    time, row, column = grid(frames, height, width, offset=offset, device=device).unbind(-1)
    # A causal codec gives the first frame a cell of its own.
    time = time.clamp(min=0.5 / stride)
    each = zip((time, row, column), cells, strict=True)
    return torch.stack([at - cell / 2 for at, cell in each], dim=-1)
