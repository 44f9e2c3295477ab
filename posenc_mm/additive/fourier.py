"""Fourier features of coordinates, added to the tokens: fixed, or learned with an MLP."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Matrix, angles, axial, gaussian, linear, octaves
from posenc_mm.layouts import check_layout


class Fourier(AdditiveEncoding):
    r"""Fixed Fourier features: cosine and sine of projected coordinates.

    .. math:: e(p) = [\cos(\omega^\top p), \; \sin(\omega^\top p)]

    The bands say which frequencies: ``"gaussian"`` draws directions and speeds at random (Tancik et
    al.); ``"linear"`` spaces each axis's evenly from :math:`\pi` to :math:`\sigma \pi` (Perceiver,
    where :math:`\sigma` is half the resolution); ``"octaves"`` doubles each axis's from
    :math:`\sigma \pi` on (NeRF). All are meant for coordinates from -1 to 1, as
    :func:`posenc_mm.normalised_grid` gives them. Nothing is learned or stored.

    Traps: at patch indices, in place of -1 to 1, a scale is many times too sharp. Another ``seed``
    is another encoding, which trained weights do not know. Codes differ in whether sines or cosines
    come first.

    References:
        Tancik et al.: Fourier Features Let Networks Learn High Frequency Functions in Low
        Dimensional Domains (2020), https://arxiv.org/abs/2006.10739;
        Mildenhall et al.: NeRF (2020), https://arxiv.org/abs/2003.08934;
        Jaegle et al.: Perceiver (2021), https://arxiv.org/abs/2103.03206

    Args:
        dim: width :math:`D`: even, and for linear bands and octaves a multiple of ``2 * axes``.
        axes: number of axes :math:`A`.
        bands: ``"gaussian"``, ``"linear"`` or ``"octaves"``.
        scale: :math:`\sigma`, in cycles per unit for Gaussian bands; see above for the others.
        seed: of the random draw; the same features on every machine.
        layout: ``"half"`` puts all cosines first, then all sines; ``"interleaved"`` puts cosine and
            sine of a frequency side by side.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``, in float64 where the positions are, else float32

    Raises:
        ValueError: ``dim`` does not divide as said, ``scale`` is not positive, ``bands`` or
            ``layout`` unknown; at the call, positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import normalised_grid
        >>> Fourier(dim=16, axes=2, scale=4.0)(normalised_grid(3, 5)).shape
        torch.Size([15, 16])
    """

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        *,
        bands: str = "gaussian",
        scale: float = 1.0,
        seed: int = 0,
        layout: str = "half",
    ) -> None:
        super().__init__()
        check_layout(layout)
        self.frequencies = _bands(dim, axes, bands, scale, seed)
        self.dim, self.axes, self.bands = dim, axes, bands
        self.scale, self.seed, self.layout = float(scale), seed, layout

    def forward(self, positions: Tensor) -> Tensor:
        theta = angles(positions, self.frequencies)
        if self.layout == "half":
            return torch.cat((theta.cos(), theta.sin()), dim=-1)
        return torch.stack((theta.cos(), theta.sin()), dim=-1).flatten(-2)

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, axes={self.axes}, bands={self.bands!r}, scale={self.scale}, "
            f"seed={self.seed}, layout={self.layout!r}"
        )


class LearnedFourier(AdditiveEncoding):
    r"""Learned Fourier features, mixed by a small network.

    .. math:: e(p) = W_2 \, \mathrm{GELU}(W_1 r(p) + b_1) + b_2, \quad
        r(p) = (2F)^{-1/2} [\cos(\omega^\top p), \; \sin(\omega^\top p)], \quad
        \omega \sim \mathcal{N}(0, \sigma^2)

    The authors' :math:`\gamma` is :math:`1 / \sigma`. The frequencies are learned too; meant for
    coordinates from -1 to 1, or in units that make :math:`\sigma` about the wanted sharpness.

    Traps: the scale is in radians, where Gaussian bands of :class:`Fourier` count cycles, 6.28
    times as much. Weight decay on the frequencies blurs the encoding: leave them out of it.

    References:
        Li, Si, Li, Hsieh, Bengio: Learnable Fourier Features for Multi-Dimensional Spatial
        Positional Encoding (2021), https://arxiv.org/abs/2106.02795

    Args:
        dim: width :math:`D`.
        axes: number of axes :math:`A`.
        features: number of Fourier features :math:`2F`, even; ``dim`` rounded up to even unless
            given.
        hidden: width of the network's hidden layer; ``dim`` unless given.
        scale: :math:`\sigma`, in radians per unit of position.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``, in the parameters' dtype

    Raises:
        ValueError: a width is below 1, ``features`` odd, or ``scale`` not positive; at the call,
            positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import normalised_grid
        >>> LearnedFourier(dim=12, axes=2)(normalised_grid(3, 5)).shape
        torch.Size([15, 12])
    """

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        *,
        features: int | None = None,
        hidden: int | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        check_whole(dim=dim, axes=axes, hidden=dim if hidden is None else hidden)
        check_number(above=True, scale=scale)
        self.dim, self.axes, self.scale = dim, axes, float(scale)
        self.features = dim + dim % 2 if features is None else features
        self.hidden = hidden or dim
        check_whole(2, features=self.features)
        if self.features % 2:
            raise ValueError(f"features must be even, got features={features}")
        check_number(above=True, scale=scale)
        self.frequencies = nn.Parameter(torch.empty(axes, self.features // 2))
        self.mix = nn.Linear(self.features, self.hidden)
        self.project = nn.Linear(self.hidden, dim)
        nn.init.normal_(self.frequencies, std=self.scale)

    def reset_parameters(self) -> None:
        """Draw frequencies and weights anew."""
        nn.init.normal_(self.frequencies, std=self.scale)
        self.mix.reset_parameters()
        self.project.reset_parameters()

    def forward(self, positions: Tensor) -> Tensor:
        theta = angles(positions, self.frequencies)
        features = torch.cat((theta.cos(), theta.sin()), dim=-1) * self.features**-0.5
        mixed: Tensor = self.mix(features.to(self.mix.weight.dtype))
        encoded: Tensor = self.project(functional.gelu(mixed))
        return encoded

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, axes={self.axes}, features={self.features}, hidden={self.hidden}, "
            f"scale={self.scale}"
        )


def _bands(dim: int, axes: int, bands: str, scale: float, seed: int) -> Matrix:
    if bands not in ("gaussian", "linear", "octaves"):
        raise ValueError(f"bands must be 'gaussian', 'linear' or 'octaves', got bands={bands!r}")
    unit = 2 if bands == "gaussian" else 2 * axes
    check_whole(dim=dim, axes=axes)
    if dim % unit:
        raise ValueError(
            f"dim must be a positive multiple of {unit} for {bands} bands, got dim={dim} and "
            f"axes={axes}"
        )
    check_number(above=True, scale=scale)
    check_whole(0, seed=seed)
    if bands == "gaussian":
        return gaussian(dim // 2, axes, scale, seed)
    count = dim // unit
    row = linear(count, math.pi, scale * math.pi) if bands == "linear" else octaves(count)
    return axial(*[[scale * f for f in row] if bands == "octaves" else row] * axes)
