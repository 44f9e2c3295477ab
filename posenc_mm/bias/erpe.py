"""eRPE: a learned number per head for each offset, added after the softmax."""

from typing import ClassVar

from torch import Tensor

from posenc_mm.bias.base import AttentionBias
from posenc_mm.bias.relative import RelativeBias
from posenc_mm.checks import check_inside, check_whole


class ERPE(AttentionBias):
    r"""ConvTran's efficient relative encoding: a scalar per head and offset, beside the softmax.

    .. math:: o_i = \sum_j \left( \mathrm{softmax}_j(s \, q_i \cdot k_j) + T[p_i - p_j + L - 1, h]
        \right) v_j

    The table is theirs, ``relative_bias_table``, and starts at zero. What a mask hides gets no
    weight here either. Offsets beyond the table share its outermost entry, so that a model of size
    :math:`L` runs at any length; the authors' runs at :math:`L` alone.

    Traps: weights no longer sum to one, and may be negative: an offset can count whatever the
    content is. The authors scale logits by the width of the tokens, not of a head: to run their
    weights, pass ``scale=(H * D) ** -0.5`` to :func:`posenc_mm.attend`.

    References:
        Foumani, Tan, Webb, Salehi: Improving Position Encoding of Transformers for Multivariate
        Time Series Classification (2023), https://arxiv.org/abs/2305.16642

    Args:
        heads: number of attention heads :math:`H`.
        size: positions :math:`L` that the table is for; it holds the offsets from
            :math:`-(L - 1)` to :math:`L - 1`.

    Shape:
        ``q_positions (..., N, 1), k_positions (..., M, 1) -> (..., H, N, M)``, in the table's dtype

    Raises:
        ValueError: ``heads`` or ``size`` is below 1; at the call, positions do not have one axis,
            or are not whole: between offsets the table says nothing.

    Example:
        >>> import torch
        >>> from posenc_mm import attend, sequence
        >>> q = k = v = torch.ones(1, 2, 3, 8)
        >>> attend(q, k, v, bias=ERPE(heads=2, size=3), q_positions=sequence(3)).shape
        torch.Size([1, 2, 3, 8])
    """

    after_softmax: ClassVar[bool] = True

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        check_whole(heads=heads, size=size)
        self.relative = RelativeBias(heads, (size,), clip=True, std=0.0)
        self.heads, self.size = heads, size

    def reset_parameters(self) -> None:
        """Start from zero again."""
        self.relative.reset_parameters()

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        offsets: Tensor = self.relative(_whole(q_positions), _whole(k_positions))
        return offsets

    def extra_repr(self) -> str:
        return f"heads={self.heads}, size={self.size}"


def _whole(positions: Tensor) -> Tensor:
    if not positions.is_floating_point():
        return positions
    rows = positions.round()
    name, advice = "distances of positions from whole ones", "number the rows of the series"
    check_inside(name, (positions - rows).flatten().unsqueeze(-1), [0], [0], 0, advice)
    return rows.long()
