"""Frequencies along one axis, as plain numbers."""

import math

from posenc_mm.checks import check_number, check_whole

Row = tuple[float, ...]

TWO_PI = 2 * math.pi


def geometric(
    count: int, base: float = 10_000.0, *, width: float | None = None, endpoint: bool = False
) -> Row:
    r"""Fall from 1 towards 1/base by a constant ratio.

    .. math:: f_i = b^{-2i/w} \text{ with } w = 2F \text{ unless given,}
        \quad \text{or } f_i = b^{-i/(F-1)} \text{ with the end point}

    References:
        Vaswani et al.: Attention Is All You Need (2017), https://arxiv.org/abs/1706.03762

    Args:
        count: number of frequencies :math:`F`.
        base: :math:`b`, the longest wavelength over :math:`2\pi`.
        width: :math:`w`, the channels over which the exponents run; wider than :math:`2F` keeps
            only the fast part of a ladder.
        endpoint: whether the last frequency is exactly 1/base (tensor2tensor, fairseq, big_vision).

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``count`` is negative, ``base`` or ``width`` not positive, or both ``width`` and
            ``endpoint`` given.

    Example:
        >>> geometric(2)
        (1.0, 0.01)
    """
    check_whole(0, count=count)
    check_number(above=True, base=base)
    if width is not None and (endpoint or not width > 0):
        raise ValueError(
            f"width must be positive and not be given with endpoint, got width={width}"
        )
    if endpoint:
        return tuple(base ** (-i / max(count - 1, 1)) for i in range(count))
    return tuple(base ** (-2 * i / (width or 2 * count)) for i in range(count))


def linear(count: int, low: float, high: float) -> Row:
    r"""Space frequencies evenly from low to high, ends included.

    Pixel bands are :math:`\pi` to :math:`\pi R / 2` on coordinates from -1 to 1, with :math:`R` the
    finest resolution in cells.

    References:
        Jaegle et al.: Perceiver: General Perception with Iterative Attention (2021),
        https://arxiv.org/abs/2103.03206

    Args:
        count: number of frequencies :math:`F`.
        low: the first, in radians per unit of position.
        high: the last, likewise.

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``count`` is negative, or an end is not finite.

    Example:
        >>> linear(3, 1.0, 2.0)
        (1.0, 1.5, 2.0)
    """
    check_whole(0, count=count)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"low and high must be finite, got low={low} and high={high}")
    return tuple(low + (high - low) * i / max(count - 1, 1) for i in range(count))


def harmonics(count: int, period: float) -> Row:
    r"""Multiply the frequency of a period by whole numbers.

    .. math:: f_k = 2 \pi k / P, \quad k = 1 \ldots F

    Args:
        count: number of harmonics :math:`F`.
        period: :math:`P`, in units of position.

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``count`` is negative, or ``period`` not positive.

    Example:
        >>> [round(f, 4) for f in harmonics(2, period=24)]
        [0.2618, 0.5236]
    """
    check_whole(0, count=count)
    check_number(above=True, period=period)
    return tuple(TWO_PI * k / period for k in range(1, count + 1))


def octaves(count: int) -> Row:
    r"""Double from :math:`\pi`: :math:`f_k = 2^k \pi`, for coordinates from -1 to 1.

    References:
        Mildenhall et al.: NeRF: Representing Scenes as Neural Radiance Fields for View Synthesis
        (2020), https://arxiv.org/abs/2003.08934

    Args:
        count: number of octaves :math:`F`.

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``count`` is negative.

    Example:
        >>> [round(f, 4) for f in octaves(3)]
        [3.1416, 6.2832, 12.5664]
    """
    check_whole(0, count=count)
    return tuple(2.0**k * math.pi for k in range(count))


def timescales(count: int, step: float, span: float) -> Row:
    r"""Fall from one radian per step to one radian per span by a constant ratio.

    .. math:: f_i = \frac{1}{s} \left( \frac{s}{S} \right)^{i/(F-1)}

    The same ladder in physical units: the fastest pair tells neighbouring samples apart, the
    slowest does not repeat within :math:`2 \pi` spans, whatever the sampling rate.

    References:
        Vaswani et al.: Tensor2Tensor for Neural Machine Translation (2018),
        https://arxiv.org/abs/1803.07416

    Args:
        count: number of frequencies :math:`F`.
        step: :math:`s`, the shortest timescale, in units of position.
        span: :math:`S`, the longest, likewise; both ends are included.

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``count`` is negative, ``step`` not positive, or ``span`` not above it.

    Example:
        >>> [round(f, 6) for f in timescales(3, step=1.0, span=100.0)]
        [1.0, 0.1, 0.01]
    """
    check_number(above=True, step=step)
    check_number(step, above=True, span=span)
    return tuple(f / step for f in geometric(count, span / step, endpoint=True))


def tape(count: int, length: int) -> Row:
    r"""Stretch Vaswani's ladder to the length of the series: time absolute position encoding.

    .. math:: f_i = 10000^{-2i/d} \, d / L, \quad d = 2F

    Faster on series shorter than the embedding is wide, slower on longer ones, so that products of
    codes fall with distance over the whole series. The length is that of the series encoded, not
    the longest there may be.

    References:
        Foumani, Tan, Webb, Salehi: Improving Position Encoding of Transformers for Multivariate
        Time Series Classification (2023), https://arxiv.org/abs/2305.16642

    Args:
        count: number of frequencies :math:`F`, half the width :math:`d`.
        length: :math:`L`, in positions.

    Returns:
        ``(F,)``, for ``Sinusoidal(dim, frequencies=[tape(dim // 2, length)])``

    Raises:
        ValueError: ``count`` is negative, or ``length`` below 1.

    Example:
        >>> tape(2, length=8)
        (0.5, 0.005)
    """
    check_whole(length=length)
    return tuple(f * 2 * count / length for f in geometric(count))
