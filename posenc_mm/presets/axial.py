"""Axial rotary encodings of patch indices in the interleaved layout."""

from collections.abc import Sequence
from functools import partial

from posenc_mm.checks import check_number, check_sizes, check_whole
from posenc_mm.frequencies import axial, geometric
from posenc_mm.placed import Placed
from posenc_mm.positions import grid, stretched_grid
from posenc_mm.presets.ladders import check_head, column_first
from posenc_mm.rotary import Rotary


def eva02(
    head_dim: int, *, reference: Sequence[int] | None = None, base: float = 10_000.0
) -> Placed:
    r"""Rotary encoding of EVA-02: a ladder per axis, row first, neighbouring channels paired.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    At another size than that of the training, positions are scaled by the ratio of the sizes. It is
    the index that scales, not the cell's centre: patch 0 stays at 0.

    References:
        Fang et al.: EVA-02: A Visual Representation for Neon Genesis (2023),
        https://arxiv.org/abs/2303.11331

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        reference: rows and columns that the model was trained on (timm's ``ref_feat_shape``); plain
            indices unless given.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices, of the reference grid if there is one.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` or ``reference`` not positive.

    Example:
        >>> eva02(64, reference=(16, 16)).positions(32, 32)[:3, 1].tolist()
        [0.0, 0.5, 1.0]
    """
    encoding = Rotary(head_dim, axes=2, base=base, layout="interleaved")
    if reference is None:
        return Placed(encoding, grid)
    return Placed(encoding, partial(stretched_grid, length=check_sizes("reference", reference)))


def rope_vit_axial(head_dim: int, *, base: float = 100.0) -> Placed:
    r"""Axial rotary encoding of RoPE-ViT: as EVA-02's, with the column first and faster ladders.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    References:
        Heo, Park, Han, Yun: Rotary Position Embedding for Vision Transformer (2024),
        https://arxiv.org/abs/2403.13298

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> rope_vit_axial(8).encoding.frequencies
        ((0.0, 0.0, 1.0, 0.1), (1.0, 0.1, 0.0, 0.0))
    """
    return Placed(
        Rotary(head_dim, 2, layout="interleaved", frequencies=column_first(head_dim, base)), grid
    )


def perception_encoder(
    head_dim: int,
    *,
    class_token: bool = True,
    reference: Sequence[int] | None = None,
    base: float = 10_000.0,
) -> Placed:
    r"""Rotary encoding of Perception Encoder: column first, and patches counted from 1.

    .. math:: \theta_{ai} = (p_a + 1) \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    The class token is at (0, 0), so that it does not turn: hosts leave it as it is.

    References:
        Bolya et al.: Perception Encoder: The Best Visual Embeddings Are Not at the Output of the
        Network (2025), https://arxiv.org/abs/2504.13181

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        class_token: whether the model has one; those without count from 0.
        reference: rows and columns that the model was trained on, to which timm stretches other
            grids (``ref_feat_shape``); the authors' code has plain indices at any size.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices from 1.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` or ``reference`` not positive.

    Example:
        >>> perception_encoder(64).positions(1, 2).tolist()
        [[1, 1], [1, 2]]
    """
    encoding = Rotary(head_dim, 2, layout="interleaved", frequencies=column_first(head_dim, base))
    first = int(class_token)
    if reference is None:
        return Placed(encoding, partial(grid, offset=first))
    length = check_sizes("reference", reference)
    return Placed(encoding, partial(stretched_grid, length=length, offset=first))


def llama4(head_dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Rotary encoding of Llama 4's pictures: the numbers of :func:`perception_encoder`.

    .. math:: \theta_{ai} = (p_a + 1) \, b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    Its class token comes after the patches and does not turn either.

    References:
        Meta AI: The Llama 4 Herd (2025), https://ai.meta.com/blog/llama-4-multimodal-intelligence/

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices from 1.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> llama4(64).encoding.layout
        'interleaved'
    """
    return perception_encoder(head_dim, base=base)


def fit(
    head_dim: int,
    *,
    scale: float | tuple[float, float] = 1.0,
    rule: str = "ntk",
    base: float = 10_000.0,
) -> Placed:
    r"""Rotary encoding of FiT: EVA-02's, with each axis stretched to a longer one than trained on.

    .. math:: \theta_{ai} = p_a \, b^{-4i/D} / s_a, \quad \text{or } b \to b \, s_a^{w/(w-2)}
        \text{ with } w = D/2

    References:
        Lu et al.: FiT: Flexible Vision Transformer for Diffusion Model (2024),
        https://arxiv.org/abs/2402.12376

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4 above 4.
        scale: :math:`s`, how many times more cells than in training, one number or one per axis;
            below 1 it counts as 1.
        rule: ``"linear"`` divides the frequencies, ``"ntk"`` raises the base so that only slow ones
            fall.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no such multiple of 4, ``scale`` or ``base`` not positive, or
            ``rule`` unknown.

    Example:
        >>> [round(f, 5) for f in fit(8, scale=2.0, rule="linear").encoding.frequencies[0]]
        [0.5, 0.005, 0.0, 0.0]
    """
    check_head(head_dim)
    check_whole(8, head_dim=head_dim)
    scales = scale if isinstance(scale, Sequence) else (scale, scale)
    if rule not in ("linear", "ntk") or len(scales) != 2:
        raise ValueError(
            f"rule must be 'linear' or 'ntk', and scale one number or one per axis (2), got "
            f"rule={rule!r} and scale={scale}"
        )
    rows = []
    for own in scales:
        check_number(above=True, scale=own)
        times = max(float(own), 1.0)
        width = head_dim // 2
        raised = base * times ** (width / (width - 2)) if rule == "ntk" else base
        divisor = times if rule == "linear" else 1.0
        rows.append([f / divisor for f in geometric(width // 2, raised)])
    return Placed(Rotary(head_dim, 2, layout="interleaved", frequencies=axial(*rows)), grid)
