"""Decomposed relative positions: one learned vector per offset and axis meets the query."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import differences
from posenc_mm.bias.contextual import Contextual, ContextualBias
from posenc_mm.bias.terms import Term
from posenc_mm.checks import check_inside, check_number, check_sizes, check_whole
from posenc_mm.tables import draw_entries, taps


class DecomposedBias(ContextualBias):
    r"""The query times one learned vector per axis and offset, summed over the axes.

    .. math:: b_{hij} = q_i \cdot \sum_a R_a[p_{ia} - p_{ja} + S_a - 1]

    All heads share the vectors, and the query is not scaled. Fractional offsets interpolate
    linearly. The authors' other grids are other positions: SAM resizes its tables to
    :math:`2 W - 1` entries, which is reading them at ``rescale(grid(H, W), (2 * H - 1, 2 * W - 1),
    (2 * S_1 - 1, 2 * S_2 - 1))``; MViT's keys on a grid :math:`r` times coarser than the queries'
    stand at ``grid(h, w, step=r, offset=r - 1)``.

    Traps: queries are not scaled here though the logits are, as in both codes: a scale that is
    folded into queries beforehand changes the bias. Offsets are query minus key and beyond a table
    refused.

    References:
        Li et al.: MViTv2: Improved Multiscale Vision Transformers for Classification and Detection
        (2022), https://arxiv.org/abs/2112.01526; Kirillov et al.: Segment Anything (2023),
        https://arxiv.org/abs/2304.02643

    Args:
        heads: number of attention heads :math:`H`.
        head_dim: channels :math:`D` of a head.
        sizes: positions :math:`S` per axis that the tables are for; each holds the offsets from
            :math:`-(S - 1)` to :math:`S - 1`.
        std: standard deviation of the initial entries (normal, truncated at two): 0 in SAM, 0.02 in
            MViT.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> Contextual``

    Raises:
        ValueError: ``heads``, ``head_dim`` or a size is below 1, or ``std`` negative; at the call,
            positions do not have :math:`A` axes, or an offset lies beyond a table.

    Example:
        >>> from posenc_mm import attend, grid
        >>> q = k = v = torch.ones(1, 2, 12, 8)
        >>> bias = DecomposedBias(heads=2, head_dim=8, sizes=(3, 4))
        >>> attend(q, k, v, bias=bias, q_positions=grid(3, 4)).shape
        torch.Size([1, 2, 12, 8])
    """

    def __init__(
        self, heads: int, head_dim: int, sizes: int | Sequence[int], *, std: float = 0.0
    ) -> None:
        super().__init__()
        check_whole(heads=heads, head_dim=head_dim)
        self.sizes = check_sizes("sizes", sizes)
        check_number(std=std)
        self.heads, self.head_dim, self.std = heads, head_dim, float(std)
        self.tables = nn.ParameterList(torch.empty(2 * s - 1, head_dim) for s in self.sizes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Contextual:
        offsets = differences(q_positions, k_positions, axes=len(self.sizes))
        name = f"offsets of a DecomposedBias of sizes {self.sizes}"
        most = [size - 1 for size in self.sizes]
        advice = "make it for larger sizes, or rescale positions to them"
        check_inside(name, offsets, [-last for last in most], most, 0.99999, advice)
        terms = []
        for axis, (last, table) in enumerate(zip(most, self.tables, strict=True)):
            places = offsets[..., axis] + last
            if places.is_floating_point():
                terms.append(Term(table, tuple(taps(places, 2 * last + 1, "linear"))))
            else:
                terms.append(Term(table, ((places, None),)))
        return Contextual(of_queries=tuple(terms))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, head_dim={self.head_dim}, sizes={self.sizes}, std={self.std}"
