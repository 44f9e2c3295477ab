"""Encodings made of encodings: summed, side by side, multiplied, or projected to a width."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_number, check_whole
from posenc_mm.parts import Axes, check_parts, describe, read, reset
from posenc_mm.tables import draw_entries


class Sum(AdditiveEncoding):
    r"""Adds encodings of one width.

    .. math:: e(p) = \sum_k e_k(p_{S_k})

    References:
        Zhou et al.: Informer: Beyond Efficient Transformer for Long Sequence Time-Series
        Forecasting (2021), https://arxiv.org/abs/2012.07436

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

    References:
        Salinas, Flunkert, Gasthaus: DeepAR: Probabilistic Forecasting with Autoregressive Recurrent
        Networks (2017), https://arxiv.org/abs/1704.04110

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

    References:
        Wood: Low-Rank Scale-Invariant Tensor Product Smooths for Generalized Additive Mixed Models
        (2006), https://doi.org/10.1111/j.1541-0420.2006.00574.x

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


class Projected(AdditiveEncoding):
    r"""Brings encodings to the width of the tokens by a learned linear map.

    .. math:: e(p) = W \, [e_1(p_{S_1}), \; e_2(p_{S_2}), \ldots] + b

    The features themselves are as exact as their encodings make them, whatever dtype the map has,
    and are rounded to that once.

    References:
        Zhou et al.: Informer: Beyond Efficient Transformer for Long Sequence Time-Series
        Forecasting (2021), https://arxiv.org/abs/2012.07436

    Args:
        dim: width :math:`D`.
        encodings: one, or the parts :math:`e_k`.
        axes: the axes :math:`S_k` of the positions that each part reads, in its order, a list of
            axis numbers per part; all axes unless given.
        bias: whether there is a :math:`b`.
        std: standard deviation of the initial weights (normal, truncated at two), with a bias of 0;
            unless given, they start as in :class:`torch.nn.Linear`.

    Attributes:
        features: the parts side by side, a :class:`Concat`.
        width: of the features.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``, in the parameters' dtype

    Raises:
        ValueError: ``dim`` is below 1, ``std`` negative, there is no part, one is no additive
            encoding, or ``axes`` are not as said; at the call, positions lack an axis, or a part
            refuses them.

    Example:
        >>> from posenc_mm import Fourier, Learned, grid
        >>> encoding = Projected(16, [Fourier(dim=6), Learned(dim=2, sizes=4)], axes=[[0], [1]])
        >>> encoding(grid(30, 4)).shape, encoding.features(grid(30, 4)).shape
        (torch.Size([120, 16]), torch.Size([120, 8]))
    """

    def __init__(
        self,
        dim: int,
        encodings: AdditiveEncoding | Sequence[AdditiveEncoding],
        *,
        axes: Sequence[Sequence[int]] | None = None,
        bias: bool = False,
        std: float | None = None,
    ) -> None:
        super().__init__()
        check_whole(dim=dim)
        check_number(std=0.0 if std is None else std)
        parts = [encodings] if isinstance(encodings, AdditiveEncoding) else encodings
        self.features = Concat(parts, axes)
        self.dim, self.width = dim, self.features.dim
        self.bias, self.std = bias, None if std is None else float(std)
        self.project = nn.Linear(self.width, dim, bias=bias)
        self._draw()

    def reset_parameters(self) -> None:
        """Start the map and all parts anew."""
        self.features.reset_parameters()
        self.project.reset_parameters()
        self._draw()

    def forward(self, positions: Tensor) -> Tensor:
        encoded: Tensor = self.project(self.features(positions).to(self.project.weight.dtype))
        return encoded

    def extra_repr(self) -> str:
        return f"dim={self.dim}, {self.features.extra_repr()}, bias={self.bias}, std={self.std}"

    def _draw(self) -> None:
        if self.std is not None:
            draw_entries(self.project.weight, self.std)
            if self.bias:
                nn.init.zeros_(self.project.bias)


def _parts(
    encodings: Sequence[AdditiveEncoding], axes: Sequence[Sequence[int]] | None
) -> tuple[nn.ModuleList, Axes, list[int]]:
    parts, checked = check_parts("encodings", encodings, AdditiveEncoding, axes)
    return nn.ModuleList(parts), checked, [part.dim for part in parts]


def _evaluate(encodings: nn.ModuleList, axes: Axes, positions: Tensor) -> list[Tensor]:
    each = read(positions, axes, len(encodings))
    return [encoding(at) for encoding, at in zip(encodings, each, strict=True)]
