"""Encodings made of encodings: which parts there are, which axes each reads, how they are shown."""

import itertools
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from posenc_mm.checks import check_whole

Axes = tuple[tuple[int, ...], ...] | None
Part = TypeVar("Part", bound=nn.Module)


def check_parts(
    name: str,
    parts: Iterable[Part],
    kind: type[nn.Module],
    axes: Iterable[Iterable[int]] | None,
) -> tuple[list[Part], Axes]:
    """Refuse parts of another kind, and axes that are not given part by part.

    Args:
        name: what the caller knows the parts by.
        parts: a list of encodings.
        kind: of every part.
        axes: a list of axis numbers per part, or None: every part reads all axes.

    Returns:
        The parts, and the axes as tuples.

    Raises:
        ValueError: there is no part, one is of another kind, or ``axes`` are not as said.
    """
    each = list(parts) if isinstance(parts, Iterable) else []
    if not each or not all(isinstance(part, kind) for part in each):
        raise ValueError(
            f"{name} must be a list of at least one {kind.__name__}, got {name}={parts}"
        )
    if axes is None:
        return each, None
    owns = list(axes) if isinstance(axes, Iterable) else []
    if len(owns) != len(each) or not all(isinstance(own, Iterable) and [*own] for own in owns):
        raise ValueError(
            f"axes must be a list of axis numbers for each of {len(each)} {name}, got axes={axes}"
        )
    for axis in itertools.chain(*owns):
        check_whole(0, axes=axis)
    return each, tuple(tuple(own) for own in owns)


def read(positions: Tensor, axes: Axes, count: int) -> list[Tensor]:
    """Give each part the axes of the positions that it reads, in its order.

    Args:
        positions: ``(..., N, A)``.
        axes: as :func:`check_parts` returns them.
        count: number of parts.

    Returns:
        One tensor per part.

    Raises:
        ValueError: positions lack an axis.
    """
    if axes is None:
        return [positions] * count
    last = max(itertools.chain(*axes))
    if positions.ndim < 2 or positions.shape[-1] <= last:
        raise ValueError(
            f"positions must be (..., N, A) with at least {last + 1} axes for axes={axes}, got "
            f"shape {tuple(positions.shape)}"
        )
    return [torch.stack([positions[..., axis] for axis in own], dim=-1) for own in axes]


def describe(name: str, parts: Iterable[nn.Module], axes: Axes) -> str:
    """Name all parts with all their arguments, on one line: the ``extra_repr`` of the whole."""
    each = ", ".join(f"{type(part).__name__}({part.extra_repr()})" for part in parts)
    return f"{name}=[{each}], axes={axes}"


def reset(parts: Iterable[nn.Module]) -> None:
    """Start anew what is learned in the parts."""
    for part in parts:
        restart = getattr(part, "reset_parameters", None)
        if restart is not None:
            restart()
