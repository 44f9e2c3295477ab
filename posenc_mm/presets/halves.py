"""Axial rotary encodings of patch indices in the half layouts of language models."""

from functools import partial

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import axial, geometric
from posenc_mm.placed import Placed
from posenc_mm.positions import grid, merged_grid
from posenc_mm.presets.ladders import check_head, column_first
from posenc_mm.rotary import Rotary


def pixtral(head_dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Rotary encoding of Pixtral: one ladder over the head, dealt to row and column in turn.

    .. math:: \theta_{\mathrm{row}, i} = r \, b^{-4i/D}, \quad
        \theta_{\mathrm{column}, i} = c \, b^{-(4i + 2)/D}

    In the layout of the weights in transformers, ``"half"``.

    References:
        Agrawal et al.: Pixtral 12B (2024), https://arxiv.org/abs/2410.07073

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> pixtral(8).encoding.frequencies
        ((1.0, 0.01, 0.0, 0.0), (0.0, 0.0, 0.1, 0.001))
    """
    check_head(head_dim)
    ladder = geometric(head_dim // 2, base)
    return Placed(
        Rotary(head_dim, 2, layout="half", frequencies=axial(ladder[0::2], ladder[1::2])), grid
    )


def qwen2_vl(head_dim: int, *, base: float = 10_000.0, merge: int = 1) -> Placed:
    r"""Rotary encoding of Qwen2-VL's pictures: EVA-02's angles in the layout of language models.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    All frames of a video have the same positions.

    References:
        Wang et al.: Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
        Resolution (2024), https://arxiv.org/abs/2409.12191

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.
        merge: side of the blocks by which the model orders its patches, 2 in the published ones;
            1 is the order of rows.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` or ``merge`` not positive.

    Example:
        >>> qwen2_vl(64, merge=2).positions(2, 4)[:3].tolist()
        [[0, 0], [0, 1], [1, 0]]
    """
    encoding = Rotary(head_dim, axes=2, base=base, layout="half")
    check_whole(merge=merge)
    return Placed(encoding, grid if merge == 1 else partial(merged_grid, merge=merge))


def qwen3_vl(head_dim: int, *, base: float = 10_000.0, merge: int = 1) -> Placed:
    r"""Rotary encoding of Qwen3-VL's pictures: that of :func:`qwen2_vl`.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    The model adds a learned table, too, which is read by linear interpolation from corner to
    corner.

    References:
        Bai et al.: Qwen3-VL Technical Report (2025), https://arxiv.org/abs/2511.21631

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.
        merge: side of the blocks by which the model orders its patches, 2 in the published ones;
            1 is the order of rows.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` or ``merge`` not positive.

    Example:
        >>> qwen3_vl(64).encoding.layout
        'half'
    """
    return qwen2_vl(head_dim, base=base, merge=merge)


def deepseek_vit(head_dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Rotary encoding of DeepSeek's pictures: that of :func:`qwen2_vl`, in the order of rows.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    References:
        DeepSeek-AI: DeepSeek-V4.1-Flash: Pushing the Limits of KV Cache Compression (2026),
        https://arxiv.org/abs/2609.19969

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> deepseek_vit(64).positions(1, 2).tolist()
        [[0, 0], [0, 1]]
    """
    return qwen2_vl(head_dim, base=base)


def gemma4(head_dim: int, *, base: float = 100.0) -> Placed:
    r"""Rotary encoding of Gemma 4's pictures: column first, a half layout within each axis.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    References:
        Gemma Team: Gemma 4 Technical Report (2026), https://arxiv.org/abs/2607.02770

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> gemma4(64).encoding.layout
        'axis_half'
    """
    return Placed(
        Rotary(head_dim, 2, layout="axis_half", frequencies=column_first(head_dim, base)), grid
    )
