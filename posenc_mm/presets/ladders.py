"""The frequency matrices that several presets of two axes share."""

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Matrix, axial, geometric


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
