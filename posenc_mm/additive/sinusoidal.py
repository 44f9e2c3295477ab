"""Sinusoids of geometrically falling frequency, added to the tokens."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Matrix, angles, axial, geometric
from posenc_mm.layouts import PERMUTED_LAYOUTS, check_layout


class Sinusoidal(AdditiveEncoding):
    r"""Sine and cosine of the position at geometrically falling frequencies, axis by axis.

    .. math:: e_{2i} = \sin(p \, b^{-2i/D}), \quad e_{2i+1} = \cos(p \, b^{-2i/D})

    With several axes each has a block of :math:`D / A` channels to itself, with its own ladder over
    that width. A block of odd width has one cosine fewer than sines. Nothing is learned or stored.

    In 2-D, ``"half"`` on ``grid(height, width)`` is timm's order (sin y, sin x, cos y, cos x),
    ``"interleaved"`` is DETR's (row block, then column block), ``"axis_half"`` is MoCo v3's (sin y,
    cos y, sin x, cos x). Each published order has a name in :mod:`posenc_mm.presets`.

    Traps: published tables differ in the order of channels and in whether the last frequency is
    exactly 1/base: weights that were trained with one of them are wrong with another, without an
    error. Coordinates from 0 to 1 hardly turn at the default ``base``.

    References:
        Vaswani et al.: Attention Is All You Need (2017), https://arxiv.org/abs/1706.03762

    Args:
        dim: width :math:`D`, a multiple of ``axes``.
        axes: number of axes :math:`A`.
        base: :math:`b`, the longest wavelength over :math:`2\pi`; 10,000 unless given.
        layout: ``"interleaved"`` puts sine and cosine of a frequency side by side, axis after axis;
            ``"half"`` puts all sines first, axis after axis, then all cosines; ``"axis_half"`` puts
            an axis's sines, then its cosines, axis after axis.
        endpoint: whether the last frequency of an axis is exactly 1/base (tensor2tensor, fairseq,
            big_vision).
        frequencies: ``(A, F)`` numbers in radians per unit of position, in place of the ladder that
            ``base`` and ``endpoint`` describe, where :math:`F` counts the sines; with
            :func:`posenc_mm.frequencies.tape` this is tAPE, and with the rows of
            :func:`posenc_mm.frequencies.axial` in another order the blocks of the axes are in that
            order. Unless interleaved, there may be more sines than cosines, which then lack the
            slow end.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``, in float64 where the positions are, else float32

    Raises:
        ValueError: ``dim`` is no positive multiple of ``axes``, ``base`` is not positive,
            ``layout`` unknown, or ``frequencies`` of another shape or given with ``base`` or
            ``endpoint``; at the call, positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import sequence
        >>> Sinusoidal(dim=4)(sequence(2))
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        *,
        base: float | None = None,
        layout: str = "interleaved",
        endpoint: bool = False,
        frequencies: Sequence[Sequence[float]] | None = None,
    ) -> None:
        super().__init__()
        check_whole(dim=dim, axes=axes)
        if dim % axes:
            raise ValueError(
                f"dim must be a positive multiple of axes, got dim={dim} and axes={axes}"
            )
        check_layout(layout, PERMUTED_LAYOUTS)
        self.dim, self.axes, self.layout, self.endpoint = dim, axes, layout, endpoint
        block = dim // axes
        pairs = (block + 1) // 2
        self.base: float | None = None
        if frequencies is not None:
            if base is not None or endpoint:
                raise ValueError(
                    f"base and endpoint follow from frequencies: leave them out, got base={base} "
                    f"and endpoint={endpoint}"
                )
            most = pairs if layout == "interleaved" else max(pairs, block - 1)
            self.frequencies = _checked(frequencies, axes, pairs * axes, most * axes)
            return
        base = 10_000.0 if base is None else base
        check_number(above=True, base=base)
        self.base = float(base)
        row = (
            geometric(pairs, base, endpoint=True)
            if endpoint
            else geometric(pairs, base, width=block)
        )
        self.frequencies = axial(*[row] * axes)

    def forward(self, positions: Tensor) -> Tensor:
        theta = angles(positions, self.frequencies)
        theta = theta.reshape(*theta.shape[:-1], self.axes, theta.shape[-1] // self.axes)
        sine, cosine = theta.sin(), theta.cos()
        block = self.dim // self.axes
        if self.layout == "interleaved":
            return torch.stack((sine, cosine), dim=-1).flatten(-2)[..., :block].flatten(-2)
        cosine = cosine[..., : block - sine.shape[-1]]
        if self.layout == "half":
            return torch.cat((sine.flatten(-2), cosine.flatten(-2)), dim=-1)
        return torch.cat((sine, cosine), dim=-1).flatten(-2)

    def extra_repr(self) -> str:
        start = f"dim={self.dim}, axes={self.axes}"
        if self.base is None:
            return f"{start}, layout={self.layout!r}, frequencies={self.frequencies}"
        return f"{start}, base={self.base}, layout={self.layout!r}, endpoint={self.endpoint}"


def _checked(frequencies: Sequence[Sequence[float]], axes: int, least: int, most: int) -> Matrix:
    matrix = tuple(
        tuple(float(f) for f in row) if isinstance(row, Iterable) else () for row in frequencies
    )
    widths = {len(row) for row in matrix}
    fits = len(widths) == 1 and all(least <= w <= most and w % axes == 0 for w in widths)
    if len(matrix) != axes or not fits:
        counts = str(least) if least == most else f"{least} to {most}"
        raise ValueError(
            f"frequencies must be {axes} rows of {counts} numbers, one per sine, got "
            f"frequencies={frequencies}"
        )
    if not all(math.isfinite(f) for row in matrix for f in row):
        raise ValueError(f"frequencies must be finite, got frequencies={matrix}")
    return matrix
