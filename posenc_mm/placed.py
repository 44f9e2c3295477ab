"""An encoding together with the coordinates that it reads."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn


class Placed(NamedTuple):
    """An encoding and what makes its positions, which a host takes in place of the encoding alone.

    Hosts evaluate ``positions`` once per forward. Two encodings see the same draw of positions that
    are random only where they share the object: the same function, not an equal one.

    Attributes:
        encoding: any encoding.
        positions: makes ``(N, A)``, or ``(B, N, A)`` for coordinates of each sample's own, from the
            cells per axis of a grid and a ``device``, as :func:`posenc_mm.grid` does.

    Example:
        >>> from posenc_mm import Rotary, normalised_grid
        >>> rotary = Placed(Rotary(head_dim=16, axes=2, base=100.0), normalised_grid)
        >>> rotary.positions(2, 3, device="cpu").shape
        torch.Size([6, 2])
    """

    encoding: nn.Module
    positions: Callable[..., Tensor]
