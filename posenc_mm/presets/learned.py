"""Encodings of vision transformers that are learned, or end in a learned map."""

import math
from functools import partial

from posenc_mm.additive import Projected, Sinusoidal
from posenc_mm.placed import Placed
from posenc_mm.positions import grid, stretched_grid
from posenc_mm.rotary import MixedRotary


def rope_vit_mixed(head_dim: int, heads: int, *, base: float = 10.0) -> Placed:
    r"""Mixed rotary encoding of RoPE-ViT: every pair of every head turns along its own direction.

    .. math:: \theta_{hi} = \sum_a p_a \, \omega_{hai}

    One per block of the model. Its checkpoints have the column first: their ``freqs (2, H, F)`` of
    a block are ``freqs.transpose(0, 1).flip(1)`` here.

    References:
        Heo, Park, Han, Yun: Rotary Position Embedding for Vision Transformer (2024),
        https://arxiv.org/abs/2403.13298

    Args:
        head_dim: channels :math:`D` of a head, a multiple of 4.
        heads: number of heads :math:`H`.
        base: of the ladder that the frequencies start from.

    Returns:
        A :class:`posenc_mm.MixedRotary` read at patch indices.

    Raises:
        ValueError: ``head_dim`` is no multiple of 4, ``heads`` below 1, or ``base`` not positive.

    Example:
        >>> rope_vit_mixed(64, heads=3).encoding.frequencies.shape
        torch.Size([3, 2, 32])
    """
    return Placed(MixedRotary(head_dim, heads, base=base, layout="interleaved"), grid)


def xcit(dim: int, *, hidden: int = 32, base: float = 10_000.0) -> Placed:
    r"""Encoding of XCiT: DETR's sines and cosines, brought to the width of the tokens.

    .. math:: e = W \, [\sin, \cos] (p_a f_i) + c, \quad p = 2 \pi (i + 1) / n, \quad
        f_i = b^{-2i/w}

    The authors' 1 x 1 convolution is the linear map: its weight less the last two axes.

    References:
        El-Nouby et al.: XCiT: Cross-Covariance Image Transformers (2021),
        https://arxiv.org/abs/2106.09681

    Args:
        dim: width :math:`D` of the tokens.
        hidden: channels :math:`w` of an axis before the map, even.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Projected` read at the cells' share of a full turn.

    Raises:
        ValueError: a width is below 1, ``hidden`` odd, or ``base`` not positive.

    Example:
        >>> placed = xcit(192)
        >>> placed.encoding(placed.positions(2, 3)).shape
        torch.Size([6, 192])
    """
    if hidden % 2:
        raise ValueError(f"hidden must be even, pairs of sine and cosine, got hidden={hidden}")
    waves = Sinusoidal(2 * hidden, axes=2, base=base)
    positions = partial(stretched_grid, length=2 * math.pi, offset=1.0)
    return Placed(Projected(dim, waves, bias=True), positions)
