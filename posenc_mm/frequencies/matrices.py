"""Frequencies over several axes, from one row per axis or drawn at random."""

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.frequencies.rows import TWO_PI, Row, geometric

Matrix = tuple[Row, ...]


def gaussian(count: int, axes: int, scale: float = 1.0, seed: int = 0) -> Matrix:
    r"""Draw directions and speeds at random.

    .. math:: \omega_{af} \sim 2 \pi \, \mathcal{N}(0, \sigma^2)

    References:
        Tancik et al.: Fourier Features Let Networks Learn High Frequency Functions in Low
        Dimensional Domains (2020),
        https://arxiv.org/abs/2006.10739

    Args:
        count: number of frequencies :math:`F`.
        axes: number of axes :math:`A`.
        scale: :math:`\sigma`, in cycles per unit of position.
        seed: of the draw; the same numbers on every machine and device.

    Returns:
        ``(A, F)``

    Raises:
        ValueError: ``count`` is negative, ``axes`` below 1, or ``scale`` not positive.

    Example:
        >>> gaussian(2, axes=1, seed=3) == gaussian(2, axes=1, seed=3)
        True
    """
    check_whole(0, count=count)
    check_whole(axes=axes)
    check_whole(0, seed=seed)
    if not scale > 0 or not math.isfinite(scale):
        raise ValueError(f"scale must be positive and finite, got scale={scale}")
    draw = random.Random(seed)
    return tuple(
        tuple(TWO_PI * scale * draw.gauss(0.0, 1.0) for _ in range(count)) for _ in range(axes)
    )


def axial(*rows: Sequence[float]) -> Matrix:
    """Give each axis frequencies of its own, side by side.

    Args:
        rows: the frequencies of each axis, in axis order; lengths may differ.

    Returns:
        ``(A, F)``, block-diagonal, with :math:`F` the sum of the lengths.

    Raises:
        ValueError: no row is given.

    Example:
        >>> axial((1.0, 0.1), (3.0,))
        ((1.0, 0.1, 0.0), (0.0, 0.0, 3.0))
    """
    if not rows:
        raise ValueError("rows must hold the frequencies of at least one axis, got none")
    return tuple(
        tuple(float(f) if axis == own else 0.0 for own, row in enumerate(rows) for f in row)
        for axis in range(len(rows))
    )


def mixed(count: int, heads: int, axes: int = 2, base: float = 10.0) -> Tensor:
    r"""Draw the initial frequencies of RoPE-Mixed: an axial ladder, turned at random per head.

    Pair :math:`i` of the block of axis :math:`a` turns at :math:`b^{-iA/F}` along the :math:`a`-th
    direction of a random orthonormal frame of its head.

    References:
        Heo et al.: Rotary Position Embedding for Vision Transformer (2024),
        https://arxiv.org/abs/2403.13298

    Args:
        count: number of frequencies :math:`F`, a multiple of ``axes``.
        heads: number of heads :math:`H`.
        axes: number of axes :math:`A`.
        base: :math:`b`.

    Returns:
        ``(H, A, F)`` in float32, drawn from torch's global generator.

    Raises:
        ValueError: ``count`` is no multiple of ``axes``, or ``heads`` is below 1.

    Example:
        >>> mixed(4, heads=3).shape
        torch.Size([3, 2, 4])
    """
    check_whole(0, count=count)
    check_whole(axes=axes, heads=heads)
    if count % axes:
        raise ValueError(f"count must be a multiple of axes, got count={count} and axes={axes}")
    ladder = torch.tensor(geometric(count // axes, base), dtype=torch.float32, device="cpu")
    normal = torch.randn(heads, axes, axes, dtype=torch.float32, device="cpu")
    frames, triangle = torch.linalg.qr(normal)
    # Uniform over all rotations: the signs of the triangle, then no mirror image.
    frames = frames * triangle.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    frames[..., -1] = frames[..., -1] * torch.linalg.det(frames).unsqueeze(-1)
    frequencies: Tensor = (frames.unsqueeze(-1) * ladder).flatten(-2)
    return frequencies
