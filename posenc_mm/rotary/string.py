"""STRING: rotary encodings whose generators commute, in a learned or a Fourier basis."""

import math

import torch
from torch import Tensor, nn

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import angles, axial, geometric
from posenc_mm.layouts import check_layout
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation

_WITHOUT_FLOAT64 = ("mps",)


class CayleySTRING(RotaryEncoding):
    r"""Turns pairs of channels in a learned orthonormal basis of the channels.

    .. math:: R(p) = P \, \mathrm{RoPE}(p) \, P^\top = \exp \sum_a p_a L_a, \quad
        P = (I - S)(I + S)^{-1}, \quad S^\top = -S

    All :math:`L_a` share the basis and so commute: a score depends on differences of positions
    only, on any number of axes. Queries and keys are both turned by
    :math:`\mathrm{RoPE}(p) P^\top`, since the first factor :math:`P` cancels between them. RoPE is
    :math:`S = 0`, from where this starts; both :math:`S` and the frequencies are learned.

    Traps: :math:`S` starts at 0, where this is RoPE: without training of :math:`S` it stays so, at
    a higher cost. Weight decay on the frequencies slows the turning. At the default ``base`` most
    pairs hardly turn over a picture.

    References:
        Schenck et al.: Learning the RoPEs: Better 2D and 3D Position Encodings with STRING (2025),
        https://arxiv.org/abs/2502.02562

    Args:
        head_dim: channels :math:`D` of a head, a multiple of ``2 * axes``.
        axes: number of axes :math:`A`.
        heads: number of heads :math:`H` that each learn their own; one for all unless given.
        base: of the ladder per axis that the frequencies start from, as in :class:`Rotary`.
        layout: ``"half"`` pairs channels (i, i + F), ``"interleaved"`` pairs (2i, 2i + 1).
        std: standard deviation of the entries that :math:`S` starts from.

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., N, F)``, or ``(..., H, N, F)`` with
        ``heads``

    Raises:
        ValueError: ``head_dim`` does not divide, a number is none or too small, ``layout`` is
            unknown; at the call, positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import grid
        >>> rotation = CayleySTRING(head_dim=16, axes=2)(grid(4, 6))
        >>> rotation.cos.shape, rotation.basis.shape
        (torch.Size([24, 8]), torch.Size([16, 16]))
    """

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        heads: int | None = None,
        base: float = 10_000.0,
        layout: str = "half",
        std: float = 0.0,
    ) -> None:
        super().__init__()
        check_layout(layout)
        check_whole(head_dim=head_dim, axes=axes, heads=1 if heads is None else heads)
        check_number(above=True, base=base)
        check_number(std=std)
        if head_dim % (2 * axes):
            raise ValueError(
                f"head_dim must be a positive multiple of 2 * axes, got head_dim={head_dim} and "
                f"axes={axes}"
            )
        self.head_dim, self.axes, self.heads, self.layout = head_dim, axes, heads, layout
        self.base, self.std = float(base), float(std)
        each = () if heads is None else (heads,)
        self.frequencies = nn.Parameter(torch.empty(*each, axes, head_dim // 2))
        self.skew = nn.Parameter(torch.empty(*each, head_dim * (head_dim - 1) // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the frequencies to their ladder and draw the basis anew."""
        row = geometric(self.head_dim // (2 * self.axes), self.base)
        with torch.no_grad():
            start = torch.tensor(axial(*[row] * self.axes), device=self.frequencies.device)
            self.frequencies.copy_(start)
            self.skew.normal_(std=self.std)

    def forward(self, positions: Tensor) -> Rotation:
        theta = angles(positions, self.frequencies)
        s = skew_symmetric(self.skew.to(theta.dtype), self.head_dim)
        one = torch.eye(self.head_dim, dtype=s.dtype, device=s.device)
        basis = torch.linalg.solve(one + s, one - s)
        per_head = self.heads is not None
        return Rotation(theta.cos(), theta.sin(), self.layout, per_head, basis=basis)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, axes={self.axes}, heads={self.heads}, base={self.base}, "
            f"layout={self.layout!r}, std={self.std}"
        )


class CirculantSTRING(RotaryEncoding):
    r"""Turns the Fourier components of the channels, by learned frequencies.

    .. math:: R(p) = \exp \sum_a p_a (C_a - C_a^\top), \quad
        \omega_{ak} = 2 \sum_j c_{aj} \sin(2 \pi j k / D), \quad k = 1 \ldots F

    Circulant matrices :math:`(C_a)_{ij} = c_{a, (i - j) \bmod D}` are all diagonal in the Fourier
    basis and so commute: a score depends on differences of positions only. In the real form of that
    basis :math:`R` turns the pair of the cosine and the sine of frequency :math:`k`. The
    :math:`\omega` are learned, in place of the :math:`c` that they stand for one to one, and
    the way back to the channels, which cancels between queries and keys, is left out. The constant
    component does not turn, nor does the alternating one where D is even.

    Traps: even at the start it is not RoPE on the channels as they are, so weights trained with
    RoPE do not carry over. Weight decay on the frequencies slows the turning.

    References:
        Schenck et al.: Learning the RoPEs: Better 2D and 3D Position Encodings with STRING (2025),
        https://arxiv.org/abs/2502.02562

    Args:
        head_dim: channels :math:`D` of a head, at least 3; :math:`F = \lfloor (D - 1) / 2 \rfloor`.
        axes: number of axes :math:`A`.
        heads: number of heads :math:`H` that each learn their own; one for all unless given.
        base: of the ladder that the frequencies start from, pairs taking turns among the axes.

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., N, F)``, or ``(..., H, N, F)`` with
        ``heads``

    Raises:
        ValueError: ``head_dim`` is below 3, another number is none or too small; at the call,
            positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import grid
        >>> CirculantSTRING(head_dim=16, axes=2)(grid(4, 6)).cos.shape
        torch.Size([24, 7])
    """

    def __init__(
        self, head_dim: int, axes: int = 2, *, heads: int | None = None, base: float = 10_000.0
    ) -> None:
        super().__init__()
        check_whole(3, head_dim=head_dim)
        check_whole(axes=axes, heads=1 if heads is None else heads)
        check_number(above=True, base=base)
        self.head_dim, self.axes, self.heads, self.base = head_dim, axes, heads, float(base)
        each = () if heads is None else (heads,)
        self.frequencies = nn.Parameter(torch.empty(*each, axes, (head_dim - 1) // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the frequencies to their ladder."""
        pairs = (self.head_dim - 1) // 2
        row = geometric(-(-pairs // self.axes), self.base)
        start = [
            [row[k // self.axes] if k % self.axes == axis else 0.0 for k in range(pairs)]
            for axis in range(self.axes)
        ]
        with torch.no_grad():
            self.frequencies.copy_(torch.tensor(start, device=self.frequencies.device))

    def forward(self, positions: Tensor) -> Rotation:
        theta = angles(positions, self.frequencies)
        basis = _fourier(self.head_dim, theta.device).to(theta)
        per_head = self.heads is not None
        return Rotation(theta.cos(), theta.sin(), "interleaved", per_head, basis=basis)

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, axes={self.axes}, heads={self.heads}, base={self.base}"


def skew_symmetric(entries: Tensor, size: int) -> Tensor:
    """Skew-symmetric matrices ``(..., b, b)`` from what lies below their diagonals, row by row.

    Args:
        entries: ``(..., b (b - 1) / 2)``.
        size: :math:`b`.
    """
    rows, columns = torch.tril_indices(size, size, -1, device=entries.device)
    lower = entries.new_zeros(*entries.shape[:-1], size, size)
    lower[..., rows, columns] = entries
    return lower - lower.mT


def _fourier(size: int, device: torch.device) -> Tensor:
    """An orthonormal basis in columns: cosine and sine of each frequency, then what cannot turn."""
    if device.type in _WITHOUT_FLOAT64:
        device = torch.device("cpu")
    places = torch.arange(size, device=device)
    # Whole turns are taken off before anything is rounded.
    phases = torch.outer(places, torch.arange(1, size // 2 + 1, device=device)) % size
    phases = phases.double() * (2 * math.pi / size)
    pairs = (size - 1) // 2
    waves = torch.stack((phases.cos(), phases.sin()), dim=-1)[:, :pairs].flatten(-2)
    still = [torch.ones_like(waves[:, :1])]
    if size % 2 == 0:
        still.append(phases[:, -1:].cos())
    return torch.cat((waves * math.sqrt(2 / size), torch.cat(still, -1) * size**-0.5), dim=-1)
