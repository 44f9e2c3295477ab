"""Reading a learned table at positions: an entry per cell, and the curve between entries."""

import itertools
import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

KERNELS = ("linear", "cubic", "cubic_aa")

Taps = list[tuple[Tensor, Tensor]]


def lookup(table: Tensor, positions: Tensor, kernel: str = "linear") -> Tensor:
    r"""Read a grid-shaped table at whole or fractional positions.

    Whole positions pick entries. Fractional ones interpolate along every axis between the entries
    around them, in float32 or wider. At positions from :func:`posenc_mm.rescale` this is the usual
    resizing of a table (half-pixel centres):

    - ``"linear"``, between two entries: bilinear. Up to half a cell outside, where an entry's own
      cell still reaches, the outermost entry holds.
    - ``"cubic"``, a cubic convolution with :math:`a = -3/4` over four entries, of which those
      outside repeat the outermost: bicubic, no antialiasing.
    - ``"cubic_aa"``, with :math:`a = -1/2` and shares only of the entries that exist: bicubic with
      antialiasing, on grids at least as fine as the table. On coarser ones antialiasing averages,
      which no single position can say.

    References:
        Keys: Cubic Convolution Interpolation for Digital Image Processing (1981),
        https://doi.org/10.1109/TASSP.1981.1163711

    Args:
        table: ``(S_1, ..., S_A, D)``.
        positions: ``(..., A)``, integers or floats that the caller has found inside.
        kernel: one of ``KERNELS``.

    Returns:
        ``(..., D)`` in the table's dtype.
    """
    sizes = table.shape[:-1]
    flat = table.flatten(0, -2)
    if not positions.is_floating_point():
        return flat[_row(positions.long().unbind(-1), sizes)]
    work = positions if positions.dtype == torch.float64 else positions.float()
    axes = [taps(place, size, kernel) for place, size in zip(work.unbind(-1), sizes, strict=True)]
    parts = []
    for corner in itertools.product(*axes):
        cells, shares = zip(*corner, strict=True)
        entries = flat[_row(cells, sizes)]
        wide = torch.promote_types(flat.dtype, torch.float32)
        parts.append(entries.to(wide) * reduce(torch.mul, shares).unsqueeze(-1).to(wide))
    read: Tensor = sum(parts[1:], parts[0]).to(flat.dtype)
    return read


def taps(place: Tensor, size: int, kernel: str) -> Taps:
    """Find the cells along one axis that fractional places read, and the share of each.

    Args:
        place: of any shape, floating.
        size: cells along the axis.
        kernel: one of ``KERNELS``.

    Returns:
        Pairs of cells (int64) and shares, each of the shape of ``place``.
    """
    if kernel == "linear":
        inside = place.clamp(0, size - 1)
        below = inside.floor().clamp(max=max(size - 2, 0))
        share, cell = inside - below, below.long()
        return [(cell, 1 - share), ((cell + 1).clamp(max=size - 1), share)]
    below = place.floor()
    cells = [below.long() + step for step in range(-1, 3)]
    past, a = place - below, -0.75 if kernel == "cubic" else -0.5
    shares = [cubic(distance, a) for distance in (past + 1, past, 1 - past, 2 - past)]
    if kernel == "cubic_aa":
        shares = [
            torch.where((cell >= 0) & (cell < size), share, 0.0)
            for cell, share in zip(cells, shares, strict=True)
        ]
        whole = shares[0] + shares[1] + shares[2] + shares[3]
        shares = [share / whole for share in shares]
    return [(cell.clamp(0, size - 1), share) for cell, share in zip(cells, shares, strict=True)]


def cubic(distance: Tensor, a: float) -> Tensor:
    """Keys' cubic kernel: the share of an entry so far from the place that is read.

    Args:
        distance: in entries, not negative.
        a: the slope at 1.

    Returns:
        Shares of the shape of ``distance``; 0 from 2 on.
    """
    x = distance
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def check_kernel(kernel: str) -> None:
    """Refuse a curve between entries that :func:`lookup` does not know.

    Args:
        kernel: its name.

    Raises:
        ValueError: it is none of ``KERNELS``.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS}, got kernel={kernel!r}")


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
