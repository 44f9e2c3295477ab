"""A learned number per head for each offset between query and key."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import AttentionBias, bordered, differences
from posenc_mm.bias.forms import ScoreMod, table_score_mod
from posenc_mm.checks import check_inside, check_number, check_sizes, check_whole
from posenc_mm.tables import draw_entries, lookup


class RelativeBias(AttentionBias):
    r"""One learned number per head and offset (query minus key), from a table over all axes.

    .. math:: b_{hij} = T[p_i - p_j + S - 1, h]

    For a grid the table covers one window, and an offset beyond it is an error (Swin). For a
    sequence, farther offsets share the outermost entry, clipped as the relative vectors of Shaw et
    al. are. Fractional offsets interpolate, so that ``rescale`` reads a trained table at another
    resolution.

    With ``prefix`` there are three more numbers per head, for tokens in front that have no position
    (BEiT): class token to patch, patch to class token, class token to itself, in this order of
    query and key. A host asks for them with :meth:`with_prefix`.

    Traps: offsets are query minus key. Tables of key minus query are these, reversed along every
    axis. Offsets beyond the table are refused on a grid and clipped on a sequence, unless ``clip``
    says otherwise.

    References:
        Shaw, Uszkoreit, Vaswani: Self-Attention with Relative Position Representations (2018),
        https://arxiv.org/abs/1803.02155; on grids: Liu et al.: Swin Transformer (2021),
        https://arxiv.org/abs/2103.14030; with a class token: Bao, Dong, Piao, Wei: BEiT (2022),
        https://arxiv.org/abs/2106.08254

    Args:
        heads: number of attention heads :math:`H`.
        sizes: positions :math:`S` per axis that the table is for, one number or a sequence; it
            holds the offsets from :math:`-(S - 1)` to :math:`S - 1`.
        clip: whether offsets beyond share the outermost entry; unless given, true for one axis and
            false for more.
        std: standard deviation of the initial entries (normal, truncated at two).
        prefix: whether tokens in front have numbers of their own; else zero.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``, in the table's dtype

    Raises:
        ValueError: ``heads`` or a size is below 1, or ``std`` negative; at the call, positions do
            not have :math:`A` axes, or an offset lies beyond the table and ``clip`` is false.

    Example:
        >>> from posenc_mm import grid
        >>> RelativeBias(heads=3, sizes=(4, 6))(grid(4, 6), grid(4, 6)).shape
        torch.Size([3, 24, 24])
    """

    def __init__(
        self,
        heads: int,
        sizes: int | Sequence[int],
        *,
        clip: bool | None = None,
        std: float = 0.02,
        prefix: bool = False,
    ) -> None:
        super().__init__()
        check_whole(heads=heads)
        self.sizes = check_sizes("sizes", sizes)
        check_number(std=std)
        self.heads, self.std = heads, float(std)
        self.clip = len(self.sizes) == 1 if clip is None else clip
        self.table = nn.Parameter(torch.empty(*[2 * size - 1 for size in self.sizes], heads))
        self.prefix = nn.Parameter(torch.empty(3, heads)) if prefix else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        offsets = differences(q_positions, k_positions, axes=len(self.sizes))
        reach = torch.tensor(self.sizes, device=offsets.device) - 1
        if self.clip:
            if offsets.is_floating_point():
                far = [10**18] * len(self.sizes)
                check_inside("offsets", offsets, [-f for f in far], far, 0, "are they numbers?")
            offsets = offsets.clamp(-reach, reach)
        else:
            advice = (
                "make it for larger sizes, rescale positions to them, or pass clip=True to let "
                "farther offsets share the outermost entry"
            )
            name = f"offsets of a RelativeBias of sizes {self.sizes}"
            most = [size - 1 for size in self.sizes]
            # Both positions may lie up to half a cell outside: an offset less than a cell too far.
            check_inside(name, offsets, [-size for size in most], most, 0.99999, advice)
        return lookup(self.table, offsets + reach).movedim(-1, -3)

    @property
    def by_difference(self) -> bool:
        return len(self.sizes) == 1

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        if not self.by_difference:
            return None
        return table_score_mod(self, q_positions, k_positions, self.sizes[0] - 1, self.clip)

    def with_prefix(self, bias: Tensor, count: int) -> Tensor:
        if self.prefix is None:
            return super().with_prefix(bias, count)
        return bordered(bias, count, *self.prefix.unbind())

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, sizes={self.sizes}, clip={self.clip}, std={self.std}, "
            f"prefix={self.prefix is not None}"
        )
