"""What is right, in float64 and by the papers' formulas, and how far an output is from it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Checked(NamedTuple):
    """How far an output is from what is right, and what that means."""

    error: float | None
    verdict: str | None
    note: str = ""


def angles(tokens: int, width: int, base: float = 10_000.0) -> Tensor:
    """Give angles ``(N, D / 2)`` of positions 0, 1, ... in float64."""
    pairs = torch.arange(width // 2, dtype=torch.float64)
    return torch.arange(tokens, dtype=torch.float64)[:, None] * base ** (-2 * pairs / width)


def turned(x: Tensor, layout: str, *, back: bool = False) -> Tensor:
    """Turn the pairs of ``(B, H, N, D)`` by positions 0, 1, ..., or back by them."""
    theta = angles(x.shape[-2], x.shape[-1]).to(x.device) * (-1 if back else 1)
    cos, sin, x = theta.cos(), theta.sin(), x.double()
    half = x.shape[-1] // 2
    out = torch.empty_like(x)
    slices = {
        "interleaved": (slice(0, None, 2), slice(1, None, 2)),
        "half": (slice(0, half), slice(half, None)),
    }
    first, second = slices[layout]
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def sinusoid(tokens: int, width: int, layout: str) -> Tensor:
    """Give Vaswani et al.'s table ``(N, D)``; sine before cosine, side by side or in halves."""
    theta = angles(tokens, width)
    if layout == "interleaved":
        return torch.stack((theta.sin(), theta.cos()), dim=-1).flatten(-2)
    return torch.cat((theta.sin(), theta.cos()), dim=-1)


def slopes(heads: int) -> Tensor:
    """Give ALiBi's slopes for a power of two of heads.

    Raises:
        ValueError: the number of heads is no power of two.
    """
    if heads < 1 or heads & (heads - 1):
        raise ValueError(f"heads must be a power of two for this check, got heads={heads}")
    return torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], dtype=torch.float64)


def alibi_row(heads: int, row: int, keys: int) -> Tensor:
    """Give the penalty ``(H, M)`` on keys at or before a query, and minus infinity behind it."""
    distance = row - torch.arange(keys, dtype=torch.float64)
    penalty = -slopes(heads)[:, None] * distance
    return penalty.masked_fill(distance < 0, -math.inf)


def t5_row(weight: Tensor, row: int, keys: int, most: int = 128) -> Tensor:
    """Give T5's bias ``(H, M)`` of a query; ``weight`` has half its buckets for each direction."""
    half = weight.shape[0] // 2
    exact = half // 2
    buckets = []
    for key in range(keys):
        far = abs(key - row)
        if far >= exact:
            scaled = math.log(far / exact) / math.log(most / exact) * (half - exact)
            far = min(exact + int(scaled), half - 1)
        buckets.append(far + half * (key > row))
    return weight.detach().double().cpu()[buckets].T


def attended(
    q: Tensor, k: Tensor, v: Tensor, rows: Sequence[int], biases: Sequence[Tensor]
) -> Tensor:
    """Attend from some query rows of ``(B, H, N, D)`` only: a matrix of all would be too large.

    Args:
        q: queries.
        k: keys.
        v: values.
        rows: which queries.
        biases: ``(H, M)`` of each of them.

    Returns:
        ``(B, H, len(rows), D)`` in float64.
    """
    out = []
    for row, bias in zip(rows, biases, strict=True):
        one = q[:, :, row].double()
        logits = torch.einsum("bhd,bhmd->bhm", one, k.double()) / math.sqrt(q.shape[-1])
        weights = (logits + bias.to(q.device)).softmax(-1)
        out.append(torch.einsum("bhm,bhmd->bhd", weights, v.double()))
    return torch.stack(out, dim=2)


def judged(
    outputs: Sequence[Tensor],
    wanted: Sequence[Tensor],
    dtype: torch.dtype,
    *,
    roundings: float = 8.0,
) -> Checked:
    """Compare outputs with what is right.

    ``"same"`` is right but for ``roundings`` of the dtype at the largest number, ``"coarser"``
    loses more than that, ``"other"`` is something else: another shape, another dtype, or off by a
    tenth of the largest number and more.
    """
    worst, largest = 0.0, 0.0
    for out, right in zip(outputs, wanted, strict=True):
        if out.shape != right.shape:
            shapes = f"shape {tuple(out.shape)}, not {tuple(right.shape)}"
            return Checked(None, "other", f"computes something else: {shapes}")
        off = (out.detach().double() - right).abs().nan_to_num(nan=math.inf)
        worst = max(worst, float(off.max()))
        largest = max(largest, float(right.abs().max()))
    if worst > 0.1 * largest:
        return Checked(worst, "other", "computes something else")
    wrong = {out.dtype for out in outputs} - {dtype}
    if wrong:
        names = ", ".join(sorted(str(d).removeprefix("torch.") for d in wrong))
        said = f"computes something else: {names} for {str(dtype).removeprefix('torch.')}"
        return Checked(worst, "other", said)
    if worst > roundings * torch.finfo(dtype).eps * largest:
        return Checked(worst, "coarser", "coarser than its dtype")
    return Checked(worst, "same")
