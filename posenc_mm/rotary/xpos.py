"""xPos: a rotation whose pairs also fade with distance, each at its own rate."""

import math

import torch
from torch import Tensor

from posenc_mm.checks import check_inside, check_number, check_whole
from posenc_mm.frequencies import angles, check_positions, geometric
from posenc_mm.layouts import check_layout
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation

# e**80 is far from the ends of float32 and bfloat16; so is what it leaves of a query.
_MOST_EXPONENT = 80.0


class XPos(RotaryEncoding):
    r"""Turns pairs of channels, and lets each fade with the distance from query to key.

    .. math:: \theta_i = p \, b^{-2i/D}, \quad
        q_i \to \zeta_i^{(p - o) / r} \, q_i, \quad k_i \to \zeta_i^{-(p - o) / r} \, k_i, \quad
        \zeta_i = \frac{2i / D + \gamma}{1 + \gamma}

    A score depends on the difference of positions only, and so not on the origin :math:`o`; but
    numbers far from it overflow. Where authors and peers centre each length anew, which spoils
    cached keys, :meth:`pair` puts the origin at the first query of the call and keys are cached as
    they were before: :class:`posenc_mm.Transformer` does so. A key behind the queries then only
    shrinks, at any distance, so that a cache may hold millions of tokens. What is bounded is how
    far the positions of one call lie apart, :attr:`reach`: a longer prompt goes in chunks through
    a cache. In float16, whose exponents end sooner, chunks of 2,000 are safe at the usual
    ``scale_base``.

    Traps: keys ahead of a query grow, so the encoding is for causal attention. Queries and keys
    turn differently: one rotation for both is wrong and refused, :meth:`pair` makes the two.

    References:
        Sun et al.: A Length-Extrapolatable Transformer (2022), https://arxiv.org/abs/2212.10554

    Args:
        head_dim: channels :math:`D` of a head, an even number; all of them turn.
        base: :math:`b`.
        layout: ``"interleaved"`` (the authors') pairs channels (2i, 2i + 1), ``"half"`` pairs (i, i
            + D / 2).
        scale_base: :math:`r`, in units of position.
        gamma: :math:`\gamma`.

    Shape:
        ``positions (..., N, 1) -> Rotation`` of ``(..., N, F)``, that of queries about the origin 0

    Raises:
        ValueError: ``head_dim`` is odd, a number not positive, or ``layout`` unknown; at the call,
            positions do not have one axis, or lie too far from the origin.

    Example:
        >>> from posenc_mm import attend, sequence
        >>> q = k = v = torch.ones(1, 2, 5, 8)
        >>> of_q, of_k = XPos(head_dim=8).pair(sequence(5), sequence(5))
        >>> attend(q, k, v, rotation=of_q, k_rotation=of_k, causal=True).shape
        torch.Size([1, 2, 5, 8])
    """

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10_000.0,
        layout: str = "interleaved",
        scale_base: float = 512.0,
        gamma: float = 0.4,
    ) -> None:
        super().__init__()
        check_layout(layout)
        check_whole(head_dim=head_dim)
        check_number(above=True, base=base, scale_base=scale_base, gamma=gamma)
        if head_dim % 2:
            raise ValueError(f"head_dim must be even, pairs turn, got head_dim={head_dim}")
        self.head_dim, self.layout, self.base = head_dim, layout, float(base)
        self.scale_base, self.gamma = float(scale_base), float(gamma)
        pairs = head_dim // 2
        self.frequencies = (geometric(pairs, self.base),)
        self.fading = tuple(
            math.log((2 * i / head_dim + gamma) / (1 + gamma)) / scale_base for i in range(pairs)
        )
        # How far apart the positions of one call may lie.
        self.reach = int(_MOST_EXPONENT / -self.fading[0])

    def forward(self, positions: Tensor) -> Rotation:
        check_positions(positions, 1)
        return self._scaled(positions, torch.zeros_like(positions[..., :1, :]), 1.0)

    def pair(self, q_positions: Tensor, k_positions: Tensor) -> tuple[Rotation, Rotation]:
        """Make the rotations of queries and of the keys that they meet, about the first query.

        Args:
            q_positions: ``(..., N, 1)``
            k_positions: ``(..., M, 1)``

        Returns:
            The rotation of the queries, and that of the keys; only scores between these two mean
            anything.

        Raises:
            ValueError: positions do not have one axis, or lie too far from the first query's; keys
                may lie behind it as far as they do.
        """
        check_positions(q_positions, 1)
        check_positions(k_positions, 1)
        first = (q_positions if q_positions.shape[-2] else k_positions)[..., :1, :]
        return self._scaled(q_positions, first, 1.0), self._scaled(k_positions, first, -1.0)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, base={self.base}, layout={self.layout!r}, "
            f"scale_base={self.scale_base}, gamma={self.gamma}"
        )

    def _scaled(self, positions: Tensor, origin: Tensor, side: float) -> Rotation:
        theta = angles(positions, self.frequencies)
        beyond = _minus(positions, origin)
        behind = -self.reach if side > 0 else -(10**18)
        name = "positions, counted from the first query of the call," if side < 0 else "positions"
        advice = "feed the sequence in chunks through a KVCache, which rotates about each chunk"
        check_inside(name, beyond, [behind], [self.reach], 0, advice)
        exact = torch.float32 if beyond.device.type == "mps" else torch.float64
        fading = torch.tensor(self.fading, dtype=exact, device=beyond.device)
        scale = (side * beyond.to(exact) * fading).exp().to(theta.dtype)
        whose = "queries" if side > 0 else "keys"
        return Rotation(theta.cos() * scale, theta.sin() * scale, self.layout, side=whose)


def _minus(positions: Tensor, origin: Tensor) -> Tensor:
    """Exact for integers, which float32 could not hold."""
    if positions.is_floating_point() or origin.is_floating_point():
        wide = torch.float32 if positions.device.type == "mps" else torch.float64
        return positions.to(wide) - origin.to(wide)
    return positions.long() - origin.long()
