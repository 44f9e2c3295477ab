"""Axes of a layout by name or number."""

from collections.abc import Sequence
from typing import TypeAlias

from posenc_mm.checks import check_whole

Axes: TypeAlias = str | Sequence[int]


def numbers(name: str, value: object, axes: int) -> tuple[int, ...]:
    """Make numbers of a name for axes.

    Args:
        name: what the caller knows the axes by.
        value: ``"all"``, ``"time"``, ``"none"``, or the numbers themselves.
        axes: how many there are.

    Returns:
        The numbers, in order.

    Raises:
        ValueError: the name is unknown, or an axis is not there or there twice.
    """
    named = {"all": tuple(range(axes)), "time": (0,), "none": ()}
    if isinstance(value, str) and value in named:
        return named[value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        for axis in value:
            check_whole(0, **{name: axis})
        if len(set(value)) == len(value) and all(axis < axes for axis in value):
            return tuple(sorted(value))
    raise ValueError(
        f"{name} must be 'all', 'time', 'none' or numbers of {axes} axes, got {name}={value!r}"
    )
