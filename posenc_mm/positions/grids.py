"""Where a token is on a grid of any number of axes: by index, from the centre, normalised."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from posenc_mm.checks import check_sizes


def grid(
    *sizes: int,
    offset: float | Sequence[float] = 0,
    step: float | Sequence[float] = 1,
    device: torch.device | str | None = None,
) -> Tensor:
    """Index the cells of a grid with any number of axes, row by row.

    Args:
        sizes: cells per axis, ``grid(height, width)`` or ``grid(time, height, width)``.
        offset: position of the first cell, one number or one per axis.
        step: distance between neighbours, one number or one per axis.
        device: where the result lives.

    Returns:
        ``(N, A)`` with :math:`N` the product of the sizes. Token ``r * width + c`` is row r, column
        c. In int64 when offset and step are integers, else in float32.

    Raises:
        ValueError: a size below 1, no size, a number of offsets or steps other than :math:`A`, or
            one that is not finite.

    Example:
        >>> grid(2, 3).tolist()
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    check_sizes("sizes", sizes)
    offsets, steps = _per_axis("offset", offset, len(sizes)), _per_axis("step", step, len(sizes))
    whole = all(isinstance(number, (Integral, torch.SymInt)) for number in (*offsets, *steps))
    lines = [
        torch.arange(size, device=device) * stride + start
        for size, start, stride in zip(sizes, offsets, steps, strict=True)
    ]
    return _mesh([line.to(torch.int64 if whole else torch.float32) for line in lines])


def centred_grid(*sizes: int, device: torch.device | str | None = None) -> Tensor:
    """Index the cells of a grid from its centre, in cells.

    Args:
        sizes: cells per axis.
        device: where the result lives.

    Returns:
        ``(N, A)`` in float32: :math:`i - (n - 1) / 2` along an axis of :math:`n` cells.

    Raises:
        ValueError: a size below 1, or no size.

    Example:
        >>> centred_grid(1, 4)[:, 1].tolist()
        [-1.5, -0.5, 0.5, 1.5]
    """
    check_sizes("sizes", sizes)
    return _mesh([torch.arange(n, device=device).float() - (n - 1) / 2 for n in sizes])


def normalised_grid(
    *sizes: int,
    ends: str = "centres",
    by: str = "axis",
    device: torch.device | str | None = None,
) -> Tensor:
    """Place the cells of a grid between -1 and 1, whatever its size.

    Args:
        sizes: cells per axis.
        ends: ``"centres"`` puts cell i at :math:`2 (i + 1/2) / n - 1`, half a cell inside the
            interval (DINOv3); ``"edges"`` puts the first and last cell at -1 and 1 (the pixel
            coordinates of RvT), and a single cell at -1.
        by: the size that divides: each ``"axis"`` its own, or for all axes the ``"min"`` or
            ``"max"`` of the sizes, which keeps the aspect ratio. Only with ``"centres"``.
        device: where the result lives.

    Returns:
        ``(N, A)`` in float32.

    Raises:
        ValueError: a size below 1, no size, an unknown name, or ``by`` other than ``"axis"`` with
            ``ends="edges"``.

    Example:
        >>> normalised_grid(1, 4)[:, 1].tolist()
        [-0.75, -0.25, 0.25, 0.75]
    """
    check_sizes("sizes", sizes)
    if ends not in ("centres", "edges"):
        raise ValueError(f"ends must be 'centres' or 'edges', got ends={ends!r}")
    if by not in ("axis", "min", "max") or (ends == "edges" and by != "axis"):
        raise ValueError(
            f"by must be 'axis', or 'min' or 'max' with ends='centres', got by={by!r} "
            f"and ends={ends!r}"
        )
    if ends == "edges":
        counts = [(torch.arange(n, device=device).float(), n) for n in sizes]
        return _mesh([2 * count / max(n - 1, 1) - 1 for count, n in counts])
    divisors: Any = sizes
    if by != "axis":
        # A Python min or max would freeze the winner into an exported graph.
        each = torch.stack([torch.arange(n, device=device).float().amax() + 1 for n in sizes])
        divisors = [each.amin() if by == "min" else each.amax()] * len(sizes)
    return _mesh(
        [
            (2 * torch.arange(n, device=device).float() + 1) / divisor - 1
            for n, divisor in zip(sizes, divisors, strict=True)
        ]
    )


def rescale(positions: Tensor, source: Sequence[int], target: Sequence[int]) -> Tensor:
    r"""Express positions on one grid in the cells of another that covers the same area.

    .. math:: p' = (p + \tfrac{1}{2}) \, n_{target} / n_{source} - \tfrac{1}{2}

    Cell centres stay cell centres of the picture, as in half-pixel image resizing. A learned table
    that is read at such positions is a table resized.

    Args:
        positions: ``(..., N, A)`` on the source grid.
        source: cells per axis of the grid that the positions are on.
        target: cells per axis of the grid to express them in.

    Returns:
        ``(..., N, A)``, unchanged where the grids are equal, else floating.

    Raises:
        ValueError: the numbers of axes differ, or a size is below 1.

    Example:
        >>> rescale(grid(4), (4,), (2,))[:, 0].tolist()
        [-0.25, 0.25, 0.75, 1.25]
    """
    check_sizes("source", source)
    check_sizes("target", target)
    if not len(source) == len(target) == positions.shape[-1]:
        raise ValueError(
            f"source, target and positions must have the same number of axes, got "
            f"source={tuple(source)}, target={tuple(target)} and positions of shape "
            f"{tuple(positions.shape)}"
        )
    # Comparing symbolic sizes, as in an exported graph, would tie the graph to the answer.
    known = all(isinstance(size, Integral) for size in (*source, *target))
    if known and not torch.compiler.is_compiling() and tuple(source) == tuple(target):
        return positions
    work = positions if positions.dtype == torch.float64 else positions.float()
    columns = [
        (work[..., axis] + 0.5) * (new / old) - 0.5
        for axis, (old, new) in enumerate(zip(source, target, strict=True))
    ]
    return torch.stack(columns, dim=-1)


def _mesh(lines: list[Tensor]) -> Tensor:
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1).flatten(0, -2)


def _per_axis(name: str, value: float | Sequence[float], axes: int) -> Sequence[float]:
    numbers = list(value) if isinstance(value, Iterable) else [value] * axes
    if len(numbers) != axes:
        raise ValueError(f"{name} must be one number or one per axis ({axes}), got {name}={value}")
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"{name} must be finite, got {name}={value}")
    return numbers
