"""Positions times frequencies: angles that no large position or low precision can spoil."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from posenc_mm.frequencies.rows import TWO_PI

# Numbers of one matrix, or of one matrix per head.
Numbers = Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]

_WITHOUT_FLOAT64 = ("mps",)


def angles(positions: Tensor, frequencies: Numbers | Tensor) -> Tensor:
    r"""Multiply positions by frequencies, sum over the axes, and reduce to one turn.

    .. math:: \theta_{nf} = \sum_a p_{na} \, \omega_{af} \mod 2 \pi

    Products are elementwise and in float64 (in two float32 terms on a device without it), so that
    neither autocast nor TF32 nor a cast of the module can reach them: at position 10 million the
    error stays below 1e-6 rad.

    Args:
        positions: ``(..., N, A)``, integers or floats.
        frequencies: a matrix ``(A, F)``, or ``(H, A, F)``, one matrix per head; numbers or a
            tensor.

    Returns:
        ``(..., N, F)``, or ``(..., H, N, F)`` with one matrix per head, between :math:`-\pi` and
        :math:`\pi`; in float64 where the positions are, else in float32.

    Raises:
        ValueError: the positions' last dimension is not :math:`A`, they are booleans or complex, or
            the frequencies are not of one length.

    Example:
        >>> angles(torch.tensor([[7]]), [[1.0]])
        tensor([[0.7168]])
    """
    shape = tuple(frequencies.shape) if isinstance(frequencies, Tensor) else _shape(frequencies)
    if len(shape) not in (2, 3):
        raise ValueError(f"frequencies must be (A, F) or (H, A, F), got shape {shape}")
    axes = shape[-2]
    check_positions(positions, axes)
    columns = positions.unsqueeze(-3) if len(shape) == 3 else positions
    dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
    if positions.device.type in _WITHOUT_FLOAT64:
        return _angles_in_two_terms(columns, frequencies)
    if isinstance(frequencies, Tensor):
        matrix = frequencies.double()
    else:
        matrix = torch.tensor(frequencies, dtype=torch.float64, device=positions.device)
        matrix = matrix.reshape(shape)
    columns = columns.double()
    total = columns[..., 0, None] * matrix[..., 0, None, :]
    for axis in range(1, axes):
        total = total + columns[..., axis, None] * matrix[..., axis, None, :]
    return (total - TWO_PI * torch.round(total / TWO_PI)).to(dtype)


def check_positions(positions: Tensor, axes: int) -> None:
    """Refuse positions that an encoding with this many axes would broadcast to something else.

    Args:
        positions: what came.
        axes: the number of axes :math:`A` that is wanted.

    Raises:
        ValueError: they are not ``(..., N, A)`` of real numbers.
    """
    if positions.ndim < 2 or positions.shape[-1] != axes:
        raise ValueError(
            f"positions must be (..., N, {axes}) for an encoding of {axes} axes, got shape "
            f"{tuple(positions.shape)}"
        )
    if positions.dtype == torch.bool or positions.is_complex():
        raise ValueError(f"positions must be integers or floats, got dtype {positions.dtype}")


def _shape(numbers: Numbers) -> tuple[int, ...]:
    if depth(numbers) == 3:
        shapes = {_shape(cast(Sequence[Sequence[float]], matrix)) for matrix in numbers}
        if len(shapes) != 1:
            raise ValueError(
                f"frequencies must be matrices (H, A, F) of one shape, got {sorted(shapes)}"
            )
        return (len(numbers), *shapes.pop())
    widths = [len(row) if isinstance(row, Sequence) else 0 for row in numbers]
    if not widths or len(set(widths)) != 1 or not isinstance(numbers[0], Sequence):
        raise ValueError(f"frequencies must be rows (A, F) of one length, got lengths {widths}")
    return len(widths), widths[0]


def depth(numbers: Numbers) -> int:
    """Tell one matrix from one per head.

    Args:
        numbers: ``(A, F)`` or ``(H, A, F)``.

    Returns:
        2 or 3.
    """
    rows = [row for row in numbers if isinstance(row, Sequence)]
    return 3 if any(isinstance(first, Sequence) for row in rows for first in row[:1]) else 2


def _angles_in_two_terms(columns: Tensor, frequencies: Numbers | Tensor) -> Tensor:
    """Angles in float32 alone, in turns: two-term frequencies, products with their rounding."""
    if isinstance(frequencies, Tensor):
        high = frequencies.float() / TWO_PI
        low = torch.zeros_like(high)
    else:
        turns = torch.tensor(frequencies, dtype=torch.float64, device="cpu") / TWO_PI
        high = turns.float()
        low = (turns - high.double()).float().to(columns.device)
        high = high.to(columns.device)
    total = torch.zeros((), device=columns.device)
    for axis in range(columns.shape[-1]):
        position = columns[..., axis, None].float()
        fast, slow = high[..., axis, None, :], low[..., axis, None, :]
        product = position * fast
        error = _product_error(position, fast, product)
        part = (product - torch.round(product)) + (error + position * slow)
        total = total + (part - torch.round(part))
    return (total - torch.round(total)) * TWO_PI


def _product_error(a: Tensor, b: Tensor, product: Tensor) -> Tensor:
    """What rounding took from a float32 product, exactly (Dekker, 1971, https://doi.org/10.1007/BF01397083)."""
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _upper_half(x: Tensor) -> Tensor:
    spread = 4097.0 * x
    return spread - (spread - x)
