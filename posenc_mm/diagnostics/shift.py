"""Whether the output moves with the input: positions moved, or contents moved."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.checks import check_sizes, check_whole
from posenc_mm.diagnostics.quiet import undisturbed


class PositionShift(NamedTuple):
    """How much an output changes as all positions move.

    Attributes:
        offsets: by which they move, in their own unit.
        changes: ``(S,)`` relative change of the output at each, float64.
    """

    offsets: tuple[float, ...]
    changes: Tensor


class ContentShift(NamedTuple):
    """How well features of patches move along with what the image shows.

    Attributes:
        moves: ``(rows, columns)`` in patches by which the contents moved.
        errors: ``(S,)`` relative difference of features that moved along, float64; 0: they did.
        stayed: ``(S,)`` the same if the features are looked for where they were: what an error
            is where features do not move at all.
    """

    moves: tuple[tuple[int, int], ...]
    errors: Tensor
    stayed: Tensor


def shift_positions(
    output: Callable[[float], Tensor], offsets: Sequence[float] = (1, 2, 4, 8, 16, 32, 64)
) -> PositionShift:
    r"""Move all positions by an offset, leave all contents, and see how much the output changes.

    .. math:: \frac{\lVert y(p + o) - y(p) \rVert_2}{\lVert y(p) \rVert_2}

    It is 0, to rounding, for an encoding that is relative: one that knows differences of positions
    only. It is above 0 for an absolute one, and tells how much the model makes of it.

    Args:
        output: gives the output with all positions moved by an offset. A module is evaluated
            without dropout; a function runs as it is: call ``eval()`` on its model before.
        offsets: in the unit of the positions.

    Returns:
        The change at each offset.

    Raises:
        ValueError: there is no offset, or the output is of another shape at some.

    Example:
        >>> from posenc_mm import Rotary, Transformer, sequence
        >>> model, x = Transformer(16, 1, 2, rotary=Rotary(8)).eval(), torch.randn(1, 5, 16)
        >>> moved = shift_positions(lambda offset: model(x, sequence(5) + int(offset)), [1, 100])
        >>> bool((moved.changes < 1e-5).all())
        True
    """
    if not offsets:
        raise ValueError("offsets must have one at least, got none")
    with undisturbed(output):
        still = output(0)
        changes = []
        for offset in offsets:
            moved = output(offset)
            if moved.shape != still.shape:
                raise ValueError(
                    f"output must be of one shape, got {tuple(still.shape)} at 0 and "
                    f"{tuple(moved.shape)} at {offset}"
                )
            changes.append(_relative(moved, still))
    return PositionShift(tuple(offsets), torch.stack(changes))


def shift_contents(
    features: Callable[[Tensor], Tensor],
    images: Tensor,
    patch: int | Sequence[int],
    moves: Sequence[tuple[int, int]] | None = None,
    *,
    margin: int = 1,
    fill: float = 0.0,
) -> ContentShift:
    r"""Move what images show by whole patches, and see whether the features of patches move along.

    The middle of each image is laid on an empty canvas of the image's own size, ``margin`` patches
    from its edges, and moved within it. Features of the patches that show it are compared with
    those where it had been laid first:

    .. math:: \frac{\sum \lVert F_{r + i, c + j}(\text{moved by } r, c) - F_{i, j} \rVert_2^2}
              {\sum \lVert F_{i, j} \rVert_2^2}, \text{ its root}

    A model without any encoding has 0, since its patches are a set. A relative encoding has little,
    not 0: the empty patches around lie elsewhere, seen from the contents. An absolute one has more.

    Args:
        features: images ``(B, C, H, W)`` to features ``(B, D, h, w)`` of their patches; a module or
            a function, as for :func:`shift_positions`.
        images: ``(B, C, H, W)`` in whole patches.
        patch: pixels, one number or (height, width).
        moves: ``(rows, columns)`` in patches, each at most ``margin``; the eight neighbours at
            that distance unless given.
        margin: patches around the contents.
        fill: of the canvas.

    Returns:
        The errors, and what they would be if nothing moved along.

    Raises:
        ValueError: images are not of whole patches or have none left within the margin, a move
            leaves the canvas, or features are not of these patches.

    Example:
        >>> patches = torch.nn.Conv2d(3, 8, 4, stride=4)
        >>> shift_contents(patches, torch.randn(1, 3, 24, 32), patch=4).errors.max() < 1e-6
        tensor(True)
    """
    height, width = _patch(patch)
    check_whole(margin=margin)
    if images.ndim != 4 or images.shape[2] % height or images.shape[3] % width:
        raise ValueError(
            f"images must be (B, C, H, W) in whole patches of {height} x {width}, got shape "
            f"{tuple(images.shape)}"
        )
    rows, columns = images.shape[2] // height, images.shape[3] // width
    inner = (rows - 2 * margin, columns - 2 * margin)
    if min(inner) < 1:
        raise ValueError(
            f"margin must leave a patch in the middle of {rows} x {columns}, got margin={margin}"
        )
    if moves is None:
        steps = (-margin, 0, margin)
        moves = [(row, column) for row in steps for column in steps if (row, column) != (0, 0)]
    if not moves or any(abs(step) > margin for move in moves for step in move):
        raise ValueError(f"moves must stay within margin={margin}, got moves={moves}")
    at = (slice(margin * height, images.shape[2] - margin * height),
          slice(margin * width, images.shape[3] - margin * width))  # fmt: skip
    canvas = torch.full_like(images, fill)
    canvas[..., at[0], at[1]] = images[..., at[0], at[1]]
    with undisturbed(features):
        first = _of_patches(features, canvas, rows, columns)
        still = _window(first, margin, margin, inner)
        errors, stayed = [], []
        for row, column in moves:
            moved = canvas.roll((row * height, column * width), dims=(2, 3))
            found = _of_patches(features, moved, rows, columns)
            errors.append(_relative(_window(found, margin + row, margin + column, inner), still))
            stayed.append(_relative(_window(found, margin, margin, inner), still))
    return ContentShift(tuple(moves), torch.stack(errors), torch.stack(stayed))


def _patch(patch: int | Sequence[int]) -> tuple[int, int]:
    sizes = check_sizes("patch", patch)
    if len(sizes) not in (1, 2):
        raise ValueError(f"patch must be one number or (height, width), got patch={patch}")
    return sizes[0], sizes[-1]


def _of_patches(
    features: Callable[[Tensor], Tensor], images: Tensor, rows: int, columns: int
) -> Tensor:
    found = features(images)
    if found.ndim != 4 or found.shape[2:] != (rows, columns):
        raise ValueError(
            f"features must be (B, D, h, w) of {rows} x {columns} patches, got shape "
            f"{tuple(found.shape)}"
        )
    return found


def _window(x: Tensor, row: int, column: int, size: tuple[int, int]) -> Tensor:
    return x[..., row : row + size[0], column : column + size[1]]


def _relative(moved: Tensor, still: Tensor) -> Tensor:
    """The norm of a difference over that of where it started; of nothing at all, 0."""
    change = (moved.double() - still.double()).norm()
    relative: Tensor = change / still.double().norm().clamp(min=torch.finfo(torch.float64).tiny)
    return relative
