"""Encodings of videos, by time, row and column: unequal shares of the channels."""

from functools import partial

from posenc_mm.additive import Concat, Sinusoidal
from posenc_mm.checks import check_number, check_sizes, check_whole
from posenc_mm.frequencies import Matrix, axial, geometric
from posenc_mm.placed import Placed
from posenc_mm.positions import cropped_grid, grid
from posenc_mm.rotary import Rotary


def vjepa_sincos(dim: int, *, uniform: bool = False, base: float = 10_000.0) -> Placed:
    r"""Sin-cos of V-JEPA: blocks for time, row, column, each all sines, then all cosines.

    .. math:: f_i = b^{-2i/w}, \quad w = (D/2, D/4, D/4), \quad \text{or }
        w = 2 \lceil D/6 \rceil \text{ each}

    Three equal blocks may be wider than :math:`D` together: the last then lacks the slow end of its
    cosines, as in the authors' table.

    References:
        Bardes et al.: Revisiting Feature Prediction for Learning Visual Representations from Video
        (2024), https://arxiv.org/abs/2404.08471

    Args:
        dim: width :math:`D`, a multiple of 8; with ``uniform`` an even number, of 6 or large.
        uniform: whether the axes have equal shares (the authors' ``uniform_power``).
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Concat` read at indices.

    Raises:
        ValueError: ``dim`` is no such number, or ``base`` not positive.

    Example:
        >>> placed = vjepa_sincos(16)
        >>> placed.encoding(placed.positions(2, 3, 4)).shape
        torch.Size([24, 16])
    """
    check_whole(6, dim=dim)
    if dim % (2 if uniform else 8):
        raise ValueError(
            f"dim must be a multiple of {2 if uniform else 8} with uniform={uniform}, got dim={dim}"
        )
    width = 2 * -(-dim // 6)
    widths = (width, width, dim - 2 * width) if uniform else (dim // 2, dim // 4, dim // 4)
    if widths[2] <= width // 2 and uniform:
        raise ValueError(
            f"dim must leave the last axis a cosine with uniform=True, got dim={dim}: a multiple "
            f"of 6, or more channels"
        )
    ladders = (width,) * 3 if uniform else widths
    blocks = [
        Sinusoidal(w, layout="half", frequencies=[geometric(full // 2, base)])
        for w, full in zip(widths, ladders, strict=True)
    ]
    return Placed(Concat(blocks, axes=[[0], [1], [2]]), grid)


def cogvideox_sincos(
    dim: int,
    *,
    spatial_scale: float = 1.0,
    temporal_scale: float = 1.0,
    base: float = 10_000.0,
) -> Placed:
    r"""Sin-cos of CogVideoX: blocks for time, column, row, each all sines, then all cosines.

    .. math:: f_i = b^{-2i/w}, \quad w = (D/4, 3D/8, 3D/8)

    References:
        Yang et al.: CogVideoX: Text-to-Video Diffusion Models with An Expert Transformer (2024),
        https://arxiv.org/abs/2408.06072

    Args:
        dim: width :math:`D`, a multiple of 16.
        spatial_scale: by which rows and columns are divided, 1.875 in the 2B model.
        temporal_scale: by which frames are divided.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Concat` read at indices over the scales.

    Raises:
        ValueError: ``dim`` is no multiple of 16, or a scale or ``base`` not positive.

    Example:
        >>> cogvideox_sincos(16, spatial_scale=2.0).positions(1, 1, 3)[:, 2].tolist()
        [0.0, 0.5, 1.0]
    """
    check_whole(dim=dim)
    check_number(above=True, spatial_scale=spatial_scale, temporal_scale=temporal_scale)
    if dim % 16:
        raise ValueError(f"dim must be a multiple of 16, got dim={dim}")
    widths = (dim // 4, 3 * dim // 8, 3 * dim // 8)
    blocks = [Sinusoidal(w, layout="half", base=base) for w in widths]
    step = (1 / temporal_scale, 1 / spatial_scale, 1 / spatial_scale)
    return Placed(Concat(blocks, axes=[[0], [2], [1]]), partial(grid, step=step))


def cogvideox(
    head_dim: int, *, reference: tuple[int, int] | None = None, base: float = 10_000.0
) -> Placed:
    r"""Rotary encoding of CogVideoX: a quarter of a head for time, the rest for row and column.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w_a}, \quad w = (D/4, 3D/8, 3D/8)

    References:
        Yang et al.: CogVideoX: Text-to-Video Diffusion Models with An Expert Transformer (2024),
        https://arxiv.org/abs/2408.06072

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 16.
        reference: rows and columns that the model was trained on, into which others are fitted
            (CogVideoX 1.0, 30 x 45); plain indices unless given (CogVideoX 1.5).
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 16, or ``base`` or ``reference`` not positive.

    Example:
        >>> cogvideox(64, reference=(30, 45)).positions(1, 2, 3)[:3, 2].tolist()
        [0.0, 15.0, 30.0]
    """
    check_whole(head_dim=head_dim)
    if head_dim % 16:
        raise ValueError(f"head_dim must be a multiple of 16, got head_dim={head_dim}")
    matrix = _ladders((head_dim // 4, 3 * head_dim // 8, 3 * head_dim // 8), base)
    encoding = Rotary(head_dim, 3, layout="interleaved", frequencies=matrix)
    if reference is None:
        return Placed(encoding, grid)
    check_sizes("reference", reference)
    return Placed(encoding, partial(cropped_grid, base=reference))


def wan(head_dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Rotary encoding of Wan 2.1: a third of a head for each axis, what is left over for time.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w_a}, \quad w = (D - 4 \lfloor D/6 \rfloor,
        2 \lfloor D/6 \rfloor, 2 \lfloor D/6 \rfloor)

    References:
        Wan Team: Wan: Open and Advanced Large-Scale Video Generative Models (2025),
        https://arxiv.org/abs/2503.20314

    Args:
        head_dim: channels :math:`D` of a head, even, at least 6.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at indices.

    Raises:
        ValueError: ``head_dim`` is odd or below 6, or ``base`` not positive.

    Example:
        >>> len(wan(128).encoding.frequencies[0])
        64
    """
    check_whole(6, head_dim=head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, got head_dim={head_dim}")
    space = 2 * (head_dim // 6)
    matrix = _ladders((head_dim - 2 * space, space, space), base)
    return Placed(Rotary(head_dim, 3, layout="interleaved", frequencies=matrix), grid)


def vjepa2(head_dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Turning of V-JEPA 2: for its checkpoints alone, since it is no rotation.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w}, \quad w = 2 \lfloor D/6 \rfloor

    Time, row and column have :math:`w` channels each, the rest of a head passes. The authors' code
    turns neighbouring channels by angles laid out for the half layout: norms change, and scores do
    not depend on differences alone. Upstream keeps it, since
    the published weights were trained so.

    References:
        Assran et al.: V-JEPA 2: Self-Supervised Video Models Enable Understanding, Prediction and
        Planning (2025), https://arxiv.org/abs/2506.09985

    Args:
        head_dim: channels :math:`D` of a head, at least 6.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` of layout ``"vjepa2"`` read at indices.

    Raises:
        ValueError: ``head_dim`` is below 6, or ``base`` not positive.

    Example:
        >>> vjepa2(64).encoding.rotary_dim
        60
    """
    check_whole(6, head_dim=head_dim)
    part = 2 * (head_dim // 6)
    return Placed(
        Rotary(head_dim, 3, layout="vjepa2", frequencies=_ladders((part,) * 3, base)), grid
    )


def _ladders(widths: tuple[int, ...], base: float) -> Matrix:
    return axial(*[geometric(width // 2, base) for width in widths])
