"""Where a token is on a grid that covers a given extent, and in the order of merged patches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_sizes, check_whole
from posenc_mm.positions.grids import _mesh, _per_axis, grid


def stretched_grid(
    *sizes: int,
    length: float | Sequence[float],
    offset: float = 0.0,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Spread the cells of a grid over a length that does not depend on how many they are.

    .. math:: p = (i + o) \, l / n

    The first cell stays at 0 where the offset is 0 (EVA-02's way to another size), and is half a
    cell inside where it is 1/2; DETR counts from 1.

    Args:
        sizes: cells per axis :math:`n`.
        length: :math:`l`, one number or one per axis.
        offset: :math:`o`, in cells.
        device: where the result lives.

    Returns:
        ``(N, A)`` in float32.

    Raises:
        ValueError: a size below 1, no size, or a number of lengths other than :math:`A`.

    Example:
        >>> stretched_grid(1, 4, length=2)[:, 1].tolist()
        [0.0, 0.5, 1.0, 1.5]
    """
    check_sizes("sizes", sizes)
    lengths = _per_axis("length", length, len(sizes))
    _per_axis("offset", offset, 1)
    return _mesh(
        [
            (torch.arange(size, device=device).float() + offset) * (extent / size)
            for size, extent in zip(sizes, lengths, strict=True)
        ]
    )


def cropped_grid(
    *sizes: int, base: tuple[int, int], device: torch.device | str | None = None
) -> Tensor:
    """Fit the rows and columns of a grid into a base grid, keeping the aspect, in its middle.

    CogVideoX's way to another size: the last two axes run from the first cell of the largest crop
    of ``base`` that has the grid's aspect to :math:`(n - 1) / n` of its end. Other axes keep their
    index.

    Args:
        sizes: cells per axis, ``(time, height, width)`` or ``(height, width)``.
        base: rows and columns of the grid that the model was trained on.
        device: where the result lives.

    Returns:
        ``(N, A)`` in float32.

    Raises:
        ValueError: a size below 1, fewer than two, or ``base`` not two of them.

    Example:
        >>> cropped_grid(1, 4, base=(4, 8))[:, 1].tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    check_sizes("sizes", sizes)
    check_sizes("base", base)
    if len(sizes) < 2 or len(base) != 2:
        raise ValueError(
            f"sizes must end in height and width, and base be two, got sizes={sizes} and "
            f"base={base}"
        )
    tall = sizes[-2] * base[1] > base[0] * sizes[-1]
    scale = base[0] / sizes[-2] if tall else base[1] / sizes[-1]
    lines = [torch.arange(size, device=device).float() for size in sizes[:-2]]
    for axis, (size, whole) in enumerate(zip(sizes[-2:], base, strict=True)):
        extent = whole if tall == (axis == 0) else round(scale * size)
        start = round((whole - extent) / 2)
        step = ((start + extent) * (size - 1) / size - start) / max(size - 1, 1)
        lines.append(start + step * torch.arange(size, device=device).float())
    return _mesh(lines)


def merged_grid(
    height: int, width: int, *, merge: int, device: torch.device | str | None = None
) -> Tensor:
    """Index the patches of a grid block by block, in the order of models that merge neighbours.

    Args:
        height: rows, a multiple of ``merge``.
        width: columns, a multiple of ``merge``.
        merge: rows and columns of a block.
        device: where the result lives.

    Returns:
        ``(N, 2)`` in int64: the rows of :func:`grid`, those of the first block first.

    Raises:
        ValueError: a size is not a positive multiple of ``merge``.

    Example:
        >>> merged_grid(2, 4, merge=2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    """
    check_whole(height=height, width=width, merge=merge)
    if height % merge or width % merge:
        raise ValueError(
            f"height and width must be multiples of merge={merge}, got {height} x {width}"
        )
    blocks = (height // merge, merge, width // merge, merge, 2)
    return grid(height, width, device=device).reshape(blocks).transpose(1, 2).flatten(0, 3)
