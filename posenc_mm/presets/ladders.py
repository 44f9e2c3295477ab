"""The frequencies that several presets share."""

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Allocation, Matrix, axial, geometric
from posenc_mm.placed import Placed
from posenc_mm.positions import grid
from posenc_mm.rotary import Rotary


def check_head(head_dim: int) -> None:
    """Refuse a head that two axes cannot share.

    Args:
        head_dim: channels of a head.

    Raises:
        ValueError: it is no positive multiple of 4.
    """
    check_whole(head_dim=head_dim)
    if head_dim % 4:
        raise ValueError(
            f"head_dim must be a multiple of 4, a pair of channels per axis, got "
            f"head_dim={head_dim}"
        )


def column_first(head_dim: int, base: float) -> Matrix:
    """One ladder for row and column, with the column's pairs in front.

    Args:
        head_dim: channels of a head, a multiple of 4.
        base: of the ladder.

    Returns:
        ``(2, F)``

    Raises:
        ValueError: ``head_dim`` is no positive multiple of 4, or ``base`` not positive.
    """
    check_head(head_dim)
    row = geometric(head_dim // 4, base)
    return axial(row, row)[::-1]


def dealt(
    head_dim: int, base: float, allocation: Allocation, layout: str, rotary_dim: int | None = None
) -> Placed:
    """One ladder, dealt to time, row and column, read at a block of cells alone.

    Args:
        head_dim: channels of a head.
        base: of the ladder.
        allocation: how it is dealt.
        layout: of the pairs.
        rotary_dim: channels that turn; all unless given.

    Returns:
        A :class:`posenc_mm.Rotary` of three axes.
    """
    encoding = Rotary(
        head_dim, 3, base=base, layout=layout, rotary_dim=rotary_dim, allocation=allocation
    )
    return Placed(encoding, grid)
