"""The classic encodings of sequences once more: float64, plain loops, nothing of the library."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def dot(a: Tensor, b: Tensor) -> float:
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


# ------------------------------------------------------------ relative vectors


def shaw_row(offset: float, table: Tensor, left: int, right: int) -> Tensor:
    """Shaw et al. 2018, https://arxiv.org/abs/1803.02155; between offsets, a straight line."""
    place = min(max(offset, -left), right) + left
    below = min(math.floor(place), len(table) - 2) if len(table) > 1 else 0
    share = place - below
    above = min(below + 1, len(table) - 1)
    return table[below] * (1 - share) + table[above] * share


def shaw(
    q: Tensor, queries: Sequence[float], keys: Sequence[float], table: Tensor, left: int, right: int
) -> Tensor:
    """One head's q (N, D) times the vector of each key's offset: (N, M), unscaled."""
    return tensor(
        [
            [dot(q[i], shaw_row(pj - pi, table, left, right)) for pj in keys]
            for i, pi in enumerate(queries)
        ]
    )


def shaw_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    at: Sequence[float],
    on_k: Tensor,
    on_v: Tensor,
    left: int,
    right: int,
    causal: bool,
) -> Tensor:
    """One head, the paper's equations 3 and 4: each pair has its own key and its own value."""
    result = []
    for i, pi in enumerate(at):
        seen = range(i + 1) if causal else range(len(at))
        logits, values = [], []
        for j in seen:
            key = k[j] + shaw_row(at[j] - pi, on_k, left, right)
            logits.append(dot(q[i], key) / math.sqrt(q.shape[-1]))
            values.append(v[j] + shaw_row(at[j] - pi, on_v, left, right))
        top = max(logits)
        weights = [math.exp(x - top) for x in logits]
        total = sum(weights)
        result.append(sum(w / total * x for w, x in zip(weights, values, strict=True)))
    return torch.stack(result)


def sinusoid(distance: float, width: int, base: float, layout: str) -> list[float]:
    half = [distance * base ** (-2 * i / width) for i in range(width // 2)]
    if layout == "half":
        return [math.sin(a) for a in half] + [math.cos(a) for a in half]
    return [f(a) for a in half for f in (math.sin, math.cos)]


def transformer_xl(
    q: Tensor,
    k: Tensor,
    queries: Sequence[float],
    keys: Sequence[float],
    u: Tensor,
    v: Tensor,
    weight: Tensor,
    base: float,
    layout: str,
) -> Tensor:
    """Terms (b), (c) and (d) of one head: Dai et al. 2019, https://arxiv.org/abs/1901.02860."""
    rows = []
    for i, pi in enumerate(queries):
        row = []
        for j, pj in enumerate(keys):
            wave = tensor(sinusoid(pi - pj, weight.shape[-1], base, layout))
            vector = tensor([dot(line, wave) for line in weight])
            row.append(dot(q[i], vector) + dot(u, k[j]) + dot(v, vector))
        rows.append(row)
    return tensor(rows)


def deberta_bucket(distance: int, buckets: int, max_distance: int | None) -> int:
    """He et al. 2021, https://arxiv.org/abs/2006.03654, with the logarithms of their code."""
    if max_distance is None:
        return distance
    mid = buckets // 2
    far = abs(distance)
    if far <= mid:
        return distance
    ratio = math.log(far / mid) / math.log((max_distance - 1) / mid) * (mid - 1)
    # A ratio that is whole in exact arithmetic may come out a little above.
    step = math.ceil(ratio - 1e-9)
    return (mid + step) * (1 if distance > 0 else -1)


def deberta(
    q: Tensor,
    k: Tensor,
    queries: Sequence[int],
    keys: Sequence[int],
    tables: dict[str, Tensor],
    buckets: int,
    max_distance: int | None,
) -> Tensor:
    """One head's content-to-position and position-to-content products, unscaled."""
    rows = []
    for i, pi in enumerate(queries):
        row = []
        for j, pj in enumerate(keys):
            place = deberta_bucket(int(pi - pj), buckets, max_distance) + buckets
            place = min(max(place, 0), 2 * buckets - 1)
            total = 0.0
            if "c2p" in tables:
                total += dot(q[i], tables["c2p"][place])
            if "p2c" in tables:
                total += dot(k[j], tables["p2c"][place])
            row.append(total)
        rows.append(row)
    return tensor(rows)


# ------------------------------------------------------------ xPos


def xpos_scores(
    q: Tensor,
    k: Tensor,
    queries: Sequence[float],
    keys: Sequence[float],
    base: float = 10_000.0,
    layout: str = "interleaved",
    scale_base: float = 512.0,
    gamma: float = 0.4,
) -> Tensor:
    """Scores of one head from differences alone: Sun et al. 2022, https://arxiv.org/abs/2212.10554."""
    width = q.shape[-1]
    rows = []
    for i, pi in enumerate(queries):
        row = []
        for j, pj in enumerate(keys):
            total, apart = 0.0, pi - pj
            for pair in range(width // 2):
                a, b = (
                    (2 * pair, 2 * pair + 1)
                    if layout == "interleaved"
                    else (
                        pair,
                        pair + width // 2,
                    )
                )
                angle = apart * base ** (-2 * pair / width)
                zeta = (2 * pair + gamma * width) / ((1 + gamma) * width)
                qa, qb, ka, kb = (float(x) for x in (q[i, a], q[i, b], k[j, a], k[j, b]))
                along, across = qa * ka + qb * kb, qb * ka - qa * kb
                turned = along * math.cos(angle) - across * math.sin(angle)
                total += zeta ** (apart / scale_base) * turned
            row.append(total)
        rows.append(row)
    return tensor(rows)


# ------------------------------------------------------------ temperature


def step_temperature(position: float, length: int, beta: float, first: int) -> float:
    return 1 + beta * math.log(1 + math.floor(max(position + first, 0) / length))


def log_temperature(position: float, length: int) -> float:
    return max(1.0, math.log(max(position + 1, 1)) / math.log(length))
