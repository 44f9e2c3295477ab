"""Frequencies that differ from head to head."""

from collections.abc import Sequence

from posenc_mm.checks import check_whole
from posenc_mm.frequencies.matrices import Matrix

Matrices = tuple[Matrix, ...]


def whole_heads(
    row: Sequence[float], counts: Sequence[int], *, heads: int | None = None, groups: int = 1
) -> Matrices:
    r"""Give whole heads to one axis: every axis has the whole ladder, in some heads only.

    Of grouped queries, the queries of a key head look along its axis: make one encoding for keys,
    and one with ``groups`` for queries, and turn each by its own.

    References:
        Huang et al.: Revisiting Multimodal Positional Encoding in Vision-Language Models (2025),
        https://arxiv.org/abs/2510.23095 (MHRoPE)

    Args:
        row: the ladder ``(F,)`` that every head has.
        counts: heads of each axis, in axis order.
        heads: number of heads before ``groups``, the sum of ``counts`` unless given; those that
            are left over do not turn.
        groups: queries for each head.

    Returns:
        ``(H, A, F)``

    Raises:
        ValueError: ``counts`` are no whole numbers or more than ``heads``, or there is no head.

    Example:
        >>> whole_heads((1.0, 0.1), counts=(1, 1))
        (((1.0, 0.1), (0.0, 0.0)), ((0.0, 0.0), (1.0, 0.1)))
    """
    for count in counts:
        check_whole(0, counts=count)
    total = sum(counts) if heads is None else heads
    check_whole(heads=total, groups=groups)
    if sum(counts) > total:
        raise ValueError(
            f"counts must be heads of {total} in all, got counts={tuple(counts)}, {sum(counts)} "
            f"in all"
        )
    owners = [axis for axis, count in enumerate(counts) for _ in range(count)]
    owners += [-1] * (total - len(owners))
    return tuple(
        tuple(tuple(float(f) if axis == own else 0.0 for f in row) for axis in range(len(counts)))
        for own in owners
        for _ in range(groups)
    )


def per_head(matrix: Sequence[Sequence[float]], heads: int) -> Matrices:
    """Cut frequencies over the width of a model into those of its heads.

    LTX-Video turns queries before it splits them into heads: its fast pairs are in the first heads
    alone.

    References:
        HaCohen et al.: LTX-Video: Realtime Video Latent Diffusion (2024),
        https://arxiv.org/abs/2501.00103

    Args:
        matrix: ``(A, H * F)``, head after head.
        heads: number of heads :math:`H`.

    Returns:
        ``(H, A, F)``

    Raises:
        ValueError: ``heads`` does not divide the frequencies.

    Example:
        >>> per_head(((3.0, 2.0, 1.0, 0.0),), heads=2)
        (((3.0, 2.0),), ((1.0, 0.0),))
    """
    check_whole(heads=heads)
    widths = {len(row) for row in matrix}
    if len(widths) != 1 or min(widths) % heads:
        raise ValueError(
            f"matrix must be rows of one length that {heads} heads divide, got lengths "
            f"{[len(row) for row in matrix]} and heads={heads}"
        )
    share = min(widths) // heads
    return tuple(
        tuple(tuple(float(f) for f in row[h * share : (h + 1) * share]) for row in matrix)
        for h in range(heads)
    )
