"""Reading a learned table at positions: an entry per cell, and the line between entries."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def lookup(table: Tensor, positions: Tensor) -> Tensor:
    """Read a grid-shaped table at whole or fractional positions.

    Whole positions pick entries. Fractional ones interpolate linearly along every axis between the
    entries around them; up to half a cell outside, where an entry's own cell still reaches, the
    outermost entry holds. At positions from :func:`posenc_mm.rescale` this is the usual bilinear
    resizing of a table (half-pixel centres, no antialiasing).

    Args:
        table: ``(S_1, ..., S_A, D)``.
        positions: ``(..., A)``, integers or floats that the caller has found inside.

    Returns:
        ``(..., D)`` in the table's dtype.
    """
    sizes = table.shape[:-1]
    flat = table.flatten(0, -2)
    if not positions.is_floating_point():
        return flat[_row(positions.long().unbind(-1), sizes)]
    work = positions if positions.dtype == torch.float64 else positions.float()
    lower, upper, shares = [], [], []
    for axis, size in enumerate(sizes):
        inside = work[..., axis].clamp(0, size - 1)
        below = inside.floor().clamp(max=max(size - 2, 0))
        lower.append(below.long())
        upper.append((below.long() + 1).clamp(max=size - 1))
        shares.append(inside - below)
    parts = []
    for corner in range(2 ** len(sizes)):
        ends, weight = [], torch.ones_like(shares[0])
        for axis, share in enumerate(shares):
            far = corner >> axis & 1
            ends.append(upper[axis] if far else lower[axis])
            weight = weight * (share if far else 1 - share)
        parts.append(flat[_row(ends, sizes)] * weight.unsqueeze(-1).to(flat.dtype))
    return sum(parts[1:], parts[0])


def draw_entries(table: Tensor, std: float) -> None:
    """Draw a table's entries from a normal distribution that is truncated at two deviations."""
    if std == 0:
        nn.init.zeros_(table)
    else:
        nn.init.trunc_normal_(table, std=std, a=-2 * std, b=2 * std)


def _row(columns: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    row, inside = torch.zeros_like(columns[0]), torch.ones_like(columns[0], dtype=torch.bool)
    for column, size in zip(columns, sizes, strict=True):
        row = row * size + column
        inside = inside & (column >= 0) & (column < size)
    # Where a compiler drops the caller's assertion, a row that does not exist still fails.
    return torch.where(inside, row, math.prod(sizes))
