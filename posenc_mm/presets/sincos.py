"""Sines and cosines of patch coordinates, added to the tokens: five encodings with one name.

"2-D sin-cos" says neither which axis comes first, nor how sines and cosines alternate, nor whether
the ladder of frequencies includes its end. Each function says it once, for any grid: the codes of
MoCo v3 and MAE assume squares, and MoCo v3's transposes the tokens of anything else.
"""

import math
from functools import partial

from posenc_mm.additive import Sinusoidal
from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import axial, geometric
from posenc_mm.placed import Placed
from posenc_mm.positions import grid, stretched_grid


def mae(dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Sin-cos of Masked Autoencoders: the column's block first (sin x, cos x, sin y, cos y).

    .. math:: f_i = b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    The class token of the authors' table is a row of zeros.

    References:
        He et al.: Masked Autoencoders Are Scalable Vision Learners (2021),
        https://arxiv.org/abs/2111.06377

    Args:
        dim: width :math:`D`, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Sinusoidal` read at patch indices.

    Raises:
        ValueError: ``dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> placed = mae(8)
        >>> placed.encoding(placed.positions(2, 1))[1].tolist()[:4]
        [0.0, 0.0, 1.0, 1.0]
    """
    return Placed(_column_first(dim, base=base), grid)


def moco_v3(dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Sin-cos of MoCo v3 and V-JEPA's images: the row's block first (sin y, cos y, sin x, cos x).

    .. math:: f_i = b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    Equal to the authors' table on square grids. On others their code puts row and column of the
    transposed grid at each token; here token ``r * width + c`` is row r, column c.

    References:
        Chen, Xie, He: An Empirical Study of Training Self-Supervised Vision Transformers (2021),
        https://arxiv.org/abs/2104.02057

    Args:
        dim: width :math:`D`, a multiple of 4.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Sinusoidal` read at patch indices.

    Raises:
        ValueError: ``dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> placed = moco_v3(8)
        >>> placed.encoding(placed.positions(1, 2))[1].tolist()[:4]
        [0.0, 0.0, 1.0, 1.0]
    """
    _check(dim)
    return Placed(Sinusoidal(dim, axes=2, base=base, layout="axis_half"), grid)


def big_vision(dim: int, *, base: float = 10_000.0) -> Placed:
    r"""Sin-cos of big_vision and vit-pytorch: as :func:`mae`, with a ladder that includes its end.

    .. math:: f_i = b^{-i/(D/4 - 1)}, \quad i = 0 \ldots D/4 - 1

    References:
        Beyer, Zhai, Kolesnikov: Better Plain ViT Baselines for ImageNet-1k (2022),
        https://arxiv.org/abs/2205.01580

    Args:
        dim: width :math:`D`, a multiple of 4, at least 8: one frequency is no ladder.
        base: :math:`b`; the last frequency is exactly 1/b.

    Returns:
        A :class:`posenc_mm.Sinusoidal` read at patch indices.

    Raises:
        ValueError: ``dim`` is no such multiple of 4, or ``base`` not positive.

    Example:
        >>> big_vision(8).encoding.frequencies
        ((0.0, 0.0, 1.0, 0.0001), (1.0, 0.0001, 0.0, 0.0))
    """
    _check(dim, least=8)
    return Placed(_column_first(dim, base=base, endpoint=True), grid)


def timm_sincos(dim: int, *, base: float = 10_000.0, interleaved: bool = False) -> Placed:
    r"""Sin-cos of timm: all sines first (sin y, sin x, cos y, cos x).

    .. math:: f_i = b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    References:
        Wightman: PyTorch Image Models (2019), https://github.com/huggingface/pytorch-image-models

    Args:
        dim: width :math:`D`, a multiple of 4.
        base: :math:`b`.
        interleaved: timm's ``interleave_sin_cos``: axis by axis, which is :func:`moco_v3`.

    Returns:
        A :class:`posenc_mm.Sinusoidal` read at patch indices.

    Raises:
        ValueError: ``dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> placed = timm_sincos(4)
        >>> placed.encoding(placed.positions(2, 3)).shape
        torch.Size([6, 4])
    """
    _check(dim)
    layout = "axis_half" if interleaved else "half"
    return Placed(Sinusoidal(dim, axes=2, base=base, layout=layout), grid)


def detr(dim: int, *, base: float = 10_000.0, offset: float = 1.0) -> Placed:
    r"""Sin-cos of DETR: coordinates from 0 to a full turn, sine and cosine side by side.

    .. math:: p = 2 \pi (i + o) / n, \quad f_i = b^{-4i/D}, \quad i = 0 \ldots D/4 - 1

    The row's block comes first. The authors add 1e-6 to :math:`n`, which only matters to a division
    by zero. Where pictures are padded, their coordinates are those of each picture's own size.

    References:
        Carion et al.: End-to-End Object Detection with Transformers (2020),
        https://arxiv.org/abs/2005.12872

    Args:
        dim: width :math:`D`, a multiple of 4.
        base: :math:`b`.
        offset: :math:`o`: DETR counts cells from 1; Deformable DETR takes their centres, 0.5.

    Returns:
        A :class:`posenc_mm.Sinusoidal` read at the cells' share of a full turn.

    Raises:
        ValueError: ``dim`` is no multiple of 4, or ``base`` not positive.

    Example:
        >>> detr(8).positions(1, 2)[:, 1].tolist()
        [3.1415927410125732, 6.2831854820251465]
    """
    _check(dim)
    positions = partial(stretched_grid, length=2 * math.pi, offset=offset)
    return Placed(Sinusoidal(dim, axes=2, base=base), positions)


def pixart(dim: int, *, reference: int = 16, scale: float = 1.0, base: float = 10_000.0) -> Placed:
    r"""Sin-cos of PixArt and diffusers: as :func:`mae`, on a grid stretched to a reference size.

    .. math:: p = i \, n_0 / (n s)

    References:
        Chen et al.: PixArt-α: Fast Training of Diffusion Transformer for Photorealistic
        Text-to-Image Synthesis (2023), https://arxiv.org/abs/2310.00426

    Args:
        dim: width :math:`D`, a multiple of 4.
        reference: :math:`n_0`, cells along an axis of the reference grid (diffusers'
            ``base_size``).
        scale: :math:`s`, by which positions are divided (diffusers' ``interpolation_scale``).
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Sinusoidal` read at patch indices of the reference grid.

    Raises:
        ValueError: ``dim`` is no multiple of 4, or another number is not positive.

    Example:
        >>> pixart(8, reference=4).positions(1, 8)[:3, 1].tolist()
        [0.0, 0.5, 1.0]
    """
    check_whole(reference=reference)
    check_number(above=True, scale=scale)
    return Placed(_column_first(dim, base=base), partial(stretched_grid, length=reference / scale))


def _check(dim: int, least: int = 4) -> None:
    check_whole(least, dim=dim)
    if dim % 4:
        raise ValueError(
            f"dim must be a multiple of 4, a sine and a cosine per axis, got dim={dim}"
        )


def _column_first(dim: int, *, base: float, endpoint: bool = False) -> Sinusoidal:
    _check(dim)
    row = geometric(dim // 4, base, endpoint=endpoint)
    return Sinusoidal(dim, axes=2, layout="axis_half", frequencies=axial(row, row)[::-1])
