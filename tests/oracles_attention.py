"""Attention and its biases once more, from the papers, in plain loops that have gradients."""

import itertools
import math
from collections.abc import Callable, Sequence

import oracles
import torch
from torch import Tensor

Pair = Callable[[int, int, int, int], Tensor | float]


def attention(q: Tensor, k: Tensor, v: Tensor, pair: Pair, **options: object) -> Tensor:
    """Softmax over the keys seen, one query at a time; ``pair(b, h, i, j)`` is the bias."""
    batch, heads, queries, width = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    scale = options.get("scale") or 1 / math.sqrt(width)
    start = options.get("q_start")
    starts = start if isinstance(start, Sequence) else [keys - queries if start is None else start]
    starts = starts * (batch // len(starts))
    result = []
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        seen = [j for j in range(keys) if _sees(b, i, j, starts[b], **options)]
        line = torch.zeros(v.shape[-1], dtype=torch.float64)
        if seen:
            logits = [scale * (q[b, h, i] @ k[b, h // group, j]) + pair(b, h, i, j) for j in seen]
            weights = torch.stack(logits).softmax(0)
            line = sum(w * v[b, h // group, j] for w, j in zip(weights, seen, strict=True))
        result.append(line)
    return torch.stack(result).reshape(batch, heads, queries, -1)


def _sees(b: int, i: int, j: int, start: int, **options: object) -> bool:
    segments, real = options.get("segments"), options.get("key_mask")
    if segments is not None:
        segments = (segments[b] if segments.dim() == 2 else segments).tolist()
    real = None if real is None else real[b].tolist()
    window = options.get("window")
    return oracles.visible(i, j, start, bool(options.get("causal")), window, segments, real)


def distance(slopes: Sequence[Tensor | float], p: list, r: list, step: float = 1.0) -> Pair:
    """ALiBi: https://arxiv.org/abs/2108.12409; p and r are positions per sample."""

    def pair(b: int, h: int, i: int, j: int) -> Tensor | float:
        gaps = [abs(x - y) for x, y in zip(p[b][i], r[b][j], strict=True)]
        return -slopes[h] * math.fsum(gaps) / step

    return pair


def buckets(weight: Tensor, p: list, r: list, bidirectional: bool = True) -> Pair:
    """T5: https://arxiv.org/abs/1910.10683."""

    def pair(b: int, h: int, i: int, j: int) -> Tensor:
        far = int(r[b][j][0] - p[b][i][0])
        return weight[oracles.t5_bucket(far, len(weight), 10, bidirectional), h]

    return pair


def clipped(table: Tensor, p: list, r: list) -> Pair:
    """Shaw et al.: https://arxiv.org/abs/1803.02155, as numbers instead of vectors."""
    last = (len(table) - 1) // 2

    def pair(b: int, h: int, i: int, j: int) -> Tensor:
        return table[min(max(int(p[b][i][0] - r[b][j][0]), -last), last) + last, h]

    return pair


def same(weight: Tensor, p: list, r: list) -> Pair:
    """Moirai: https://arxiv.org/abs/2402.02592."""
    return lambda b, h, i, j: weight[int(p[b][i][-1] == r[b][j][-1]), h]


def met(q: Tensor, tables: Sequence[Tensor], p: list, r: list) -> Pair:
    """MViTv2: https://arxiv.org/abs/2112.01526."""

    def pair(b: int, h: int, i: int, j: int) -> Tensor:
        vectors = [
            table[int(p[b][i][a] - r[b][j][a]) + (len(table) - 1) // 2]
            for a, table in enumerate(tables)
        ]
        return q[b, h, i] @ sum(vectors)

    return pair
