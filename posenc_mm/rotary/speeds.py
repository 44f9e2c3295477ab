"""The frequencies that a rotary encoding is asked for, checked."""

import math
from collections.abc import Sequence
from functools import partial
from typing import cast

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Allocation, Matrices, Matrix, axial, geometric
from posenc_mm.frequencies.turning import Numbers, depth


def ladders(
    head_dim: int,
    axes: int,
    base: float | Sequence[float],
    rotary_dim: int | Sequence[int] | None,
    freq_dim: int | None,
) -> Matrix:
    """Give each axis a ladder of its own.

    Args:
        head_dim: channels of a head.
        axes: number of axes.
        base: of the ladders, one number or one per axis.
        rotary_dim: channels that turn, split evenly, or those of each axis; all unless given.
        freq_dim: channels over which the exponents run.

    Returns:
        ``(A, F)``

    Raises:
        ValueError: a width does not divide or does not fit, or bases are not one per axis.
    """
    bases = list(base) if isinstance(base, Sequence) else [base] * axes
    if len(bases) != axes:
        raise ValueError(f"base must be one number or one per axis ({axes}), got base={base}")
    if isinstance(rotary_dim, Sequence):
        widths = _widths(head_dim, axes, rotary_dim)
        if freq_dim is not None:
            raise ValueError(
                f"freq_dim is for axes of one width, got freq_dim={freq_dim} and "
                f"rotary_dim={rotary_dim}"
            )
        return axial(*[geometric(w // 2, own) for w, own in zip(widths, bases, strict=True)])
    turning = head_dim if rotary_dim is None else rotary_dim
    what = "head_dim" if rotary_dim is None else "rotary_dim"
    check_whole(**{what: turning})
    if turning % (2 * axes) or turning > head_dim:
        fitting = head_dim - head_dim % (2 * axes)
        raise ValueError(
            f"{what} must be a positive multiple of 2 * axes = {2 * axes} and fit head_dim, got "
            f"{what}={turning}, head_dim={head_dim} and axes={axes}; rotary_dim={fitting} would "
            f"turn the most channels that fit"
        )
    width = _exponents(turning, freq_dim)
    pairs = turning // (2 * axes)
    return axial(*[geometric(pairs, own, width=width / axes) for own in bases])


def allocated(
    head_dim: int,
    axes: int,
    base: float | Sequence[float],
    rotary_dim: int | Sequence[int] | None,
    freq_dim: int | None,
    allocation: Allocation,
) -> Matrix | Matrices:
    """Deal one ladder over all pairs to the axes.

    Args:
        head_dim: channels of a head.
        axes: number of axes.
        base: of the ladder, one number.
        rotary_dim: channels that turn, one number; all unless given.
        freq_dim: channels over which the exponents run.
        allocation: how the ladder is dealt.

    Returns:
        ``(A, F)`` or ``(H, A, F)``

    Raises:
        ValueError: there is not one base and one width, the width is odd or does not fit, or
            ``allocation`` gives something else.
    """
    if isinstance(base, Sequence) or isinstance(rotary_dim, Sequence):
        raise ValueError(
            f"allocation deals one ladder: base and rotary_dim must be one number each, got "
            f"base={base} and rotary_dim={rotary_dim}"
        )
    turning = head_dim if rotary_dim is None else rotary_dim
    check_whole(2, rotary_dim=turning)
    if turning % 2 or turning > head_dim:
        raise ValueError(
            f"rotary_dim must be even and fit head_dim, got rotary_dim={turning} and "
            f"head_dim={head_dim}"
        )
    row = geometric(turning // 2, base, width=_exponents(turning, freq_dim))
    matrix = checked("allocation", allocation(row), axes, head_dim)
    if 2 * pairs_of(matrix) != turning:
        raise ValueError(
            f"allocation must give as many frequencies as the ladder has, {turning // 2}, got "
            f"{pairs_of(matrix)}"
        )
    return matrix


def checked(name: str, numbers: Numbers, axes: int, head_dim: int) -> Matrix | Matrices:
    """Make tuples of a matrix, or of one per head.

    Args:
        name: what the caller knows them by.
        numbers: ``(A, F)`` or ``(H, A, F)``.
        axes: number of axes that is wanted.
        head_dim: channels of a head.

    Returns:
        The same numbers.

    Raises:
        ValueError: one is not finite, or the shape is another.
    """
    if depth(numbers) == 3:
        matrices = cast(Sequence[Sequence[Sequence[float]]], numbers)
        each = tuple(_matrix(name, matrix, axes, head_dim) for matrix in matrices)
        if len({len(matrix[0]) for matrix in each}) != 1:
            raise ValueError(
                f"{name} must be (H, {axes}, F) with as many frequencies in each head, got "
                f"{[len(matrix[0]) for matrix in each]}"
            )
        return each
    return _matrix(name, cast(Sequence[Sequence[float]], numbers), axes, head_dim)


def said_twice(
    frequencies: Matrix | Matrices,
    base: object,
    rotary_dim: object,
    freq_dim: object,
    allocation: object,
) -> None:
    """Refuse what frequencies that are given already say.

    Args:
        frequencies: ``(A, F)`` or ``(H, A, F)``.
        base: None if it was left out.
        rotary_dim: likewise, or twice :math:`F`.
        freq_dim: likewise.
        allocation: likewise.

    Raises:
        ValueError: one was given.
    """
    given = {"base": base, "freq_dim": freq_dim, "allocation": allocation}
    if rotary_dim != 2 * pairs_of(frequencies):
        given["rotary_dim"] = rotary_dim
    if any(value is not None for value in given.values()):
        raise ValueError(
            f"base, rotary_dim, freq_dim and allocation follow from frequencies: leave them out, "
            f"got {given}"
        )


def pairs_of(frequencies: Matrix | Matrices) -> int:
    """Count the pairs of a head.

    Args:
        frequencies: ``(A, F)`` or ``(H, A, F)``.

    Returns:
        :math:`F`
    """
    first = frequencies[0] if depth(frequencies) == 2 else frequencies[0][0]
    return len(cast(Sequence[float], first))


def said(allocation: Allocation) -> str:
    """Name an allocation without the address that Python prints.

    Args:
        allocation: a function, or a partial of one.

    Returns:
        Such as ``sections(counts=(1, 2))``.
    """
    if isinstance(allocation, partial):
        given = [repr(value) for value in allocation.args]
        given += [f"{name}={value!r}" for name, value in allocation.keywords.items()]
        return f"{said(allocation.func)}({', '.join(given)})"
    return getattr(allocation, "__qualname__", None) or repr(allocation)


def _matrix(name: str, numbers: Sequence[Sequence[float]], axes: int, head_dim: int) -> Matrix:
    matrix = tuple(tuple(float(f) for f in row) for row in numbers)
    widths = {len(row) for row in matrix}
    if not all(math.isfinite(f) for row in matrix for f in row):
        raise ValueError(f"{name} must be finite, got {name}={matrix}")
    if len(matrix) != axes or len(widths) != 1 or not 0 < 2 * min(widths) <= head_dim:
        raise ValueError(
            f"{name} must be ({axes}, F) with 2F at most head_dim={head_dim}, got rows of "
            f"lengths {[len(row) for row in matrix]}"
        )
    return matrix


def _widths(head_dim: int, axes: int, widths: Sequence[int]) -> Sequence[int]:
    for width in widths:
        check_whole(0, rotary_dim=width)
    odd = [width for width in widths if width % 2]
    if len(widths) != axes or odd or not 0 < sum(widths) <= head_dim:
        raise ValueError(
            f"rotary_dim must be one number, or an even one for each of {axes} axes that together "
            f"fit head_dim={head_dim}, got rotary_dim={tuple(widths)}"
        )
    return widths


def _exponents(turning: int, freq_dim: int | None) -> int:
    width = turning if freq_dim is None else freq_dim
    check_whole(freq_dim=width)
    if width < turning:
        raise ValueError(
            f"freq_dim must be at least the {turning} channels that turn, got freq_dim={freq_dim}"
        )
    return width
