"""Rotations once more, from their papers: float64, plain loops, nothing of the library."""

import itertools
import math

import torch
from torch import Tensor

Matrix = list[list[float]]


def zeros(size: int) -> Matrix:
    return [[0.0] * size for _ in range(size)]


def product(a: Matrix, b: Matrix) -> Matrix:
    inner = range(len(b))
    return [[sum(row[k] * b[k][j] for k in inner) for j in range(len(b[0]))] for row in a]


def transposed(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def exponential(a: Matrix) -> Matrix:
    """Scaling and squaring of the power series: Moler, Van Loan 2003, https://doi.org/10.1137/S00361445024180."""
    size = len(a)
    largest = max((sum(abs(value) for value in row) for row in a), default=0.0)
    halvings = max(0, math.ceil(math.log2(largest)) + 2) if largest > 0 else 0
    small = [[value / 2**halvings for value in row] for row in a]
    result = [[float(i == j) for j in range(size)] for i in range(size)]
    term = [row[:] for row in result]
    for order in range(1, 20):
        term = [[value / order for value in row] for row in product(term, small)]
        result = [[result[i][j] + term[i][j] for j in range(size)] for i in range(size)]
    for _ in range(halvings):
        result = product(result, result)
    return result


def solved(a: Matrix, b: Matrix) -> Matrix:
    """X with A X = B, by Gauss and Jordan with pivots."""
    size = len(a)
    rows = [a[i][:] + b[i][:] for i in range(size)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for i in range(size):
            if i != column:
                factor = rows[i][column]
                rows[i] = [u - factor * v for u, v in zip(rows[i], rows[column], strict=True)]
    return [row[size:] for row in rows]


def skew(entries: list[float], size: int) -> Matrix:
    """Entries fill what lies below the diagonal, row by row."""
    result, left = zeros(size), iter(entries)
    for i in range(size):
        for j in range(i):
            result[i][j] = next(left)
            result[j][i] = -result[i][j]
    return result


def weighted_sum(weights: list[float], matrices: list[Matrix]) -> Matrix:
    size = len(matrices[0])
    pairs = list(zip(weights, matrices, strict=True))
    return [[sum(w * m[i][j] for w, m in pairs) for j in range(size)] for i in range(size)]


def members(i: int, pairs: int, layout: str, blocks: int) -> tuple[int, int]:
    """The channels of pair i."""
    if layout == "interleaved":
        return 2 * i, 2 * i + 1
    each = pairs // (blocks if layout == "axis_half" else 1)
    start = i // each * 2 * each + i % each
    return start, start + each


def rope_generators(frequencies: Matrix, size: int, layout: str) -> list[Matrix]:
    """Per axis, the generator that turns each pair at its own speed."""
    result = []
    for row in frequencies:
        generator = zeros(size)
        for i, speed in enumerate(row):
            first, second = members(i, len(row), layout, 1)
            generator[second][first], generator[first][second] = speed, -speed
        result.append(generator)
    return result


def cayley_basis(entries: list[float], size: int) -> Matrix:
    """(I - S)(I + S)^-1: Schenck et al. 2025, definition 3.2, https://arxiv.org/abs/2502.02562."""
    s = skew(entries, size)
    plus = [[float(i == j) + s[i][j] for j in range(size)] for i in range(size)]
    minus = [[float(i == j) - s[i][j] for j in range(size)] for i in range(size)]
    # X (I + S) = I - S, transposed.
    return transposed(solved(transposed(plus), transposed(minus)))


def cayley_string(position: list[float], frequencies: Matrix, entries: list[float], layout: str):
    """exp of sum_a p_a P L_a P^T, which is P RoPE(p) P^T: https://arxiv.org/abs/2502.02562."""
    size = 2 * len(frequencies[0])
    basis = cayley_basis(entries, size)
    total = weighted_sum(position, rope_generators(frequencies, size, layout))
    return exponential(product(product(basis, total), transposed(basis)))


def circulant_string(position: list[float], frequencies: Matrix, size: int) -> Matrix:
    """exp of sum_a p_a (C_a - C_a^T), C circulant: https://arxiv.org/abs/2502.02562."""
    generators = []
    for row in frequencies:
        # The odd sequence c with 2 sum_j c_j sin(2 pi j k / D) = omega_k.
        c = [
            sum(w * math.sin(2 * math.pi * j * (k + 1) / size) for k, w in enumerate(row)) / size
            for j in range(size)
        ]
        circulant = [[c[(i - j) % size] for j in range(size)] for i in range(size)]
        generators.append(
            [[circulant[i][j] - circulant[j][i] for j in range(size)] for i in range(size)]
        )
    return exponential(weighted_sum(position, generators))


def liere(position: list[float], generators: list[list[list[float]]], block: int) -> Matrix:
    """Block-diagonal exp of sum_a p_a G_a: Ostmeier et al. 2024, https://arxiv.org/abs/2406.10322."""
    blocks = len(generators[0])
    whole = zeros(blocks * block)
    for k in range(blocks):
        each = [skew(axis[k], block) for axis in generators]
        turned = exponential(weighted_sum(position, each))
        for i, j in itertools.product(range(block), repeat=2):
            whole[k * block + i][k * block + j] = turned[i][j]
    return whole


def matrices(rotation_of, positions: Tensor) -> Tensor:
    """(N, D, D): what ``rotation_of`` makes of each row of positions (N, A)."""
    made = [rotation_of(row) for row in positions.double().tolist()]
    return torch.tensor(made, dtype=torch.float64)


def turned(x: Tensor, angles: Tensor, layout: str, blocks: int) -> Tensor:
    """x (B, H, N, D) by angles (N, F), pair by pair."""
    result = x.clone()
    for n, i in itertools.product(range(x.shape[2]), range(angles.shape[1])):
        cos, sin = math.cos(angles[n, i]), math.sin(angles[n, i])
        first, second = members(i, angles.shape[1], layout, blocks)
        result[:, :, n, first] = x[:, :, n, first] * cos - x[:, :, n, second] * sin
        result[:, :, n, second] = x[:, :, n, first] * sin + x[:, :, n, second] * cos
    return result


def vjepa2(x: Tensor, angles: Tensor, blocks: int) -> Tensor:
    """Channels of a block have angles 0..m-1, 0..m-1, neighbours are mixed: https://github.com/facebookresearch/vjepa2."""
    result, each = x.clone(), angles.shape[1] // blocks
    for n, b, c in itertools.product(range(x.shape[2]), range(blocks), range(2 * each)):
        angle = float(angles[n, b * each + c % each])
        here = b * 2 * each + c
        other = here + 1 if c % 2 == 0 else here - 1
        sign = -1.0 if c % 2 == 0 else 1.0
        own, neighbour = x[:, :, n, here], x[:, :, n, other]
        result[:, :, n, here] = own * math.cos(angle) + sign * neighbour * math.sin(angle)
    return result


def layout_order(source: str, target: str, width: int, turning: int, blocks: int) -> list[int]:
    """Channel of the source layout behind each channel of the target layout, of one head."""
    order = list(range(width))
    for i in range(turning // 2):
        old = members(i, turning // 2, source, blocks)
        new = members(i, turning // 2, target, blocks)
        for a, b in zip(new, old, strict=True):
            order[a] = b
    return order
