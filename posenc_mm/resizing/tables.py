"""Tables of absolute positions at another size, and back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.resizing.matrices import apply, check_grids, matrix, resample, unchanging
from posenc_mm.resizing.rules import Rule, rule_of


def resize_table(
    table: Tensor,
    source: int | Sequence[int],
    target: int | Sequence[int],
    *,
    rule: str | Rule = "timm",
    prefix: int = 0,
    keep_norm: bool = False,
) -> Tensor:
    r"""Resize a table of one vector per cell of a grid with any number of axes.

    .. math:: T' = (W_1 \otimes \cdots \otimes W_A) \, T

    with :math:`W_a` the :func:`~posenc_mm.resizing.matrix` of each axis. The grid is stated, never
    guessed from the number of rows: 2 x 8 cells are as many as 4 x 4.

    Interpolation averages: a table that varies from cell to cell comes out smaller. ``keep_norm``
    multiplies the resized grid by one number that restores the root mean square over all its
    entries, so that directions between channels stay.

    References:
        Dosovitskiy et al.: An Image is Worth 16x16 Words (2021), https://arxiv.org/abs/2010.11929;
        Oquab et al.: DINOv2 (2023), https://arxiv.org/abs/2304.07193

    Args:
        table: ``(prefix + N, D)`` or ``(1, prefix + N, D)``, row by row; or without prefix
            ``(*source, D)`` or ``(1, *source, D)``. ``(1, N, D)`` is always the second.
        source: cells per axis that the table is for.
        target: cells wanted per axis; may be symbolic, as in an exported graph.
        rule: a rule, or a name of :data:`~posenc_mm.resizing.RULES`.
        prefix: leading rows that belong to no cell (class, register tokens): kept as they are.
        keep_norm: whether to restore the root mean square.

    Returns:
        The table for ``target`` in the same layout and dtype, computed in float64 where the device
        has it; the table itself where the grids are equal.

    Raises:
        ValueError: the rows do not fit the grid, the grids have another number of axes, or the rule
            is unknown or not defined for them.

    Example:
        >>> table = torch.arange(4.0).reshape(4, 1)
        >>> resize_table(table, (1, 4), (1, 2), rule="bilinear")[:, 0].tolist()
        [0.5, 2.5]
    """
    old, new = check_grids(source, target)
    found = rule_of(rule)
    layout = _layout(table, old, prefix)
    if unchanging(new) and old == new:
        return table
    cells = layout.cells(table, old)
    out = resample(cells, old, new, found)
    if keep_norm:
        before, after = (grid.to(out.dtype).square().mean().sqrt() for grid in (cells, out))
        out = out * torch.where(after > 0, before / after, 1.0)
    return layout.fill(table, out)


def unresize_table(
    table: Tensor,
    source: int | Sequence[int],
    target: int | Sequence[int],
    *,
    rule: str | Rule = "timm",
    prefix: int = 0,
    exact: bool = True,
) -> Tensor:
    r"""Undo :func:`resize_table`: find the table on ``source`` that ``target``'s came from.

    .. math:: T = (W_1^+ \otimes \cdots \otimes W_A^+) \, T'

    with :math:`W^+` the pseudo-inverse. Where every :math:`W_a` has full column rank, as when a
    table was enlarged, that is the table itself, up to rounding; else the smallest of those that
    come nearest. What ``keep_norm`` multiplied by is not undone.

    References:
        Penrose: A generalized inverse for matrices (1955),
        https://doi.org/10.1017/S0305004100030401

    Args:
        table: the table on ``target``, in any layout of :func:`resize_table`.
        source: cells per axis of the table that is wanted.
        target: cells per axis of the table that is given.
        rule: the rule that it was resized by.
        prefix: leading rows that belong to no cell.
        exact: refuse where entries were lost; else take the least-squares table.

    Returns:
        The table for ``source`` in the same layout and dtype.

    Raises:
        ValueError: as :func:`resize_table`, or ``exact`` and entries were lost.

    Example:
        >>> table = torch.randn(6, 4, dtype=torch.float64)
        >>> larger = resize_table(table, (2, 3), (4, 5))
        >>> torch.allclose(unresize_table(larger, (2, 3), (4, 5)), table)
        True
    """
    old, new = check_grids(source, target)
    found = rule_of(rule)
    layout = _layout(table, new, prefix)
    if old == new:
        return table
    weights = [matrix(n, m, found, device="cpu") for n, m in zip(old, new, strict=True)]
    ranks = [int(torch.linalg.matrix_rank(each)) for each in weights]
    if exact and tuple(ranks) != old:
        raise ValueError(
            f"exact needs a rule that loses nothing, but from {old} to {new} this one keeps "
            f"{tuple(ranks)} of {old} numbers per axis, pass exact=False for the least-squares "
            f"table; got {found}"
        )
    # Where a device has no float64, the inverse is found on the CPU before it is rounded.
    work = matrix(1, 1, device=table.device)
    inverses = [torch.linalg.pinv(each).to(work.device, work.dtype) for each in weights]
    return layout.fill(table, apply(inverses, layout.cells(table, new)))


@dataclass(frozen=True)
class _Layout:
    """How a table holds its prefix rows and its cells."""

    flat: bool
    batched: bool
    prefix: int

    def cells(self, table: Tensor, grid: tuple[int, ...]) -> Tensor:
        rows = table[0] if self.batched else table
        return rows[self.prefix :].reshape(*grid, -1) if self.flat else rows

    def fill(self, table: Tensor, cells: Tensor) -> Tensor:
        """Other cells behind the prefix rows that the table has."""
        cells = cells.to(table.dtype)
        if self.flat:
            cells = cells.flatten(0, -2)
        if self.prefix:
            cells = torch.cat([(table[0] if self.batched else table)[: self.prefix], cells])
        return cells.unsqueeze(0) if self.batched else cells


def _layout(table: Tensor, grid: tuple[int, ...], prefix: int) -> _Layout:
    check_whole(0, prefix=prefix)
    count, lead = prefix + math.prod(grid), tuple(table.shape[:-1])
    if lead in ((count,), (1, count)):
        return _Layout(flat=True, batched=len(lead) == 2, prefix=prefix)
    if not prefix and lead in (grid, (1, *grid)):
        return _Layout(flat=False, batched=lead != grid, prefix=0)
    raise ValueError(
        f"table must hold {prefix} prefix rows and the {math.prod(grid)} cells of the grid {grid}, "
        f"as ({count}, D), (1, {count}, D) or, without prefix, one axis per axis of the grid; got "
        f"shape {tuple(table.shape)}: state the grid that it was made for"
    )
