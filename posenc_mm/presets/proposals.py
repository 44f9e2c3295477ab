"""Frequency allocations that were proposed for videos among words, by the names of their papers.

As in :mod:`posenc_mm.presets.language`, ``positions`` are those of a block of cells alone.
VideoRoPE and HoPE have positions of their own, too (time in steps of 2, rows and columns on the
diagonal of time), which :mod:`posenc_mm.streams` makes.
"""

from collections.abc import Sequence
from functools import partial

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import (
    Matrix,
    Row,
    alternating,
    geometric,
    shared,
    whole_heads,
    zeroed,
)
from posenc_mm.placed import Placed
from posenc_mm.positions import grid
from posenc_mm.presets.ladders import dealt
from posenc_mm.rotary import Rotary


def video_rope(
    head_dim: int, *, counts: Sequence[int] = (16, 24, 24), base: float = 1_000_000.0
) -> Placed:
    r"""Rotary encoding of VideoRoPE: row and column in turn on the fast pairs, time on the slow.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/D}, \quad a = 1 \, 2 \, 1 \, 2 \ldots 0 \, 0

    Equal to the authors' code, Wiselnn570/VideoRoPE at 7712ca3. What Multimodal-RoPEs (cd413b9)
    calls VideoRoPE is another allocation.

    References:
        Wei et al.: VideoRoPE: What Makes for Good Video Rotary Position Embedding? (2025),
        https://arxiv.org/abs/2502.05173

    Args:
        head_dim: channels :math:`D` of a head.
        counts: pairs of time, row and column, half of ``head_dim`` in all.
        base: :math:`b`, that of Qwen2-VL.

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, or ``base`` is not positive.

    Example:
        >>> [i for i, f in enumerate(video_rope(128).encoding.frequencies[0]) if f][0]
        48
    """
    return dealt(head_dim, base, partial(alternating, counts=counts), "half")


def hope(
    head_dim: int, *, counts: Sequence[int] = (16, 24, 24), base: float = 1_000_000.0
) -> Placed:
    r"""Rotary encoding of HoPE: that of :func:`video_rope`, with the pairs of time at rest.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/D}, \quad a = 1 \, 2 \, 1 \, 2 \ldots, \quad
        \theta_i = 0 \text{ for } i \ge F - c_0

    No pair sees time, nor do words turn these pairs. Frames are told apart by rows and columns on
    the diagonal of time. Equal to the authors' code, hrlics/HoPE at 85b76c0.

    References:
        Li et al.: HoPE: Hybrid of Position Embedding for Long Context Vision-Language Models
        (2025), https://arxiv.org/abs/2505.20444

    Args:
        head_dim: channels :math:`D` of a head.
        counts: pairs :math:`c` of time, row and column, half of ``head_dim`` in all.
        base: :math:`b`, that of Qwen2-VL.

    Returns:
        A :class:`posenc_mm.Rotary` of three axes, read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, or ``base`` is not positive.

    Example:
        >>> any(hope(128).encoding.frequencies[0])
        False
    """
    return dealt(head_dim, base, partial(_without_time, counts=counts), "half")


def mm_rope(head_dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Rotary encoding of Lumos-1 (MM-RoPE): time, row and column 2 to 3 to 3 in every eight pairs.

    .. math:: \theta_i = p_{a(i \bmod 8)} \, b^{-2i/D}, \quad
        a = 0 \, 0 \, 1 \, 2 \, 1 \, 2 \, 1 \, 2

    Equal to MMRopeEmbedding of JJJYmmm/Multimodal-RoPEs at cd413b9.

    References:
        Yuan et al.: Lumos-1: On Autoregressive Video Generation from a Unified Model Perspective
        (2025), https://arxiv.org/abs/2507.08801

    Args:
        head_dim: channels :math:`D` of a head, even, at least 16.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``head_dim`` is odd or below 16, or ``base`` not positive.

    Example:
        >>> [sum(f > 0 for f in row) for row in mm_rope(128).encoding.frequencies]
        [16, 24, 24]
    """
    check_whole(16, head_dim=head_dim)
    return dealt(head_dim, base, partial(shared, owners=(0, 0, 1, 2, 1, 2, 1, 2)), "half")


def mh_rope(
    head_dim: int,
    *,
    counts: Sequence[int] = (2, 3, 3),
    heads: int | None = None,
    groups: int = 1,
    base: float = 5_000_000.0,
) -> Placed:
    r"""Rotary encoding of MHRoPE: whole heads for time, row and column, each with the whole ladder.

    .. math:: \theta_{hi} = p_{a(h)} \, b^{-2i/D}

    Make one for keys and, with ``groups``, one for queries, where a key head serves several. Equal
    to MHRopeEmbedding of JJJYmmm/Multimodal-RoPEs at cd413b9.

    References:
        Huang et al.: Revisiting Multimodal Positional Encoding in Vision-Language Models (2025),
        https://arxiv.org/abs/2510.23095

    Args:
        head_dim: channels :math:`D` of a head, even.
        counts: key heads of time, row and column.
        heads: number of key heads, the sum of ``counts`` unless given; the others do not turn.
        groups: queries for each of them.
        base: :math:`b`, that of Qwen3-VL.

    Returns:
        A :class:`posenc_mm.Rotary` with frequencies of heads, read at coordinates of a stream.

    Raises:
        ValueError: ``head_dim`` is odd, ``counts`` are more than ``heads``, or ``base`` not
            positive.

    Example:
        >>> placed = mh_rope(16, counts=(1, 2, 2), groups=2)
        >>> placed.encoding(placed.positions(1, 2, 3)).cos.shape
        torch.Size([10, 6, 8])
    """
    check_whole(2, head_dim=head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, got head_dim={head_dim}")
    row = geometric(head_dim // 2, base)
    matrices = whole_heads(row, counts, heads=heads, groups=groups)
    return Placed(Rotary(head_dim, 3, layout="half", frequencies=matrices), grid)


def _without_time(row: Row, counts: Sequence[int]) -> Matrix:
    matrix = alternating(row, counts)
    return zeroed(matrix, range(len(row) - counts[0], len(row)))
