"""Encodings brought to the width of the tokens by a learned linear map."""

from collections.abc import Sequence

from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.additive.combining import Concat
from posenc_mm.checks import check_number, check_whole
from posenc_mm.tables import draw_entries


class Projected(AdditiveEncoding):
    r"""Brings encodings to the width of the tokens by a learned linear map.

    .. math:: e(p) = W \, [e_1(p_{S_1}), \; e_2(p_{S_2}), \ldots] + b

    The features themselves are as exact as their encodings make them, whatever dtype the map has,
    and are rounded to that once.

    Traps: what is far larger than the other features (moments, a line far from its origin) drowns
    them at the start of training: bring all to about 1.

    References:
        to a width: Zhou et al.: Informer: Beyond Efficient Transformer for Long Sequence
        Time-Series Forecasting (2021), https://arxiv.org/abs/2012.07436

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
