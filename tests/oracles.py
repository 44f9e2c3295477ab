"""Every formula once more, from the papers: float64, plain loops, nothing of the library.

Positions come as tensors or nested sequences of shape (N, A); results are float64 tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

Rows = Tensor | Sequence[Sequence[float]]


def rows(positions: Rows) -> list[list[float]]:
    """(N, A) positions as nested Python numbers: int64 stay exact integers."""
    return positions.tolist() if isinstance(positions, Tensor) else [list(row) for row in positions]


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# ---------------------------------------------------------------- positions


def grid(
    sizes: Sequence[int], offset: Sequence[float] = (), step: Sequence[float] = ()
) -> list[list[float]]:
    """Row-major tokens, as patches are flattened: Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929."""
    offset, step = list(offset) or [0] * len(sizes), list(step) or [1] * len(sizes)
    cells = itertools.product(*(range(size) for size in sizes))
    return [[o + i * s for i, o, s in zip(cell, offset, step, strict=True)] for cell in cells]


def cell_centres(sizes: Sequence[int], by: str = "axis") -> list[list[float]]:
    """Patch centres in [-1, 1]: Simeoni et al. 2025 (DINOv3), https://arxiv.org/abs/2508.10104."""
    divisor = {
        "axis": list(sizes),
        "min": [min(sizes)] * len(sizes),
        "max": [max(sizes)] * len(sizes),
    }[by]
    return [
        [2 * (i + 0.5) / n - 1 for i, n in zip(cell, divisor, strict=True)] for cell in grid(sizes)
    ]


def inclusive_ends(sizes: Sequence[int]) -> list[list[float]]:
    """First cell at -1, last at 1: Fang et al. 2023 (EVA-02), https://arxiv.org/abs/2303.11331."""
    return [
        [-1 + 2 * i / (n - 1) for i, n in zip(cell, sizes, strict=True)] for cell in grid(sizes)
    ]


def restarting(cumulative: Sequence[int]) -> tuple[list[int], list[int]]:
    """Position and document of each token of a packed row: Krell et al. 2021, https://arxiv.org/abs/2107.02027."""
    positions, documents = [], []
    for document, (start, stop) in enumerate(itertools.pairwise(cumulative)):
        positions += range(stop - start)
        documents += [document] * (stop - start)
    return positions, documents


def counted(mask: Sequence[bool]) -> list[int]:
    """Number of real tokens up to each one, less one, never below 0: https://github.com/huggingface/transformers/issues/22161."""
    return [max(0, sum(mask[: t + 1]) - 1) for t in range(len(mask))]


# ---------------------------------------------------------------- frequencies


def turning_angles(positions: Rows, matrix: Sequence[Sequence[float]]) -> Tensor:
    """Angle of every pair, sum_a p_a f_ai, not reduced: Su et al. 2021, https://arxiv.org/abs/2104.09864."""
    pairs = range(len(matrix[0]))
    return tensor(
        [
            [math.fsum(p * line[i] for p, line in zip(row, matrix, strict=True)) for i in pairs]
            for row in rows(positions)
        ]
    )


def rope_matrix(
    rotary_dim: int, axes: int = 1, base: float | Sequence[float] = 1e4, freq_dim: int | None = None
) -> list[list[float]]:
    """Block-diagonal frequencies: Heo et al. 2024 (RoPE-Axial), https://arxiv.org/abs/2403.13298."""
    bases = [base] * axes if isinstance(base, (int, float)) else list(base)
    width, per_axis = (freq_dim or rotary_dim) / axes, rotary_dim // 2 // axes
    matrix = [[0.0] * (rotary_dim // 2) for _ in range(axes)]
    for axis, i in itertools.product(range(axes), range(per_axis)):
        matrix[axis][axis * per_axis + i] = 1 / bases[axis] ** (2 * i / width)
    return matrix


# ---------------------------------------------------------------- additive


def sinusoid(
    positions: Rows,
    dim: int,
    base: float = 1e4,
    layout: str = "interleaved",
    endpoint: bool = False,
) -> Tensor:
    """Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; endpoint: fairseq, https://arxiv.org/abs/1904.01038."""
    result = []
    for position in rows(positions):
        block = dim // len(position)
        count = (block + 1) // 2
        sines, cosines, alternating = [], [], []
        for p in position:
            for i in range(count):
                exponent = i / max(count - 1, 1) if endpoint else 2 * i / block
                angle = p / base**exponent
                sines.append(math.sin(angle))
                alternating.append(math.sin(angle))
                if 2 * i + 1 < block:
                    cosines.append(math.cos(angle))
                    alternating.append(math.cos(angle))
        result.append(alternating if layout == "interleaved" else sines + cosines)
    return tensor(result)


def corners(position: Sequence[float], sizes: Sequence[int]) -> list[tuple[tuple[int, ...], float]]:
    """The cells around a point, clamped into the table first, and their multilinear weights."""
    near = []
    for p, size in zip(position, sizes, strict=True):
        p = min(max(p, 0), size - 1)
        low = min(math.floor(p), max(size - 2, 0))
        near.append([(low, 1 - (p - low)), (min(low + 1, size - 1), p - low)])
    return [
        (tuple(c for c, _ in pick), math.prod(w for _, w in pick))
        for pick in itertools.product(*near)
    ]


def table_lookup(table: Tensor, positions: Rows) -> Tensor:
    """Gehring et al. 2017, https://arxiv.org/abs/1705.03122, multilinear between the cells."""
    sizes, width = table.shape[:-1], table.shape[-1]
    result = []
    for position in rows(positions):
        value = [0.0] * width
        for cell, weight in corners(position, sizes):
            for channel in range(width):
                value[channel] += weight * table[cell][channel].item()
        result.append(value)
    return tensor(result)


def fourier(
    positions: Rows, matrix: Sequence[Sequence[float]], scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of p B: Tancik et al. 2020, https://arxiv.org/abs/2006.10739."""
    angles = turning_angles(positions, matrix)
    cosines = [[scale * math.cos(a) for a in line] for line in angles.tolist()]
    return tensor(cosines), tensor(
        [[scale * math.sin(a) for a in line] for line in angles.tolist()]
    )


def learned_fourier(
    positions: Rows, frequencies: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> Tensor:
    """GeLU MLP over [cos | sin]/sqrt(width), frequencies (A, F): Li et al. 2021, equations 2-6, https://arxiv.org/abs/2106.02795."""
    width = 2 * frequencies.shape[1]
    cosines, sines = fourier(positions, frequencies.tolist(), scale=1 / math.sqrt(width))
    result = []
    for row in torch.cat([cosines, sines], -1).tolist():
        hidden = [
            math.fsum(w * r for w, r in zip(line, row, strict=True)) + b
            for line, b in zip(w1.tolist(), b1.tolist(), strict=True)
        ]
        hidden = [0.5 * h * (1 + math.erf(h / math.sqrt(2))) for h in hidden]
        result.append(
            [
                math.fsum(w * h for w, h in zip(line, hidden, strict=True)) + b
                for line, b in zip(w2.tolist(), b2.tolist(), strict=True)
            ]
        )
    return tensor(result)


# ---------------------------------------------------------------- rotary


def turn(vector: Sequence[float], angles: Sequence[float], layout: str) -> list[float]:
    """(u, v) -> (u cos - v sin, u sin + v cos) on each pair, the rest untouched: Su et al. 2021, https://arxiv.org/abs/2104.09864."""
    result = list(vector)
    for i, angle in enumerate(angles):
        first, second = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + len(angles))
        u, v = vector[first], vector[second]
        result[first] = u * math.cos(angle) - v * math.sin(angle)
        result[second] = u * math.sin(angle) + v * math.cos(angle)
    return result


def rotate(x: Tensor, angles: Tensor, layout: str, per_head: bool = False) -> Tensor:
    """Each x[b, h, n] by angles ([B,] N, F), or ([B,] H, N, F) per head: https://arxiv.org/abs/2403.13298."""
    result = torch.empty(x.shape, dtype=torch.float64)
    for b, h, n in itertools.product(*map(range, x.shape[:3])):
        of_sample = angles[b] if angles.dim() == (4 if per_head else 3) else angles
        of_token = of_sample[h][n] if per_head else of_sample[n]
        result[b, h, n] = tensor(turn(x[b, h, n].double().tolist(), of_token.tolist(), layout))
    return result


def mixed_angles(positions: Rows, frequencies: Tensor) -> Tensor:
    """(H, N, F): sum_a p_a f_hai: Heo et al. 2024 (RoPE-Mixed), equation 14, https://arxiv.org/abs/2403.13298."""
    return torch.stack([turning_angles(positions, head) for head in frequencies.double().tolist()])


def layout_order(heads: int, head_dim: int, rotary_dim: int, source: str, target: str) -> list[int]:
    """Row of the source weight behind each row of the target weight: https://github.com/huggingface/transformers/issues/25199."""
    half = rotary_dim // 2
    order = list(range(head_dim))
    for i in range(half):
        if (source, target) == ("interleaved", "half"):
            order[i], order[i + half] = 2 * i, 2 * i + 1
        elif (source, target) == ("half", "interleaved"):
            order[2 * i], order[2 * i + 1] = i, i + half
    return [head * head_dim + row for head in range(heads) for row in order]


# ---------------------------------------------------------------- bias


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8h/H), h = 1..H, and the authors' rule between powers of two: Press et al. 2022, https://arxiv.org/abs/2108.12409."""
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-8 * (2 * h + 1) / (2 * power)) for h in range(heads - power)]


def alibi(queries: Rows, keys: Rows, slopes: Sequence[float], distance: str = "l1") -> Tensor:
    """-m_h |q - k|: https://arxiv.org/abs/2108.12409; l2: Fuller 2023, https://arxiv.org/abs/2311.00566."""

    def apart(q: Sequence[float], k: Sequence[float]) -> float:
        gaps = [abs(a - b) for a, b in zip(q, k, strict=True)]
        return math.fsum(gaps) if distance == "l1" else math.sqrt(math.fsum(g * g for g in gaps))

    return tensor([[[-m * apart(q, k) for k in rows(keys)] for q in rows(queries)] for m in slopes])


def t5_bucket(
    relative: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> int:
    """Integers only, no logarithm: Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683."""
    shift = 0
    if bidirectional:
        buckets //= 2
        shift = buckets if relative > 0 else 0
        n = abs(relative)
    else:
        n = max(-relative, 0)
    exact = buckets // 2
    if n < exact:
        return shift + n
    wide, level = buckets - exact, 0
    # the floor of the ratio of logarithms, as (max/exact)^level <= (n/exact)^wide in integers
    while level + 1 < wide and max_distance ** (level + 1) * exact**wide <= n**wide * exact ** (
        level + 1
    ):
        level += 1
    return shift + exact + level


def t5(
    queries: Sequence[int],
    keys: Sequence[int],
    weight: Tensor,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    """Bias weight[bucket(k - q), h] as (H, N, M): Raffel et al. 2020, https://arxiv.org/abs/1910.10683."""
    buckets, heads = weight.shape
    table = weight.double().tolist()
    ids = [[t5_bucket(k - q, buckets, max_distance, bidirectional) for k in keys] for q in queries]
    return tensor([[[table[bucket][h] for bucket in line] for line in ids] for h in range(heads)])


def relative_table(queries: Rows, keys: Rows, table: Tensor) -> Tensor:
    """Shaw et al. 2018, https://arxiv.org/abs/1803.02155; n-D: Liu et al. 2021, https://arxiv.org/abs/2103.14030."""
    *spans, heads = table.shape
    result = torch.empty(heads, len(rows(queries)), len(rows(keys)), dtype=torch.float64)
    for (i, q), (j, k) in itertools.product(enumerate(rows(queries)), enumerate(rows(keys))):
        place = [a - b + (span - 1) // 2 for a, b, span in zip(q, k, spans, strict=True)]
        for h in range(heads):
            result[h, i, j] = math.fsum(
                w * table[(*cell, h)].item() for cell, w in corners(place, spans)
            )
    return result


# ---------------------------------------------------------------- attention


def visible(
    i: int,
    j: int,
    start: int,
    causal: bool,
    window: int | None,
    segments: Sequence[int] | None,
    real: Sequence[bool] | None,
) -> bool:
    """May query i (at key row start + i) look at key j? Windows: Beltagy et al. 2020, https://arxiv.org/abs/2004.05150."""
    row = start + i
    return not (
        (causal and j > row)
        or (window is not None and abs(row - j) >= window)
        or (segments is not None and segments[row] != segments[j])
        or (real is not None and not real[j])
    )


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None = None,
    causal: bool = False,
    q_start: int | Sequence[int] | None = None,
    key_mask: Tensor | None = None,
    segments: Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """Fewer k/v heads: Ainslie et al. 2023, https://arxiv.org/abs/2305.13245; sees none: zeros."""
    batch, heads, queries, _ = q.shape
    q, k, v = q.double(), k.double(), v.double()
    group, keys = heads // k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    starts = (
        [keys - queries if q_start is None else q_start] * batch
        if not isinstance(q_start, Sequence)
        else q_start
    )
    result = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        documents = (
            None
            if segments is None
            else (segments[b] if segments.dim() == 2 else segments).tolist()
        )
        real = None if key_mask is None else key_mask[b].tolist()
        seen = [j for j in range(keys) if visible(i, j, starts[b], causal, window, documents, real)]
        if not seen:
            continue
        logits = [scale * torch.dot(q[b, h, i], k[b, h // group, j]).item() for j in seen]
        if bias is not None:
            line = (bias[b] if bias.dim() == 4 else bias)[h, i]
            logits = [logit + line[j].item() for logit, j in zip(logits, seen, strict=True)]
        top = max(logits)
        weights = [math.exp(logit - top) for logit in logits]
        for weight, j in zip(weights, seen, strict=True):
            result[b, h, i] += weight / math.fsum(weights) * v[b, h // group, j]
    return result
