"""LieRE: learned dense rotations of blocks of channels."""

import math

import torch
from torch import Tensor, nn

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import angles, check_positions
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation
from posenc_mm.rotary.string import skew_symmetric


class LieRE(RotaryEncoding):
    r"""Turns blocks of channels by the exponential of learned generators.

    .. math:: R(p) = \exp \sum_a p_a G_a, \quad G_a^\top = -G_a

    On one axis, and with blocks of two channels on any number of axes (RoPE-Mixed), a score depends
    on differences of positions only. **On two or more axes with larger blocks it does not:** the
    generators do not commute, :math:`R(p)^\top R(r) \ne R(r - p)`, so that scores change with
    where a picture begins. :class:`CayleySTRING` is the one whose generators commute.

    Coordinates are the caller's, and small: the authors' run from 0 to 1, both included, over the
    axis that the model is trained at (``torch.linspace(0, 1, n)``), and in proportion for more. The
    generators, their sum and its exponential are float32 whatever the dtype of the model, float64
    where the positions are; the error grows with the angle. There is one exponential per token and
    block, in each forward.

    Traps: with blocks of more than two channels on several axes, a crop, or a picture that begins
    elsewhere, is another input. The default ``scale`` is for coordinates from 0 to 1: patch indices
    turn whole circles from one to the next.

    References:
        Ostmeier et al.: LieRE: Lie Rotational Positional Encodings (2024),
        https://arxiv.org/abs/2406.10322

    Args:
        head_dim: channels :math:`D` of a head.
        axes: number of axes :math:`A`.
        heads: number of heads :math:`H` that each learn their own; one for all unless given.
        block: channels :math:`b` of a block, even, a divisor of ``head_dim``; all unless given.
        scale: entries of the generators are drawn from 0 to ``scale``, in radians per unit of
            position.

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., N, F)``, or ``(..., H, N, F)`` with
        ``heads``, and matrices ``(..., N, D / b, b, b)`` where b is above 2

    Raises:
        ValueError: ``block`` is odd or does not divide ``head_dim``, a number is none or too small;
            at the call, positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import grid
        >>> rotation = LieRE(head_dim=16, axes=2, block=8)(grid(4, 6) / 5)
        >>> rotation.cos.shape, rotation.matrices.shape
        (torch.Size([24, 8]), torch.Size([24, 2, 8, 8]))
    """

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        heads: int | None = None,
        block: int | None = None,
        scale: float = 2 * math.pi,
    ) -> None:
        super().__init__()
        block = head_dim if block is None else block
        check_whole(head_dim=head_dim, axes=axes, heads=1 if heads is None else heads, block=block)
        check_number(above=True, scale=scale)
        if block % 2 or head_dim % block:
            raise ValueError(
                f"block must be even and divide head_dim, got block={block} and head_dim={head_dim}"
            )
        self.head_dim, self.axes, self.heads, self.block = head_dim, axes, heads, block
        self.scale = float(scale)
        each = () if heads is None else (heads,)
        entries = block * (block - 1) // 2
        self.generators = nn.Parameter(torch.empty(*each, axes, head_dim // block, entries))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the generators anew."""
        with torch.no_grad():
            self.generators.uniform_(0.0, self.scale)

    def forward(self, positions: Tensor) -> Rotation:
        per_head = self.heads is not None
        if self.block == 2:
            theta = angles(positions, self.generators.squeeze(-1))
            return Rotation(theta.cos(), theta.sin(), "interleaved", per_head)
        check_positions(positions, self.axes)
        dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
        generators = self.generators.to(dtype)
        at = (positions.unsqueeze(-3) if per_head else positions).to(dtype)
        # Summed before they are spread over matrices, and not by a product, which autocast rounds.
        total = at[..., 0, None, None] * generators[..., 0, None, :, :]
        for axis in range(1, self.axes):
            total = total + at[..., axis, None, None] * generators[..., axis, None, :, :]
        matrices = torch.linalg.matrix_exp(skew_symmetric(total, self.block))
        return _with_pairs(matrices, per_head)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, axes={self.axes}, heads={self.heads}, block={self.block}, "
            f"scale={self.scale}"
        )


def _with_pairs(matrices: Tensor, per_head: bool) -> Rotation:
    """A rotation by matrices, with how far they turn each pair of neighbours within itself."""
    below, above = (matrices.diagonal(side, -2, -1)[..., 0::2] for side in (-1, 1))
    along = matrices.diagonal(0, -2, -1)
    cos, sin = (along[..., 0::2] + along[..., 1::2]) / 2, (below - above) / 2
    pairs = (cos.flatten(-2), sin.flatten(-2))
    return Rotation(*pairs, "interleaved", per_head, matrices=matrices)
