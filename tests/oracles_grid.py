"""Encodings of grids once more, from the papers: float64, plain loops, nothing of the library.

Positions come as tensors or nested sequences of shape (N, A); results are float64 tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from oracles import Rows, corners, rows, tensor
from torch import Tensor


def cubic(x: float, a: float) -> float:
    """Keys 1981, https://doi.org/10.1109/TASSP.1981.1163711."""
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def cubic_cells(place: float, size: int, kernel: str) -> list[tuple[int, float]]:
    """The entries of one axis and their shares: edges repeated, or (antialiased) left out."""
    a = -0.75 if kernel == "cubic" else -0.5
    near = [(cell, cubic(place - cell, a)) for cell in range(math.floor(place) - 1, size + 2)]
    if kernel == "cubic":
        return [(min(max(cell, 0), size - 1), share) for cell, share in near]
    kept = [(cell, share) for cell, share in near if 0 <= cell < size]
    whole = math.fsum(share for _, share in kept)
    return [(cell, share / whole) for cell, share in kept]


def cubic_table(table: Tensor, positions: Rows, kernel: str) -> Tensor:
    """A table between its cells, by cubic convolution along each axis."""
    sizes = table.shape[:-1]
    result = []
    for position in rows(positions):
        value = torch.zeros(table.shape[-1], dtype=torch.float64)
        axes = [cubic_cells(p, s, kernel) for p, s in zip(position, sizes, strict=True)]
        for corner in itertools.product(*axes):
            cell, shares = zip(*corner, strict=True)
            value += math.prod(shares) * table[cell]
        result.append(value)
    return torch.stack(result)


def windowed(positions: Rows, table: Tensor, window_table: Tensor, kernel: str) -> Tensor:
    """Bolya et al. 2023, https://arxiv.org/abs/2311.05613: global part plus that of the window."""
    axes = window_table.ndim - 1
    spread = cubic_table(table, [row[axes:] for row in rows(positions)], kernel)
    tiled = []
    for row in rows(positions):
        cell = [int(p) % w for p, w in zip(row[:axes], window_table.shape, strict=False)]
        tiled.append(window_table[tuple(cell)])
    return spread + torch.stack(tiled)


def continuous(
    queries: Rows,
    keys: Rows,
    layers: tuple[Tensor, Tensor, Tensor, Tensor | None],
    window: Sequence[int] | None,
) -> Tensor:
    """Liu et al. 2022, https://arxiv.org/abs/2111.09883. No window: ln(1 + |d|), no sigmoid."""
    w1, b1, w2, b2 = (None if part is None else part.tolist() for part in layers)
    result = torch.empty(len(w2), len(rows(queries)), len(rows(keys)), dtype=torch.float64)
    for (i, q), (j, k) in itertools.product(enumerate(rows(queries)), enumerate(rows(keys))):
        place = []
        for axis, offset in enumerate(a - b for a, b in zip(q, k, strict=True)):
            if window is None:
                place.append(math.copysign(math.log(1 + abs(offset)), offset))
            else:
                far = 8 * abs(offset) / max(window[axis] - 1, 1)
                place.append(math.copysign(math.log2(1 + far) / 3, offset))
        hidden = [
            max(0.0, math.fsum(w * c for w, c in zip(line, place, strict=True)) + b)
            for line, b in zip(w1, b1, strict=True)
        ]
        for h, line in enumerate(w2):
            said = math.fsum(w * x for w, x in zip(line, hidden, strict=True))
            said += 0.0 if b2 is None else b2[h]
            result[h, i, j] = said if window is None else 16 / (1 + math.exp(-said))
    return result


def piecewise(x: float, alpha: float = 1.9, beta: float = 3.8, gamma: float = 15.2) -> int:
    """Wu et al. 2021, equation 18, https://arxiv.org/abs/2107.14222."""
    if abs(x) <= alpha:
        return round(x)
    grown = alpha + math.log(abs(x) / alpha) / math.log(gamma / alpha) * (beta - alpha)
    return int(math.copysign(min(beta, round(grown)), x))


def irpe_cells(offset: Sequence[float], method: str, beta: float = 3.8, **rest: float) -> list:
    """The cells of the method's table that an offset reads."""

    def index(x: float) -> int:
        return piecewise(x, beta=beta, **rest)

    last = int(beta)
    if method == "product":
        return [tuple(index(d) + last for d in offset)]
    if method == "cross":
        return [(axis, index(d) + last) for axis, d in enumerate(offset)]
    square = sum(d * d for d in offset)
    return [(index(square if method == "quant" else round(math.sqrt(square))),)]


def irpe(queries: Rows, keys: Rows, table: Tensor, method: str, **rest: float) -> Tensor:
    """Wu et al. 2021, bias mode: (H, N, M) for a table with heads last."""
    result = torch.zeros(table.shape[-1], len(rows(queries)), len(rows(keys)), dtype=torch.float64)
    for (i, q), (j, k) in itertools.product(enumerate(rows(queries)), enumerate(rows(keys))):
        offset = [a - b for a, b in zip(q, k, strict=True)]
        for cell in irpe_cells(offset, method, **rest):
            result[:, i, j] += table[cell]
    return result


def irpe_contextual(
    x: Tensor, mine: Rows, others: Rows, table: Tensor, method: str, scale: float
) -> Tensor:
    """Wu et al. 2021: s x_i . T[bucket(p_i - p_j)] for tokens x (N, D) of one head, (N, M)."""
    result = torch.zeros(len(rows(mine)), len(rows(others)), dtype=torch.float64)
    for (i, p), (j, o) in itertools.product(enumerate(rows(mine)), enumerate(rows(others))):
        offset = [a - b for a, b in zip(p, o, strict=True)]
        for cell in irpe_cells(offset, method):
            result[i, j] += scale * float((x[i] * table[cell]).sum())
    return result


def decomposed(q: Tensor, queries: Rows, keys: Rows, tables: Sequence[Tensor]) -> Tensor:
    """Li et al. 2022, https://arxiv.org/abs/2112.01526, for one head's q (N, D): (N, M)."""
    result = torch.zeros(len(rows(queries)), len(rows(keys)), dtype=torch.float64)
    for (i, a), (j, b) in itertools.product(enumerate(rows(queries)), enumerate(rows(keys))):
        for x, y, table in zip(a, b, tables, strict=True):
            span = len(table)
            for (cell,), share in corners([x - y + (span - 1) // 2], [span]):
                result[i, j] += share * float((q[i] * table[cell]).sum())
    return result


def bordered(bias: Tensor, count: int, row: float, column: float, corner: float) -> Tensor:
    """Bao et al. 2022, https://arxiv.org/abs/2106.08254, one head: (count + N, count + M)."""
    queries, keys = bias.shape
    line = [corner] * count + [row] * keys
    return tensor([line] * count + [[column] * count + bias[i].tolist() for i in range(queries)])


def depthwise(tokens: Tensor, positions: Rows, weight: Tensor, bias: Tensor) -> Tensor:
    """Chu et al. 2021, https://arxiv.org/abs/2102.10882: tokens (N, D), no token is zero."""
    places = {tuple(p): i for i, p in enumerate(rows(positions))}
    spans = weight.shape[2:]
    result = []
    for place in rows(positions):
        value = bias.clone()
        for cell in itertools.product(*map(range, spans)):
            near = tuple(p + c - s // 2 for p, c, s in zip(place, cell, spans, strict=True))
            if near in places:
                value += weight[(slice(None), 0, *cell)] * tokens[places[near]]
        result.append(value)
    return torch.stack(result)
