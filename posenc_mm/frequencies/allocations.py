"""Frequency allocations: one ladder of speeds, and which axis each of its pairs looks along.

Two families look alike and are not. Here **one ladder** runs over all pairs of a head, and its
pairs are dealt to the axes: every axis has a part of the speeds, and a token whose coordinates are
equal on all axes (text in a stream) turns exactly as in one-dimensional RoPE. In
:func:`posenc_mm.frequencies.axial` **each axis has a ladder of its own**, from the fastest speed to
the slowest, and such a token turns otherwise. Weights trained with one are wrong with the other.
"""

from collections.abc import Callable, Iterable, Sequence

from posenc_mm.checks import check_whole
from posenc_mm.frequencies.matrices import Matrix
from posenc_mm.frequencies.rows import Row

# From a ladder over all pairs to what each axis has of it.
Allocation = Callable[[Row], Matrix]


def shared(row: Sequence[float], owners: Sequence[int], axes: int | None = None) -> Matrix:
    r"""Deal the pairs of one ladder to the axes, by any pattern.

    .. math:: \omega_{ai} = f_i \text{ if } a = o_{i \bmod n}, \text{ else } 0

    ``(0, 1)`` is Pixtral's, ``(0, 0, 1, 2, 1, 2, 1, 2)`` that of MM-RoPE. :func:`sections`,
    :func:`interleaved` and :func:`alternating` are the patterns with names.

    References:
        Yuan et al.: Lumos-1: On Autoregressive Video Generation from a Unified Model Perspective
        (2025), https://arxiv.org/abs/2507.08801

    Args:
        row: the ladder ``(F,)`` over all pairs, fast pairs first.
        owners: the axis of each pair, repeated from its start as often as there are pairs left.
        axes: number of axes :math:`A`; as many as ``owners`` names unless given.

    Returns:
        ``(A, F)``, one number that is not zero in each column.

    Raises:
        ValueError: ``owners`` is empty, longer than ``row``, or names an axis below 0 or beyond
            ``axes``.

    Example:
        >>> shared((1.0, 0.1, 0.01), owners=(0, 1))
        ((1.0, 0.0, 0.01), (0.0, 0.1, 0.0))
    """
    pattern = tuple(owners)
    if not pattern or len(pattern) > len(row):
        raise ValueError(
            f"owners must name an axis for 1 to {len(row)} pairs, got owners={pattern}"
        )
    for own in pattern:
        check_whole(0, owners=own)
    count = max(pattern) + 1 if axes is None else axes
    check_whole(max(pattern) + 1, axes=count)
    return tuple(
        tuple(float(f) if pattern[i % len(pattern)] == axis else 0.0 for i, f in enumerate(row))
        for axis in range(count)
    )


def sections(row: Sequence[float], counts: Sequence[int]) -> Matrix:
    r"""Cut one ladder into a section for each axis: M-RoPE.

    The first axis has the fastest pairs, the last one the slowest. With counts 16, 24, 24 this is
    Qwen2-VL's, with 8, 12, 12 that of GLM-4V; in Hugging Face's configurations ``mrope_section``.

    References:
        Wang et al.: Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
        Resolution (2024), https://arxiv.org/abs/2409.12191

    Args:
        row: the ladder ``(F,)`` over all pairs, fast pairs first.
        counts: pairs of each axis, in axis order; their sum is :math:`F`.

    Returns:
        ``(A, F)``

    Raises:
        ValueError: ``counts`` are no whole numbers of sum :math:`F`.

    Example:
        >>> sections((1.0, 0.1, 0.01), counts=(1, 2))
        ((1.0, 0.0, 0.0), (0.0, 0.1, 0.01))
    """
    _check_counts(row, counts)
    return _dealt(row, [axis for axis, count in enumerate(counts) for _ in range(count)], counts)


def interleaved(row: Sequence[float], counts: Sequence[int]) -> Matrix:
    r"""Deal one ladder to the axes in turn, and what an axis no longer takes to the first.

    .. math:: a_i = i \bmod A \text{ if } \lfloor i / A \rfloor < c_{i \bmod A}, \text{ else } 0

    Every axis has fast and slow pairs. With counts 24, 20, 20 this is Qwen3-VL's, whose last pairs
    are all of time, with 11, 11, 10 Qwen3.5's. Where an axis but the first has fewer than its turn
    brings, llama.cpp leaves some of those pairs (61 and 62 of 64) to a fourth axis instead.

    References:
        Huang et al.: Revisiting Multimodal Positional Encoding in Vision-Language Models (2025),
        https://arxiv.org/abs/2510.23095

    Args:
        row: the ladder ``(F,)`` over all pairs, fast pairs first.
        counts: pairs of each axis, in axis order; their sum is :math:`F`.

    Returns:
        ``(A, F)``

    Raises:
        ValueError: ``counts`` are no whole numbers of sum :math:`F`, or dealing in turn does not
            give each axis its count: the first must have most.

    Example:
        >>> interleaved((1.0, 0.5, 0.2, 0.1), counts=(3, 1))
        ((1.0, 0.0, 0.2, 0.1), (0.0, 0.5, 0.0, 0.0))
    """
    _check_counts(row, counts)
    axes = len(counts)
    turns = [i % axes if i // axes < counts[i % axes] else 0 for i in range(len(row))]
    return _dealt(row, turns, counts)


def alternating(row: Sequence[float], counts: Sequence[int], slow: int = 0) -> Matrix:
    r"""Give the slowest pairs of one ladder to one axis, the others to the other axes in turn.

    The slow axis is time: it then tells frames far apart without repeating. With counts 16, 24, 24
    this is VideoRoPE's; with 20, 22, 22 it is ERNIE 4.5 VL's, whose configuration writes them as
    22, 22, 20 (row, column, time).

    References:
        Wei et al.: VideoRoPE: What Makes for Good Video Rotary Position Embedding? (2025),
        https://arxiv.org/abs/2502.05173

    Args:
        row: the ladder ``(F,)`` over all pairs, fast pairs first.
        counts: pairs of each axis, in axis order; their sum is :math:`F`.
        slow: the axis with the slowest pairs.

    Returns:
        ``(A, F)``

    Raises:
        ValueError: ``counts`` are no whole numbers of sum :math:`F`, ``slow`` is no axis or the
            only one, or the others' counts are not equal (the earlier may have one more).

    Example:
        >>> alternating((1.0, 0.5, 0.2), counts=(1, 1, 1))
        ((0.0, 0.0, 0.2), (1.0, 0.0, 0.0), (0.0, 0.5, 0.0))
    """
    _check_counts(row, counts)
    check_whole(0, slow=slow)
    fast = [axis for axis in range(len(counts)) if axis != slow]
    if not fast or slow >= len(counts):
        raise ValueError(f"slow must be one of 2 or more axes, got slow={slow} and counts={counts}")
    turns = [fast[i % len(fast)] for i in range(len(row) - counts[slow])]
    return _dealt(row, turns + [slow] * counts[slow], counts)


def zeroed(matrix: Sequence[Sequence[float]], pairs: Iterable[int]) -> Matrix:
    r"""Keep some pairs from turning: what they match is found at any distance.

    With the pairs of time, the slowest 16 of :func:`alternating`, this is HoPE's: the axis stays
    among the coordinates, and no pair looks along it. Text, whose coordinates are equal on all
    axes, loses these pairs too.

    References:
        Li et al.: HoPE: Hybrid of Position Embedding for Long Context Vision-Language Models
        (2025), https://arxiv.org/abs/2505.20444

    Args:
        matrix: ``(A, F)``.
        pairs: the pairs that are not to turn, counted from 0.

    Returns:
        ``(A, F)``, with the columns of ``pairs`` zero.

    Raises:
        ValueError: ``matrix`` has rows of several lengths, or there is no such pair.

    Example:
        >>> zeroed(((0.0, 0.1), (1.0, 0.0)), pairs=[1])
        ((0.0, 0.0), (1.0, 0.0))
    """
    still = set(pairs)
    widths = {len(row) for row in matrix}
    if len(widths) != 1:
        raise ValueError(f"matrix must be rows of one length, got lengths {sorted(widths)}")
    for pair in still:
        check_whole(0, pairs=pair)
        if pair >= min(widths):
            raise ValueError(
                f"pairs must be among the {min(widths)} of matrix, counted from 0, got {pair}"
            )
    return tuple(
        tuple(0.0 if i in still else float(f) for i, f in enumerate(row)) for row in matrix
    )


def _check_counts(row: Sequence[float], counts: Sequence[int]) -> None:
    for count in counts:
        check_whole(0, counts=count)
    if not counts or sum(counts) != len(row):
        raise ValueError(
            f"counts must be the pairs of each axis, {len(row)} frequencies in all, got "
            f"counts={tuple(counts)}, {sum(counts)} in all"
        )


def _dealt(row: Sequence[float], owners: list[int], counts: Sequence[int]) -> Matrix:
    got = tuple(owners.count(axis) for axis in range(len(counts)))
    if got != tuple(counts):
        raise ValueError(
            f"counts must be what dealing the {len(row)} frequencies in turn gives each axis, got "
            f"counts={tuple(counts)}, but in turn it is {got}"
        )
    return shared(row, owners, len(counts)) if owners else tuple(() for _ in counts)
