"""Where the two members of a pair sit among the channels, and how weights move between layouts."""

from typing import Literal, get_args

import torch
from torch import Tensor

Layout = Literal["interleaved", "half"]
LAYOUTS = get_args(Layout)


def check_layout(layout: str) -> None:
    """Refuse a layout that is not one of ``"interleaved"`` and ``"half"``.

    Args:
        layout: the name to check.

    Raises:
        ValueError: the name is unknown.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}, got layout={layout!r}")


def convert_layout(
    weight: Tensor, heads: int, *, source: str, target: str, rotary_dim: int | None = None
) -> Tensor:
    """Reorder the rows of a query or key projection for the other rotary layout.

    A model trained with one layout and run with the other computes fluent nonsense. After
    converting the projections of both queries and keys (weights, biases, and the gains of per-head
    query and key norms) every attention score is what it was.

    Args:
        weight: ``(H * D, ...)``: the projection's weight or bias, with D channels per head; a
            norm's gain ``(D,)`` with ``heads=1``. Grouped keys have their own, smaller ``heads``.
        heads: number of heads :math:`H` in ``weight``.
        source: layout that it was trained with, ``"interleaved"`` or ``"half"``.
        target: layout to convert to.
        rotary_dim: number of leading channels that turn, all of a head's unless given; the others
            stay where they are.

    Returns:
        A tensor like ``weight`` with its rows permuted.

    Raises:
        ValueError: a layout is unknown, ``heads`` does not divide the rows, or ``rotary_dim`` is
            odd or wider than a head.

    Example:
        >>> convert_layout(torch.arange(6), heads=1, source="interleaved", target="half")
        tensor([0, 2, 4, 1, 3, 5])
    """
    check_layout(source)
    check_layout(target)
    if weight.ndim < 1 or heads < 1 or weight.shape[0] % heads:
        raise ValueError(
            f"heads must divide the rows of weight, got heads={heads} and shape "
            f"{tuple(weight.shape)}"
        )
    width = weight.shape[0] // heads
    turning = width if rotary_dim is None else rotary_dim
    if turning % 2 or not 0 <= turning <= width:
        raise ValueError(
            f"rotary_dim must be even and at most the {width} channels of a head, got "
            f"rotary_dim={turning}"
        )
    if source == target:
        return weight.clone()
    order = torch.arange(turning, device=weight.device)
    shape = (2, -1) if source == "half" else (-1, 2)
    order = order.reshape(shape).transpose(0, 1).reshape(-1)
    order = torch.cat((order, torch.arange(turning, width, device=weight.device)))
    rows = (torch.arange(heads, device=weight.device)[:, None] * width + order).reshape(-1)
    return weight[rows]
