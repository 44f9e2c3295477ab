"""Position designs of models that make images, videos and sound beside text."""

from posenc_mm.streams.rules import Layout


def lumina2() -> Layout:
    """Lumina-Image 2.0: text on the time axis alone, the image at the next moment.

    Equal to diffusers' code (58eb52c).

    References:
        Qin et al.: Lumina-Image 2.0: A Unified and Efficient Image Generative Framework (2025),
        https://arxiv.org/abs/2503.21758

    Returns:
        A layout.

    Example:
        >>> from posenc_mm.streams import Image, Text
        >>> lumina2()(Text(2), Image(1, 2)).coords[0].tolist()
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 0.0, 1.0]]
    """
    return Layout(text="time", anchor="time", advance="time")


def flux1() -> Layout:
    """FLUX.1: all text at 0, images from 0 on, told apart by a time of their own.

    ``Text(n), Image(rows, columns)``; a reference image of Kontext is ``Image(..., time=1.0)``.
    Equal to diffusers' code (58eb52c).

    References:
        Black Forest Labs: FLUX (2024), https://github.com/black-forest-labs/flux

    Returns:
        A layout.
    """
    return Layout(text="none", anchor="none", advance="none", clock=0.0)


def flux2() -> Layout:
    """FLUX.2: text on a fourth axis, images on the first three.

    Reference image k is ``Image(rows, columns, time=10.0 + 10 * k)``. Equal to diffusers' code
    (58eb52c).

    References:
        Black Forest Labs: FLUX.2 (2025), https://github.com/black-forest-labs/flux2

    Returns:
        A layout of the axes time, row, column, text.
    """
    return Layout(axes=4, text=(3,), anchor="none", advance="none", clock=0.0)


def qwen_image() -> Layout:
    """Qwen-Image: images around 0, text on the diagonal outside of all of them.

    Images are siblings, told apart by their times, and come first:
    ``Together(Image(rows, columns, time=0.0), Image(..., time=1.0)), Text(n)``. Equal to diffusers'
    code (58eb52c, ``scale_rope=True``).

    References:
        Wu et al.: Qwen-Image Technical Report (2025), https://arxiv.org/abs/2508.02324

    Returns:
        A layout.
    """
    return Layout(centre="ceil", anchor="none", advance="space", clock=0.0)


def cosmos3(margin: float = 15_000.0) -> Layout:
    """Cosmos3-Omni: text, then a wide margin, then siblings in time, with space from 0 on.

    A second of video has 6 positions (24 frames a second, 4 to a latent): ``Together(Video(frames,
    rows, columns, fps=fps / 4), ...)``. Actions are ``Series(count=..., rate=fps, start=1 / fps)``.
    Sound runs at 24 positions a second, four times the clock of the video: to be equal to it,
    ``Audio(count=..., rate=rate / 4)``. Equal to diffusers' code (58eb52c) to its float32 rounding.

    References:
        NVIDIA: Cosmos 3 (2026), as in https://github.com/huggingface/diffusers

    Args:
        margin: positions between text and what follows it.

    Returns:
        A layout.

    Raises:
        ValueError: ``margin`` is negative.
    """
    return Layout(
        scale=(6.0,),
        anchor="time",
        advance="time",
        line="grid",
        margin=margin,
        quantise="cursor",
    )
