"""A learned vector per position, added to the tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_inside, check_number, check_sizes, check_whole
from posenc_mm.frequencies import check_positions
from posenc_mm.tables import check_kernel, draw_entries, lookup


class Learned(AdditiveEncoding):
    r"""One learned vector for each cell of a grid with any number of axes.

    .. math:: e(p) = T[p_1, \ldots, p_A] \quad \text{joint, or} \quad
        e(p) = \sum_a T_a[p_a] \quad \text{factorised}

    A sequence is a grid of one axis, an image one of two, a calendar (hour, weekday, day, month) a
    factorised one of four. Fractional positions interpolate between entries, so that another
    resolution is only other positions: ``learned(rescale(grid(8, 8), (8, 8), (4, 4)))``.

    Traps: entries that training never read stay as they were drawn. Tables of checkpoints often
    begin with rows for class tokens, which are no cells of the grid. As many tokens are not the
    same grid: 2 x 8 read from a table of 4 x 4 wants ``rescale``, too.

    References:
        Dosovitskiy et al.: An Image is Worth 16x16 Words (2021), https://arxiv.org/abs/2010.11929;
        factorised: Dehghani et al.: Patch n' Pack: NaViT (2023), https://arxiv.org/abs/2307.06304;
        cubic: Keys: Cubic Convolution Interpolation for Digital Image Processing (1981),
        https://doi.org/10.1109/TASSP.1981.1163711

    Args:
        dim: width :math:`D`.
        sizes: entries per axis, one number or a sequence.
        joint: whether one table holds every combination of the axes; else one table per axis.
        std: standard deviation of the initial entries (normal, truncated at two).
        kernel: the curve between entries, read at ``rescale(grid(H, W), (H, W), sizes)``:
            ``"linear"`` is bilinear resizing of the table, ``"cubic"`` bicubic (both half-pixel,
            no antialiasing), ``"cubic_aa"`` bicubic with antialiasing, for grids at least as fine
            as the table. Likewise on one axis and on three.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``, in the table's dtype

    Raises:
        ValueError: ``dim`` or a size is below 1, ``std`` negative, or ``kernel`` unknown; at the
            call, positions do not have :math:`A` axes, or one lies more than half a cell outside
            the table (compiled, exported and on CUDA an assertion that fails as it runs).

    Example:
        >>> from posenc_mm import grid, rescale
        >>> learned = Learned(dim=8, sizes=(4, 9))
        >>> learned(rescale(grid(6, 6), (6, 6), learned.sizes)).shape
        torch.Size([36, 8])
    """

    def __init__(
        self,
        dim: int,
        sizes: int | Sequence[int],
        *,
        joint: bool = True,
        std: float = 0.02,
        kernel: str = "linear",
    ) -> None:
        super().__init__()
        check_whole(dim=dim)
        self.sizes = check_sizes("sizes", sizes)
        check_number(std=std)
        check_kernel(kernel)
        self.dim, self.joint, self.std, self.kernel = dim, joint, float(std), kernel
        if joint:
            self.table = nn.Parameter(torch.empty(*self.sizes, dim))
        else:
            self.tables = nn.ParameterList(torch.empty(size, dim) for size in self.sizes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, len(self.sizes))
        advice = "use a larger table, or posenc_mm.rescale to read this one at another resolution"
        name = f"positions of a Learned of sizes {self.sizes}"
        last = [size - 1 for size in self.sizes]
        check_inside(name, positions, [0] * len(last), last, 0.5, advice)
        if self.joint:
            return lookup(self.table, positions, self.kernel)
        parts = [
            lookup(table, positions[..., axis, None], self.kernel)
            for axis, table in enumerate(self.tables)
        ]
        return torch.stack(parts).sum(0)

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, sizes={self.sizes}, joint={self.joint}, std={self.std}, "
            f"kernel={self.kernel!r}"
        )
