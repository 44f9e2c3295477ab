"""Encodings made of encodings: summed, side by side, or multiplied."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.parts import Axes, check_parts, describe, read, reset


class Sum(AdditiveEncoding):
    r"""Adds encodings of one width.

    .. math:: e(p) = \sum_k e_k(p_{S_k})

    Traps: parts of unlike size drown each other: sines reach 1, a learned table starts at 0.02.

    References:
        of embeddings: Zhou et al.: Informer: Beyond Efficient Transformer for Long Sequence
        Time-Series Forecasting (2021), https://arxiv.org/abs/2012.07436

    Args:
        encodings: the parts :math:`e_k`, of one width :math:`D`.
        axes: the axes :math:`S_k` of the positions that each part reads, in its order, a list of
            axis numbers per part; all axes unless given.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``, in the widest dtype of the parts

    Raises:
        ValueError: there is no part, one is no additive encoding, their widths differ, or ``axes``
            are not as said; at the call, positions lack an axis, or a part refuses them.

    Example:
        >>> from posenc_mm import Learned, Sinusoidal, grid
        >>> both = Sum([Sinusoidal(dim=8), Learned(dim=8, sizes=4)], axes=[[0], [1]])
        >>> both(grid(30, 4)).shape
        torch.Size([120, 8])
    """

    def __init__(
        self, encodings: Sequence[AdditiveEncoding], axes: Sequence[Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        self.encodings, self.axes, dims = _parts(encodings, axes)
        if len(set(dims)) > 1:
            raise ValueError(f"encodings must have one dim to be added, got dims {dims}")
        self.dim = dims[0]

    def reset_parameters(self) -> None:
        """Start all parts anew."""
        reset(self.encodings)

    def forward(self, positions: Tensor) -> Tensor:
        parts = _evaluate(self.encodings, self.axes, positions)
        return sum(parts[1:], parts[0])

    def extra_repr(self) -> str:
        return describe("encodings", self.encodings, self.axes)


class Concat(AdditiveEncoding):
    r"""Puts encodings side by side.

    .. math:: e(p) = [e_1(p_{S_1}), \; e_2(p_{S_2}), \ldots]

    Traps: its width is that of the parts together, seldom that of the tokens: :class:`Projected`
    brings it there.

    References:
        side by side: Salinas, Flunkert, Gasthaus: DeepAR: Probabilistic Forecasting with
        Autoregressive Recurrent Networks (2017), https://arxiv.org/abs/1704.04110

    Args:
        encodings: the parts :math:`e_k`.
        axes: the axes :math:`S_k` of the positions that each part reads, in its order, a list of
            axis numbers per part; all axes unless given.

    Shape:
        ``positions (..., N, A) -> (..., N, D)`` with :math:`D` the sum of the widths, in the widest
        dtype of the parts

    Raises:
        ValueError: there is no part, one is no additive encoding, or ``axes`` are not as said; at
            the call, positions lack an axis, or a part refuses them.

    Example:
        >>> from posenc_mm import Fourier, Learned
        >>> Concat([Fourier(dim=6), Learned(dim=2, sizes=4)], axes=[[0], [1]]).dim
        8
    """

    def __init__(
        self, encodings: Sequence[AdditiveEncoding], axes: Sequence[Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        self.encodings, self.axes, dims = _parts(encodings, axes)
        self.dim = sum(dims)

    def reset_parameters(self) -> None:
        """Start all parts anew."""
        reset(self.encodings)

    def forward(self, positions: Tensor) -> Tensor:
        return torch.cat(_evaluate(self.encodings, self.axes, positions), dim=-1)

    def extra_repr(self) -> str:
        return describe("encodings", self.encodings, self.axes)


class Product(AdditiveEncoding):
    r"""Multiplies every channel of each encoding by every channel of the next: interactions.

    .. math:: e(p) = e_1(p_{S_1}) \otimes e_2(p_{S_2}) \otimes \ldots

    No linear map of the parts side by side can say that the course of the day is another one at
    weekends; one of their products can. The channels of the last part run fastest.

    Traps: widths multiply, and no part is left alone: put those beside it, by :class:`Concat`.

    References:
        interactions: Wood: Low-Rank Scale-Invariant Tensor Product Smooths for Generalized Additive
        Mixed Models (2006), https://doi.org/10.1111/j.1541-0420.2006.00574.x

    Args:
        encodings: the parts :math:`e_k`.
        axes: the axes :math:`S_k` of the positions that each part reads, in its order, a list of
            axis numbers per part; all axes unless given.

    Shape:
        ``positions (..., N, A) -> (..., N, D)`` with :math:`D` the product of the widths, in the
        widest dtype of the parts

    Raises:
        ValueError: there is no part, one is no additive encoding, or ``axes`` are not as said; at
            the call, positions lack an axis, or a part refuses them.

    Example:
        >>> from posenc_mm import Fourier, Learned, grid
        >>> Product([Learned(dim=2, sizes=7), Fourier(dim=6)], axes=[[0], [1]])(grid(7, 24)).shape
        torch.Size([168, 12])
    """

    def __init__(
        self, encodings: Sequence[AdditiveEncoding], axes: Sequence[Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        self.encodings, self.axes, dims = _parts(encodings, axes)
        self.dim = math.prod(dims)

    def reset_parameters(self) -> None:
        """Start all parts anew."""
        reset(self.encodings)

    def forward(self, positions: Tensor) -> Tensor:
        result, *others = _evaluate(self.encodings, self.axes, positions)
        for other in others:
            result = (result.unsqueeze(-1) * other.unsqueeze(-2)).flatten(-2)
        return result

    def extra_repr(self) -> str:
        return describe("encodings", self.encodings, self.axes)


def _parts(
    encodings: Sequence[AdditiveEncoding], axes: Sequence[Sequence[int]] | None
) -> tuple[nn.ModuleList, Axes, list[int]]:
    parts, checked = check_parts("encodings", encodings, AdditiveEncoding, axes)
    return nn.ModuleList(parts), checked, [part.dim for part in parts]


def _evaluate(encodings: nn.ModuleList, axes: Axes, positions: Tensor) -> list[Tensor]:
    each = read(positions, axes, len(encodings))
    return [encoding(at) for encoding, at in zip(encodings, each, strict=True)]
