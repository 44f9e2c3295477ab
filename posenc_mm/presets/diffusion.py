"""Rotary encodings of diffusion transformers: a ladder for each axis, in shares fixed by hand."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from posenc_mm.checks import check_sizes, check_whole
from posenc_mm.placed import Placed
from posenc_mm.positions import grid
from posenc_mm.rotary import MixedRotary, Rotary


def flux(head_dim: int, *, widths: Sequence[int] = (16, 56, 56), base: float = 10_000.0) -> Placed:
    r"""Rotary encoding of FLUX.1: few pairs for the number of the picture, many for its cells.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w_a}, \quad w = (16, 56, 56)

    ``positions(1, rows, columns)`` are those of a picture. Text tokens are all at (0, 0, 0), and a
    picture to go by (Kontext) is at 1 on the first axis. Equal to FluxPosEmbed of diffusers 0.42.1.

    References:
        Black Forest Labs: FLUX.1 Kontext: Flow Matching for In-Context Image Generation and Editing
        in Latent Space (2025), https://arxiv.org/abs/2506.15742

    Args:
        head_dim: channels :math:`D` of a head.
        widths: :math:`w`, channels of picture, row and column, even, of sum ``head_dim``.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at indices.

    Raises:
        ValueError: ``widths`` are not so, or ``base`` is not positive.

    Example:
        >>> flux(128).positions(1, 1, 2).tolist()
        [[0, 0, 0], [0, 0, 1]]
    """
    return Placed(_split(head_dim, widths, base), grid)


def flux2(
    head_dim: int, *, widths: Sequence[int] = (32, 32, 32, 32), base: float = 2_000.0
) -> Placed:
    r"""Rotary encoding of FLUX.2: four axes, the last of them for words.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w_a}, \quad w = (32, 32, 32, 32)

    ``positions(1, rows, columns, 1)`` are those of a picture, ``positions(1, 1, 1, length)`` those
    of a text. Pictures to go by are at 10, 20, ... on the first axis. Equal to Flux2PosEmbed of
    diffusers 0.42.1.

    References:
        Black Forest Labs: FLUX.2 (2025), https://github.com/black-forest-labs/flux2

    Args:
        head_dim: channels :math:`D` of a head.
        widths: :math:`w`, channels of picture, row, column and word, even, of sum ``head_dim``.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` of four axes, read at indices.

    Raises:
        ValueError: ``widths`` are not so, or ``base`` is not positive.

    Example:
        >>> flux2(128).positions(1, 1, 1, 2).tolist()
        [[0, 0, 0, 0], [0, 0, 0, 1]]
    """
    return Placed(_split(head_dim, widths, base), grid)


def hunyuan_video(
    head_dim: int, *, widths: Sequence[int] = (16, 56, 56), base: float = 256.0
) -> Placed:
    r"""Rotary encoding of HunyuanVideo: FLUX.1's shares for time, row and column, a short ladder.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w_a}, \quad w = (16, 56, 56)

    Text tokens do not turn. FramePack reads it at frames of its choice. Equal to
    HunyuanVideoRotaryPosEmbed of diffusers 0.42.1.

    References:
        Kong et al.: HunyuanVideo: A Systematic Framework For Large Video Generative Models (2024),
        https://arxiv.org/abs/2412.03603

    Args:
        head_dim: channels :math:`D` of a head.
        widths: :math:`w`, channels of time, row and column, even, of sum ``head_dim``.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at indices.

    Raises:
        ValueError: ``widths`` are not so, or ``base`` is not positive.

    Example:
        >>> [sum(f > 0 for f in row) for row in hunyuan_video(128).encoding.frequencies]
        [8, 28, 28]
    """
    return Placed(_split(head_dim, widths, base), grid)


def qwen_image(
    head_dim: int, *, widths: Sequence[int] = (16, 56, 56), base: float = 10_000.0
) -> Placed:
    r"""Rotary encoding of Qwen-Image: FLUX.1's angles, rows and columns counted from the centre.

    .. math:: \theta_{ai} = p_a \, b^{-2i/w_a}, \quad p = (t, \; r - \lceil H/2 \rceil, \;
        c - \lceil W/2 \rceil)

    The first axis counts frames or pictures. Text follows on the diagonal: token i is at
    :math:`\max(\lfloor H/2 \rfloor, \lfloor W/2 \rfloor) + i` on all three axes, of the largest
    picture. Equal to QwenEmbedRope of diffusers 0.42.1, whose table ends at 4096.

    References:
        Wu et al.: Qwen-Image Technical Report (2025), https://arxiv.org/abs/2508.02324

    Args:
        head_dim: channels :math:`D` of a head.
        widths: :math:`w`, channels of picture, row and column, even, of sum ``head_dim``.
        base: :math:`b`.

    Returns:
        A :class:`posenc_mm.Rotary` read at indices from the centre.

    Raises:
        ValueError: ``widths`` are not so, or ``base`` is not positive.

    Example:
        >>> qwen_image(128).positions(1, 1, 3)[:, 2].tolist()
        [-2, -1, 0]
    """
    return Placed(_split(head_dim, widths, base), _from_the_centre)


def mochi(head_dim: int, heads: int, *, area: float = 192.0**2) -> Placed:
    r"""Rotary encoding of Mochi 1: every frequency of every head is learned, from zero.

    .. math:: \theta_{hi} = \sum_a p_a \, \omega_{hai}, \quad p = (t, \; s (r + 1/2 - H/2), \;
        s (c + 1/2 - W/2)), \quad s = \sqrt{R / HW}

    A picture has the same area :math:`R` at every size. One for all blocks of the model; its
    ``pos_frequencies (3, H, F)`` are ``pos_frequencies.transpose(0, 1)`` here. Equal to MochiRoPE
    of diffusers 0.42.1.

    References:
        Genmo: Mochi 1 (2024), https://github.com/genmoai/mochi

    Args:
        head_dim: channels :math:`D` of a head, even.
        heads: number of heads :math:`H`.
        area: :math:`R`, of a picture.

    Returns:
        A :class:`posenc_mm.MixedRotary` of three axes, read at the cells' centres.

    Raises:
        ValueError: ``head_dim`` is odd, ``heads`` below 1, or ``area`` not positive.

    Example:
        >>> mochi(8, heads=2, area=16.0).positions(1, 1, 4)[:, 2].tolist()
        [-3.0, -1.0, 1.0, 3.0]
    """
    check_whole(2, head_dim=head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, got head_dim={head_dim}")
    if not area > 0:
        raise ValueError(f"area must be positive, got area={area}")
    start = ((0.0,) * (head_dim // 2),) * 3
    encoding = MixedRotary(head_dim, heads, 3, layout="interleaved", start=start)
    return Placed(encoding, partial(_of_one_area, area=float(area)))


def _split(head_dim: int, widths: Sequence[int], base: float) -> Rotary:
    each = check_sizes("widths", widths)
    check_whole(head_dim=head_dim)
    if sum(each) != head_dim or any(width % 2 for width in each):
        raise ValueError(
            f"widths must be even and {head_dim} in all, as head_dim is, got widths={each}, "
            f"{sum(each)} in all"
        )
    return Rotary(head_dim, len(each), base=base, rotary_dim=each, layout="interleaved")


def _from_the_centre(
    frames: int, height: int, width: int, *, device: torch.device | str | None = None
) -> Tensor:
    middle = (0, -(height - height // 2), -(width - width // 2))
    return grid(frames, height, width, offset=middle, device=device)


def _of_one_area(
    frames: int,
    height: int,
    width: int,
    *,
    area: float,
    device: torch.device | str | None = None,
) -> Tensor:
    scale = (area / (height * width)) ** 0.5
    offset = (0.0, scale * (1 - height) / 2, scale * (1 - width) / 2)
    return grid(frames, height, width, offset=offset, step=(1.0, scale, scale), device=device)
