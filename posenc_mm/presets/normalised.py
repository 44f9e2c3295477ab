"""Axial rotary encodings of coordinates between -1 and 1, which no size of the grid changes."""

import math
from functools import partial

from posenc_mm.checks import check_number
from posenc_mm.frequencies import axial, geometric, linear
from posenc_mm.frequencies.rows import TWO_PI
from posenc_mm.placed import Placed
from posenc_mm.positions import AugmentedGrid, normalised_grid
from posenc_mm.presets.ladders import check_head
from posenc_mm.rotary import Rotary


def timm_pixel(head_dim: int, *, resolution: float = 224.0, bands: str = "log") -> Placed:
    r"""Rotary encoding with pixel bands: coordinates from -1 to 1, ends included, row first.

    .. math:: f_i = \pi \, (1 + (R/2 - 1) \, i/(F-1)), \quad \text{or } \pi \, (R/2)^{i/(F-1)},
        \quad i = 0 \ldots F - 1, \; F = D/4

    RvT is ``timm_pixel(head_dim, resolution=10, bands="linear")``.

    References:
        Biderman et al.: Rotary Embeddings: A Relative Revolution (2021),
        https://blog.eleuther.ai/rotary-embeddings/

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        resolution: :math:`R`, cells across which the fastest pair still tells neighbours apart
            (timm's ``max_res``).
        bands: ``"log"`` spaces frequencies by a constant ratio, ``"linear"`` evenly.

    Returns:
        A :class:`posenc_mm.Rotary` read at normalised coordinates.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, ``resolution`` not positive, or ``bands``
            unknown.

    Example:
        >>> timm_pixel(64).positions(1, 3)[:, 1].tolist()
        [-1.0, 0.0, 1.0]
    """
    check_head(head_dim)
    check_number(above=True, resolution=resolution)
    if bands not in ("log", "linear"):
        raise ValueError(f"bands must be 'log' or 'linear', got bands={bands!r}")
    count, top = head_dim // 4, resolution / 2
    if bands == "linear":
        row = linear(count, math.pi, math.pi * top)
    else:
        row = tuple(math.pi * f for f in geometric(count, 1 / top, endpoint=True))
    encoding = Rotary(head_dim, 2, layout="interleaved", frequencies=axial(row, row))
    return Placed(encoding, partial(normalised_grid, ends="edges"))


def dinov3(
    head_dim: int,
    *,
    by: str = "axis",
    base: float | None = None,
    periods: tuple[float, float] | None = None,
    shift: float | None = None,
    jitter: float | None = None,
    rescale: float | None = None,
) -> Placed:
    r"""Rotary encoding of DINOv3: periods of normalised coordinates, row first, half layout.

    .. math:: \theta_{ai} = 2 \pi \, p_a / P_i, \quad P_i = b^{4i/D}, \quad \text{or }
        P_{\min} (P_{\max} / P_{\min})^{i/(D/4 - 1)}, \quad i = 0 \ldots D/4 - 1

    The authors draw a shift, a jitter and a rescaling of the coordinates in training. With one of
    these, ``positions`` is an :class:`posenc_mm.positions.AugmentedGrid`, which draws where a call
    says ``training=True``. Their code keeps periods in bfloat16 by default; here they are exact.

    References:
        Siméoni et al.: DINOv3 (2025), https://arxiv.org/abs/2508.10104

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        by: the size that divides coordinates, ``"axis"``, ``"min"`` or ``"max"``.
        base: :math:`b`, 100 unless given.
        periods: :math:`P_{\min}` and :math:`P_{\max}`, both included, in place of ``base``.
        shift: largest shift, in units of the coordinates.
        jitter: largest factor of an axis of its own, at least 1.
        rescale: largest factor that the axes share, at least 1; the published models have 2.

    Returns:
        A :class:`posenc_mm.Rotary` read at normalised coordinates.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, ``by`` unknown, ``base`` and ``periods`` both
            given or not positive, or an augmentation out of range.

    Example:
        >>> placed = dinov3(64, rescale=2.0)
        >>> placed.positions(1, 2)[:, 1].tolist()
        [-0.5, 0.5]
        >>> placed.positions(1, 2, training=True, samples=3).shape
        torch.Size([3, 2, 2])
    """
    check_head(head_dim)
    if by not in ("axis", "min", "max"):
        raise ValueError(f"by must be 'axis', 'min' or 'max', got by={by!r}")
    if periods is None:
        row = geometric(head_dim // 4, 100.0 if base is None else base)
    elif base is None:
        low, high = periods
        check_number(above=True, shortest=low, longest=high)
        row = tuple(f / low for f in geometric(head_dim // 4, high / low, endpoint=True))
    else:
        raise ValueError(
            f"base and periods say the same: give one, got base={base} and periods={periods}"
        )
    row = tuple(TWO_PI * f for f in row)
    encoding = Rotary(head_dim, 2, layout="half", frequencies=axial(row, row))
    positions = partial(normalised_grid, by=by)
    if (shift, jitter, rescale) == (None, None, None):
        return Placed(encoding, positions)
    return Placed(encoding, AugmentedGrid(positions, shift, jitter, rescale))
