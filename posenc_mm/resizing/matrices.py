"""Rules as matrices, and the product of each with its axis."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from posenc_mm.checks import check_sizes, check_whole
from posenc_mm.resizing.rules import Rule, rule_of
from posenc_mm.tables import cubic
from posenc_mm.timestamps.civil import real_of


def matrix(
    source: int,
    target: int,
    rule: str | Rule = "timm",
    *,
    device: torch.device | str | None = None,
) -> Tensor:
    """Write a rule for one axis as the matrix that resizes it.

    Rows sum to 1. ``target`` may be symbolic, as in an exported graph.

    Args:
        source: entries :math:`n` that there are.
        target: entries :math:`m` that are wanted.
        rule: a rule, or the name of one.
        device: where the result lives.

    Returns:
        ``(m, n)`` in float64, or float32 on devices without it.

    Raises:
        ValueError: a length below 1, or no such rule.

    Example:
        >>> matrix(4, 2, "area").tolist()
        [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    check_whole(source=source, target=target)
    place = torch.empty(0, device=device).device
    found = rule_of(rule)
    return _weights(source, target, found, found.offset, place)


def resample(values: Tensor, source: Sequence[int], target: Sequence[int], rule: Rule) -> Tensor:
    """Resize the leading axes of a grid, one product per axis.

    Args:
        values: ``(*source, D)``.
        source: entries per axis.
        target: entries wanted per axis, which may be symbolic.
        rule: how.

    Returns:
        ``(*target, D)`` in float64, or float32 on devices without it.

    Raises:
        ValueError: the rule keeps the aspect ratio, and the target does not.
    """
    if rule.keep_aspect and any(
        new * source[0] != target[0] * old for old, new in zip(source, target, strict=True)
    ):
        raise ValueError(
            f"this rule scales all axes alike and is not defined from {tuple(source)} to "
            f"{tuple(target)}, keep the aspect ratio or choose another rule; got {rule}"
        )
    offset: float | Tensor = rule.offset
    if rule.offset and not unchanging(target):
        # Which grid is only known as the graph runs: at the source's own, nothing may move.
        pairs = zip(source, target, strict=True)
        counts = [torch.arange(new, device=values.device).amax() + 1 == old for old, new in pairs]
        offset = rule.offset * ~torch.stack(counts).all()
    return apply(
        [
            _weights(old, new, rule, offset, values.device)
            for old, new in zip(source, target, strict=True)
        ],
        values,
    )


def apply(matrices: Sequence[Tensor], values: Tensor) -> Tensor:
    """Multiply each leading axis of a grid by its matrix.

    Args:
        matrices: ``(m_a, n_a)`` per axis.
        values: ``(n_1, ..., n_A, ...)``.

    Returns:
        ``(m_1, ..., m_A, ...)`` in the matrices' dtype.
    """
    out = values.to(matrices[0].dtype)
    # Autocast leaves float64 alone; where a device has none, its products are kept from rounding.
    if out.dtype == torch.float32:
        with torch.autocast(out.device.type, enabled=False):
            return _product(matrices, out)
    return _product(matrices, out)


def unchanging(sizes: Sequence[int]) -> bool:
    """Whether sizes are numbers now, not symbols whose comparison would tie a graph to the answer.

    Args:
        sizes: entries per axis.

    Returns:
        The answer.
    """
    return not torch.compiler.is_compiling() and all(isinstance(size, Integral) for size in sizes)


def check_grids(source: object, target: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Refuse two grids that no rule leads from one to the other.

    Args:
        source: entries per axis.
        target: entries wanted per axis.

    Returns:
        Both as tuples.

    Raises:
        ValueError: a size below 1, or another number of axes.
    """
    old, new = check_sizes("source", source), check_sizes("target", target)
    if len(old) != len(new):
        raise ValueError(
            f"source and target must have the same number of axes, got source={old}, target={new}"
        )
    return old, new


def _product(matrices: Sequence[Tensor], values: Tensor) -> Tensor:
    for axis, weights in enumerate(matrices):
        values = torch.tensordot(weights, values, dims=([1], [axis])).movedim(0, axis)
    return values


def _weights(
    source: int, target: int, rule: Rule, offset: float | Tensor, device: torch.device
) -> Tensor:
    real = real_of(device)
    rows = torch.arange(target, device=device).unsqueeze(1)
    cells = torch.arange(source, device=device)
    # Whole numbers: a rounded quotient would pick a neighbour.
    if rule.kernel == "nearest":
        return (cells == (2 * rows + 1) * source // (2 * target)).to(real)
    if rule.kernel == "area":
        first, end = rows * source // target, ((rows + 1) * source + target - 1) // target
        return ((cells >= first) & (cells < end)).to(real) / (end - first).to(real)
    rows, cells = rows.to(real), cells.to(real)
    if rule.align_corners:
        at = rows * ((source - 1) / rows.amax().clamp(min=1))
    else:
        step = torch.ones_like(rows) * (source / (target + offset))
        at = (rows + 0.5) * step - 0.5
    if rule.antialias:
        weights = _kernel(rule.kernel, (cells - at) / step.clamp(min=1), -0.5)
        return weights / weights.sum(1, keepdim=True)
    if rule.kernel == "linear":
        return _kernel("linear", cells - at.clamp(0, source - 1), 0.0)
    parts = [
        _kernel("cubic", at - near, -0.75) * (cells == near.clamp(0, source - 1))
        for near in [at.floor() + shift for shift in (-1, 0, 1, 2)]
    ]
    return torch.stack(parts).sum(0)


def _kernel(name: str, distance: Tensor, a: float) -> Tensor:
    x = distance.abs()
    if name == "linear":
        return (1 - x).clamp(min=0)
    return cubic(x, a)
