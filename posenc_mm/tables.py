"""Reading a learned table at positions: an entry per cell, and the line between entries."""

import itertools
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
    for corner in itertools.product((False, True), repeat=len(sizes)):
        ends = [up if far else low for far, low, up in zip(corner, lower, upper, strict=True)]
        weight = torch.ones_like(shares[0])
        for far, share in zip(corner, shares, strict=True):
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
    row = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        row = row * size + column
    return row
