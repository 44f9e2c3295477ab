"""Where the two members of a pair sit among the channels, and how weights move between layouts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_whole

LAYOUTS = ("interleaved", "half")
# Those that differ by the order of channels alone, then what one family of checkpoints needs.
PERMUTED_LAYOUTS = (*LAYOUTS, "axis_half")
ROTARY_LAYOUTS = (*PERMUTED_LAYOUTS, "vjepa2")


def check_layout(layout: str, known: Sequence[str] = LAYOUTS) -> None:
    """Refuse a layout that is unknown.

    Args:
        layout: the name to check.
        known: the names that are allowed, ``"interleaved"`` and ``"half"`` unless given.

    Raises:
        ValueError: the name is none of them.
    """
    if layout not in known:
        raise ValueError(f"layout must be one of {tuple(known)}, got layout={layout!r}")


def convert_layout(
    weight: Tensor,
    heads: int,
    *,
    source: str,
    target: str,
    rotary_dim: int | None = None,
    axes: int = 1,
) -> Tensor:
    """Reorder the rows of a query or key projection for another rotary layout.

    A model trained with one layout and run with the other computes fluent nonsense. After
    converting the projections of both queries and keys (weights, biases, and the gains of per-head
    query and key norms) every attention score is what it was. A whole state dict is converted by
    :func:`convert_checkpoint`.

    The sections of M-RoPE, chunked or strided, are no layout: they give other frequencies to the
    axes, which no order of channels can undo.

    Args:
        weight: ``(H * D, ...)``: the projection's weight or bias, with D channels per head; a
            norm's gain ``(D,)`` with ``heads=1``. Grouped keys have their own, smaller ``heads``.
        heads: number of heads :math:`H` in ``weight``.
        source: layout that it was trained with, ``"interleaved"``, ``"half"`` or ``"axis_half"``.
        target: layout to convert to, one of these.
        rotary_dim: number of leading channels that turn, all of a head's unless given; the others
            stay where they are.
        axes: number of axes :math:`A`, the blocks of ``"axis_half"``; the others do not need it.

    Returns:
        A tensor like ``weight`` with its rows permuted.

    Raises:
        ValueError: a layout is unknown or not a matter of order, ``heads`` does not divide the
            rows, or ``rotary_dim`` is no multiple of 2 (of ``2 * axes``) or wider than a head.

    Example:
        >>> convert_layout(torch.arange(6), heads=1, source="interleaved", target="half")
        tensor([0, 2, 4, 1, 3, 5])
    """
    check_layout(source, PERMUTED_LAYOUTS)
    check_layout(target, PERMUTED_LAYOUTS)
    check_whole(heads=heads, axes=axes)
    if weight.ndim < 1 or weight.shape[0] % heads:
        raise ValueError(
            f"heads must divide the rows of weight, got heads={heads} and shape "
            f"{tuple(weight.shape)}"
        )
    width = weight.shape[0] // heads
    turning = width if rotary_dim is None else rotary_dim
    blocks = axes if "axis_half" in (source, target) else 1
    if turning % (2 * blocks) or not 0 <= turning <= width:
        raise ValueError(
            f"rotary_dim must be a multiple of {2 * blocks} and at most the {width} channels of a "
            f"head, got rotary_dim={turning}"
        )
    if source == target:
        return weight.clone()
    order = torch.arange(width, device=weight.device)
    order[_channels(target, turning, blocks)] = _channels(source, turning, blocks).to(weight.device)
    rows = (torch.arange(heads, device=weight.device)[:, None] * width + order).reshape(-1)
    return weight[rows]


def _channels(layout: str, turning: int, blocks: int) -> Tensor:
    """Where the first members of all pairs lie, then the second ones."""
    channels = torch.arange(turning)
    if layout == "half":
        return channels
    if layout == "interleaved":
        return channels.reshape(-1, 2).T.reshape(-1)
    return channels.reshape(blocks, 2, -1).transpose(0, 1).reshape(-1)
