"""Absolute windows: a coarse table over the picture, and one window's table in every window."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_inside, check_number, check_sizes, check_whole
from posenc_mm.frequencies import check_positions
from posenc_mm.positions import grid, rescale
from posenc_mm.tables import check_kernel, draw_entries, lookup


class WindowedLearned(AdditiveEncoding):
    r"""A learned table over the whole picture plus one of a single attention window, repeated.

    .. math:: e(p, g) = T[g] + U[p \bmod w]

    A model that attends within windows learns embeddings that repeat from window to window, and
    resizing them as one table blurs that. Here only :math:`T` is resized; :math:`U` keeps to the
    tokens. A position says both places, side by side: the cell :math:`p` on the grid of tokens, and
    :math:`g` on that of :math:`T`. :meth:`places` makes them for a picture of any size; a crop or a
    kept subset takes its rows.

    Between the entries of :math:`T` runs a curve (``kernel``). ``"cubic_aa"`` is Hiera's resizing
    of it, bicubic with antialiasing, wherever the picture has at least as many tokens as
    :math:`T` has entries along each axis; on fewer, antialiasing averages entries, which no
    position can ask for: resize the table instead. ``"cubic"`` is the resizing of SAM 2's encoder,
    at any size. A fractional :math:`p` has the entry of :math:`U` in whose cell it lies.

    Traps: the sum of both tables, resized as one, has lost its windows, so keep them apart.
    Positions have twice the axes of the grid: those of ``grid`` alone are refused.

    References:
        Bolya, Ryali, Hoffman, Feichtenhofer: Window Attention is Bugged: How not to Interpolate
        Position Embeddings (2023), https://arxiv.org/abs/2311.05613

    Args:
        dim: width :math:`D`.
        sizes: entries of :math:`T` per axis.
        window: tokens :math:`w` of one window per axis, the entries of :math:`U`.
        std: standard deviation of the initial entries (normal, truncated at two).
        kernel: the curve between the entries of :math:`T`: ``"cubic_aa"``, ``"cubic"`` or
            ``"linear"``, as for :class:`posenc_mm.Learned`.

    Shape:
        ``positions (..., N, 2A) -> (..., N, D)``, in the tables' dtype

    Raises:
        ValueError: ``dim`` or a size is below 1, ``sizes`` and ``window`` differ in their axes,
            ``std`` is negative, or ``kernel`` unknown; at the call, positions do not have
            :math:`2A` axes, or a :math:`g` lies more than half a cell outside the table.

    Example:
        >>> encoding = WindowedLearned(dim=8, sizes=(3, 4), window=(2, 2))
        >>> encoding(encoding.places(6, 10)).shape
        torch.Size([60, 8])
    """

    def __init__(
        self,
        dim: int,
        sizes: Sequence[int],
        window: Sequence[int],
        *,
        std: float = 0.02,
        kernel: str = "cubic_aa",
    ) -> None:
        super().__init__()
        check_whole(dim=dim)
        self.table_sizes = check_sizes("sizes", sizes)
        self.window = check_sizes("window", window)
        if len(self.table_sizes) != len(self.window):
            raise ValueError(
                f"sizes and window must have the same number of axes, got sizes={sizes} and "
                f"window={window}"
            )
        check_number(std=std)
        check_kernel(kernel)
        self.dim, self.std, self.kernel = dim, float(std), kernel
        self.table = nn.Parameter(torch.empty(*self.table_sizes, dim))
        self.window_table = nn.Parameter(torch.empty(*self.window, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        draw_entries(self.table, self.std)
        draw_entries(self.window_table, self.std)

    def places(self, *sizes: int, device: torch.device | str | None = None) -> Tensor:
        """Place a picture's tokens, row by row: their cells, then where these are on the table.

        Args:
            sizes: tokens of the picture per axis; windows at its edges may be cut.
            device: where the result lives.

        Returns:
            ``(N, 2A)``, integers where the picture has the table's sizes, else float32.

        Raises:
            ValueError: the number of axes differs, or a size is below 1.
        """
        cells = grid(*sizes, device=device)
        return torch.cat((cells, rescale(cells, sizes, self.table_sizes)), dim=-1)

    def forward(self, positions: Tensor) -> Tensor:
        axes = len(self.window)
        check_positions(positions, 2 * axes)
        cells, places = positions[..., :axes], positions[..., axes:]
        last = [size - 1 for size in self.table_sizes]
        name = f"places on the table of a WindowedLearned of sizes {self.table_sizes}"
        advice = "its method places makes them for a picture of any size"
        check_inside(name, places, [0] * axes, last, 0.5, advice)
        if cells.is_floating_point():
            cells = (cells.to(torch.promote_types(cells.dtype, torch.float32)) + 0.5).floor()
        spans = torch.tensor(self.window, device=cells.device)
        inside = cells.long().remainder(spans)
        return lookup(self.table, places, self.kernel) + lookup(self.window_table, inside)

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, sizes={self.table_sizes}, window={self.window}, std={self.std}, "
            f"kernel={self.kernel!r}"
        )
