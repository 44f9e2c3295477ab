"""Refusing arguments: what was wanted, what came."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import torch
from torch import Tensor


def check_whole(least: int = 1, **arguments: object) -> None:
    """Refuse arguments that are not whole numbers of at least ``least``.

    Args:
        least: the smallest number allowed.
        arguments: values by the names that the caller knows them by.

    Raises:
        ValueError: one is no integer, or too small.
    """
    for name, value in arguments.items():
        whole = isinstance(value, (Integral, torch.SymInt)) and not isinstance(value, bool)
        if not whole or not value >= least:  # type: ignore[operator]
            raise ValueError(
                f"{name} must be a whole number of at least {least}, got {name}={value}"
            )


def check_number(least: float = 0.0, *, above: bool = False, **arguments: object) -> None:
    """Refuse arguments that are not finite numbers of at least ``least``.

    Args:
        least: the smallest number allowed.
        above: whether ``least`` itself is refused too.
        arguments: values by the names that the caller knows them by.

    Raises:
        ValueError: one is no finite number, or too small.
    """
    for name, value in arguments.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        try:
            value = float(value) if isinstance(value, Real) and number else math.nan
        except OverflowError:
            value = math.inf
        if not math.isfinite(value) or value < least or (above and value == least):
            raise ValueError(
                f"{name} must be a finite number {'above' if above else 'of at least'} {least}, "
                f"got {name}={arguments[name]!r}"
            )


def check_sizes(name: str, sizes: object) -> tuple[int, ...]:
    """Make a tuple of one number of cells, or one per axis.

    Args:
        name: what the caller knows the argument by.
        sizes: an integer or a sequence of integers.

    Returns:
        One size per axis.

    Raises:
        ValueError: there is none, or one is no whole number of at least 1.
    """
    each = tuple(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, str) else (sizes,)
    if not each:
        raise ValueError(f"{name} must name at least one axis, got {name}={sizes}")
    for size in each:
        check_whole(**{name: size})
    return each


def check_inside(
    name: str, values: Tensor, low: Sequence[int], high: Sequence[int], margin: float, advice: str
) -> None:
    """Refuse values outside a range that an entry, or a row, exists for.

    The error comes at the call. On CUDA, or in a compiled or exported graph, reading the answer
    back would stall the device or break the graph: there it is an asynchronous assertion.

    Args:
        name: what the values are, for the message.
        values: ``(..., A)``.
        low: smallest value per axis.
        high: largest value per axis.
        margin: how far outside a fractional value may lie.
        advice: what to do instead, for the message.

    Raises:
        ValueError: a value lies outside.
    """
    reach = margin if values.is_floating_point() else 0
    least = torch.tensor(tuple(low), device=values.device) - reach
    most = torch.tensor(tuple(high), device=values.device) + reach
    inside = ((values >= least) & (values <= most)).all(-1)
    if values.device.type == "meta":
        return
    if torch.compiler.is_compiling() or values.device.type == "cuda":
        torch._assert_async(inside.all(), f"{name} must lie from {tuple(low)} to {tuple(high)}")
    elif not inside.all():
        found = tuple(round(float(value), 4) for value in values[~inside][0])
        raise ValueError(
            f"{name} must lie from {tuple(low)} to {tuple(high)}, got {found}; {advice}"
        )


def check_indices(indices: Tensor, rows: int) -> None:
    """Refuse rows to keep that do not exist, negative ones included.

    Args:
        indices: ``(B, K)``.
        rows: how many there are.

    Raises:
        ValueError: another shape, no integers, or a row outside.
    """
    if indices.ndim != 2 or indices.is_floating_point() or indices.dtype == torch.bool:
        raise ValueError(
            f"indices must be integers (B, K), got shape {tuple(indices.shape)} and dtype "
            f"{indices.dtype}"
        )
    check_inside("indices", indices.unsqueeze(-1), [0], [rows - 1], 0, "count rows from 0")


def is_followed(*tensors: Tensor) -> bool:
    """Whether something else watches what is done to tensors, so that their numbers are not ours.

    Args:
        tensors: what is worked on.

    Returns:
        True while compiling, exporting or tracing, and where one is of a subclass of tensors.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return True
    return any(type(each) not in (Tensor, torch.nn.Parameter) for each in tensors)
