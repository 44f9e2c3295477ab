"""Frequency allocations again, from papers and codes: float64, plain loops, nothing of ours."""

import math

import torch

T, H, W = 0, 1, 2


def speeds(pairs, base):
    return [1.0 / base ** (2 * i / (2 * pairs)) for i in range(pairs)]


def qwen2(pairs, counts):
    """Wang et al. 2024: which axis a pair looks along, in three runs."""
    first, second = counts[0], counts[0] + counts[1]
    return [T if i < first else H if i < second else W for i in range(pairs)]


def qwen3(pairs, counts):
    """Huang et al. 2025: all of time, but 1, 4, ... of the row and 2, 5, ... of the column."""
    axes = [T] * pairs
    for axis in (H, W):
        for i in range(axis, 3 * counts[axis], 3):
            axes[i] = axis
    return axes


def videorope(pairs, counts):
    """Wei et al. 2025: row, column, row, ... on the fast pairs, time on the last."""
    fast = pairs - counts[0]
    return [(H if i % 2 == 0 else W) if i < fast else T for i in range(pairs)]


def ernie(pairs, section):
    """ERNIE 4.5: rows have even pairs, columns odd ones, of all but the last section's."""
    rows, columns, time = section
    axes = [None] * pairs
    for i in range(rows):
        axes[2 * i] = H
    for i in range(columns):
        axes[2 * i + 1] = W
    for i in range(time):
        axes[pairs - 1 - i] = T
    return axes


def lumos(pairs):
    """Yuan et al. 2025: units of eight pairs."""
    return [[T, T, H, W, H, W, H, W][i % 8] for i in range(pairs)]


def angles(points, axes, row, still=()):
    """Angle of each pair of each token: its axis' coordinate times its speed in the one ladder."""
    return torch.tensor(
        [
            [
                0.0 if i in still else point[axis] * f
                for i, (axis, f) in enumerate(zip(axes, row, strict=True))
            ]
            for point in points
        ],
        dtype=torch.float64,
    )


def blocks(points, widths, base):
    """Angles where each axis has a ladder of its own, axis after axis (FLUX, HunyuanVideo)."""
    rows = []
    for point in points:
        code = []
        for at, width in zip(point, widths, strict=True):
            code += [at / base ** (j / width) for j in range(0, width, 2)]
        rows.append(code)
    return torch.tensor(rows, dtype=torch.float64)


def ltx(points, heads, head_dim, base):
    """(heads, tokens, pairs): fractions of the extent (HaCohen et al. 2024), over all heads."""
    width = heads * head_dim
    count = width // 6
    tables = []
    for point in points:
        code = [0.0] * (width % 6 // 2)
        for i in range(count):
            speed = math.pi / 2 * base ** (i / max(count - 1, 1))
            code += [(2 * at - 1) * speed for at in point]
        tables.append([code[h * head_dim // 2 : (h + 1) * head_dim // 2] for h in range(heads)])
    return torch.tensor(tables, dtype=torch.float64).transpose(0, 1)


def stretched_time(pairs, base, factor, length, counts):
    """VideoRoPE++'s code: a larger base for the pairs of time alone (videorope++_v1)."""
    ratio = (length * factor - 1) / (length - 1)
    larger = base * ratio ** (2 * pairs / (2 * pairs - 2))
    plain, slow = speeds(pairs, base), speeds(pairs, larger)
    return [slow[i] if i >= pairs - counts[0] else plain[i] for i in range(pairs)]
