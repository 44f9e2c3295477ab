"""Rotary encodings of language models that read pictures and videos among words.

One ladder, dealt to time, row and column. ``positions`` are those of a block of cells that begins
at 0, as of a picture alone; the coordinates of a whole stream, which differ from model to model,
are what :mod:`posenc_mm.streams` makes. The vision towers of these models have encodings of their
own, :func:`posenc_mm.presets.qwen2_vl` and others.
"""

from collections.abc import Sequence
from functools import partial

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import alternating, interleaved, sections
from posenc_mm.placed import Placed
from posenc_mm.presets.ladders import dealt


def qwen2_vl_text(
    head_dim: int, *, counts: Sequence[int] = (16, 24, 24), base: float = 1_000_000.0
) -> Placed:
    r"""Rotary encoding of Qwen2-VL's language model: M-RoPE, in sections.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/D}, \quad a = 0 \ldots 0 \, 1 \ldots 1 \, 2 \ldots 2

    Time has the fastest pairs. Equal to Qwen2VLRotaryEmbedding of transformers 5.24.

    References:
        Wang et al.: Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
        Resolution (2024), https://arxiv.org/abs/2409.12191

    Args:
        head_dim: channels :math:`D` of a head.
        counts: pairs of time, row and column, half of ``head_dim`` in all (``mrope_section``).
        base: :math:`b`; a checkpoint's own is in its configuration (``rope_theta``).

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, or ``base`` is not positive.

    Example:
        >>> matrix = qwen2_vl_text(128).encoding.frequencies
        >>> [min(i for i, f in enumerate(row) if f) for row in matrix]  # where each axis begins
        [0, 16, 40]
    """
    return dealt(head_dim, base, partial(sections, counts=counts), "half")


def qwen2_5_vl_text(
    head_dim: int, *, counts: Sequence[int] = (16, 24, 24), base: float = 1_000_000.0
) -> Placed:
    r"""Rotary encoding of Qwen2.5-VL's and Qwen2.5-Omni's language models: :func:`qwen2_vl_text`.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/D}, \quad a = 0 \ldots 0 \, 1 \ldots 1 \, 2 \ldots 2

    What changed is the coordinates: time goes by the clock. Equal to Qwen2_5_VLRotaryEmbedding of
    transformers 5.24.

    References:
        Bai et al.: Qwen2.5-VL Technical Report (2025), https://arxiv.org/abs/2502.13923

    Args:
        head_dim: channels :math:`D` of a head.
        counts: pairs of time, row and column, half of ``head_dim`` in all (``mrope_section``).
        base: :math:`b`; a checkpoint's own is in its configuration (``rope_theta``).

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, or ``base`` is not positive.

    Example:
        >>> qwen2_5_vl_text(128).encoding.axes
        3
    """
    return qwen2_vl_text(head_dim, counts=counts, base=base)


def qwen3_vl_text(
    head_dim: int, *, counts: Sequence[int] = (24, 20, 20), base: float = 5_000_000.0
) -> Placed:
    r"""Rotary encoding of Qwen3-VL's language model: M-RoPE, interleaved.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/D}, \quad a = 0 \, 1 \, 2 \, 0 \, 1 \, 2 \ldots 0

    Pairs take turns; the last four are all of time. Equal to Qwen3VLTextRotaryEmbedding of
    transformers 5.24, whose configuration class has ``base`` 500,000.

    References:
        Bai et al.: Qwen3-VL Technical Report (2025), https://arxiv.org/abs/2511.21631

    Args:
        head_dim: channels :math:`D` of a head.
        counts: pairs of time, row and column, half of ``head_dim`` in all (``mrope_section``).
        base: :math:`b`; a checkpoint's own is in its configuration (``rope_theta``).

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, or ``base`` is not positive.

    Example:
        >>> [i for i, f in enumerate(qwen3_vl_text(128).encoding.frequencies[0]) if f][-4:]
        [60, 61, 62, 63]
    """
    return dealt(head_dim, base, partial(interleaved, counts=counts), "half")


def qwen3_5_text(
    head_dim: int,
    *,
    rotary_dim: int | None = None,
    counts: Sequence[int] = (11, 11, 10),
    base: float = 10_000_000.0,
) -> Placed:
    r"""Rotary encoding of Qwen3.5's attention layers: interleaved, on a quarter of a head.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/w}, \quad w = D/4, \quad a = 0 \, 1 \, 2 \, 0 \ldots

    Equal to Qwen3_5TextRotaryEmbedding of transformers 5.24.

    References:
        Qwen Team: Qwen3.5 (2026), https://github.com/QwenLM/Qwen3.5

    Args:
        head_dim: channels :math:`D` of a head, 256 in the published models.
        rotary_dim: channels :math:`w` that turn, a quarter of ``head_dim`` unless given.
        counts: pairs of time, row and column, half of those that turn in all (``mrope_section``).
        base: :math:`b`; a checkpoint's own is in its configuration (``rope_theta``).

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, a width does not divide, or ``base`` is not positive.

    Example:
        >>> qwen3_5_text(256).encoding.rotary_dim
        64
    """
    allocation = partial(interleaved, counts=counts)
    return dealt(head_dim, base, allocation, "half", _part(head_dim, 4, rotary_dim))


def glm4v_text(
    head_dim: int,
    *,
    rotary_dim: int | None = None,
    counts: Sequence[int] = (8, 12, 12),
    base: float = 10_000.0,
) -> Placed:
    r"""Rotary encoding of GLM-4.1V's language model: M-RoPE in sections, on half of a head.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/w}, \quad w = D/2, \quad
        a = 0 \ldots 0 \, 1 \ldots 1 \, 2 \ldots 2

    Members of a pair lie side by side. Equal to Glm4vTextRotaryEmbedding of transformers 5.24.

    References:
        GLM-V Team: GLM-4.5V and GLM-4.1V-Thinking: Towards Versatile Multimodal Reasoning with
        Scalable Reinforcement Learning (2025), https://arxiv.org/abs/2507.01006

    Args:
        head_dim: channels :math:`D` of a head, 128 in the published models.
        rotary_dim: channels :math:`w` that turn, half of ``head_dim`` unless given.
        counts: pairs of time, row and column, half of those that turn in all (``mrope_section``).
        base: :math:`b`; a checkpoint's own is in its configuration (``rope_theta``).

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, a width does not divide, or ``base`` is not positive.

    Example:
        >>> [sum(f > 0 for f in row) for row in glm4v_text(128).encoding.frequencies]
        [8, 12, 12]
    """
    allocation = partial(sections, counts=counts)
    return dealt(head_dim, base, allocation, "interleaved", _part(head_dim, 2, rotary_dim))


def ernie45_vl(
    head_dim: int, *, counts: Sequence[int] = (20, 22, 22), base: float = 500_000.0
) -> Placed:
    r"""Rotary encoding of ERNIE 4.5 VL's language model: row and column in turn, then time.

    .. math:: \theta_i = p_{a(i)} \, b^{-2i/D}, \quad a = 1 \, 2 \, 1 \, 2 \ldots 0 \, 0

    Time has the slowest pairs. The configuration names row and column first: its ``mrope_section``
    (22, 22, 20) is ``counts=(20, 22, 22)``. Members of a pair lie side by side. Equal to
    Ernie4_5_VLMoeTextRotaryEmbedding of transformers 5.24.

    References:
        ERNIE Team: ERNIE 4.5 Technical Report (2025),
        https://ernie.baidu.com/blog/publication/ERNIE_Technical_Report.pdf

    Args:
        head_dim: channels :math:`D` of a head.
        counts: pairs of time, row and column, half of ``head_dim`` in all.
        base: :math:`b`; a checkpoint's own is in its configuration (``rope_theta``).

    Returns:
        A :class:`posenc_mm.Rotary` read at coordinates of a stream.

    Raises:
        ValueError: ``counts`` are not so, or ``base`` is not positive.

    Example:
        >>> [i for i, f in enumerate(ernie45_vl(128).encoding.frequencies[0]) if f][0]
        44
    """
    return dealt(head_dim, base, partial(alternating, counts=counts), "interleaved")


def _part(head_dim: int, share: int, rotary_dim: int | None) -> int:
    check_whole(head_dim=head_dim)
    if rotary_dim is None and head_dim % (2 * share):
        raise ValueError(
            f"head_dim must be a multiple of {2 * share} where one part in {share} turns, got "
            f"head_dim={head_dim}"
        )
    return head_dim // share if rotary_dim is None else rotary_dim
