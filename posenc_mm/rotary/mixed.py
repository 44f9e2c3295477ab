"""Rotary encoding with learned directions: every pair of every head looks along its own."""

import torch
from torch import Tensor, nn

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import angles, mixed
from posenc_mm.frequencies.turning import Numbers, depth
from posenc_mm.layouts import check_layout
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation
from posenc_mm.rotary.speeds import checked, pairs_of


class MixedRotary(RotaryEncoding):
    r"""Turns pairs of channels by learned mixtures of the axes, per head.

    .. math:: \theta_{hi} = \sum_a p_a \, \omega_{hai}

    Axial RoPE sees one axis per pair; here a pair can look along a diagonal. Frequencies start as
    an axial ladder in axes turned at random for each head, or from any matrix, and are learned.

    Traps: weight decay on the frequencies slows the turning: leave them out of it. Each head turns
    by its own, so that grouped queries cannot share keys. The authors have one per layer, and their
    checkpoints the column first.

    References:
        Heo, Park, Han, Yun: Rotary Position Embedding for Vision Transformer (2024),
        https://arxiv.org/abs/2403.13298

    Args:
        head_dim: channels :math:`D` of a head, a multiple of ``2 * axes`` unless ``start`` is
            given; all of them turn.
        heads: number of heads :math:`H`.
        axes: number of axes :math:`A`.
        base: of the ladder that the frequencies start from.
        start: what they start from instead, ``(A, F)`` for all heads or ``(H, A, F)``, such as a
            frequency allocation; the first :math:`2F` channels turn.
        layout: ``"interleaved"`` pairs channels (2i, 2i + 1), ``"half"`` pairs (i, i + D / 2).

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., H, N, F)``

    Raises:
        ValueError: ``head_dim`` does not divide, ``heads`` is below 1, ``base`` not positive,
            ``start`` of another shape, or ``layout`` unknown; at the call, positions do not have
            :math:`A` axes.

    Example:
        >>> from posenc_mm import grid
        >>> MixedRotary(head_dim=64, heads=3)(grid(4, 6)).cos.shape
        torch.Size([3, 24, 32])
    """

    heads: int

    def __init__(
        self,
        head_dim: int,
        heads: int,
        axes: int = 2,
        *,
        base: float = 10.0,
        layout: str = "interleaved",
        start: Numbers | None = None,
    ) -> None:
        super().__init__()
        check_layout(layout)
        check_whole(head_dim=head_dim, heads=heads, axes=axes)
        check_number(above=True, base=base)
        if start is None and head_dim % (2 * axes):
            raise ValueError(
                f"head_dim must be a positive multiple of 2 * axes, got head_dim={head_dim} and "
                f"axes={axes}"
            )
        self.head_dim, self.heads, self.axes = head_dim, heads, axes
        self.base, self.layout = float(base), layout
        self.start = None if start is None else checked("start", start, axes, head_dim)
        if self.start is not None and depth(self.start) == 3 and len(self.start) != heads:
            raise ValueError(
                f"start must be one matrix, or one for each of {heads} heads, got {len(self.start)}"
            )
        pairs = head_dim // 2 if self.start is None else pairs_of(self.start)
        self.frequencies = nn.Parameter(torch.empty(heads, axes, pairs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the frequencies to their start, or draw them anew."""
        if self.start is None:
            start = mixed(self.head_dim // 2, self.heads, self.axes, self.base)
        else:
            start = torch.tensor(self.start, device="cpu")
        with torch.no_grad():
            self.frequencies.copy_(start)

    def forward(self, positions: Tensor) -> Rotation:
        theta = angles(positions, self.frequencies)
        return Rotation(theta.cos(), theta.sin(), self.layout, per_head=True)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, heads={self.heads}, axes={self.axes}, base={self.base}, "
            f"layout={self.layout!r}{'' if self.start is None else f', start={self.start}'}"
        )
