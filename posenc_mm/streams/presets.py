"""Published position designs by name, as trained or as a version of a peer has them."""

from posenc_mm.streams.rules import Layout

RELEASES = ("trained", "transformers>=5.3")


def qwen2_vl(release: str = "trained") -> Layout:
    """M-RoPE of Qwen2-VL: time, row and column from the cursor on, one position per time step.

    ``"trained"`` is Qwen's own code, and transformers 4.57.1 to 5.2: text continues at one more
    than the maximum over all axes. In ``"transformers>=5.3"`` (to 5.24 at least) it continues
    behind the larger of height and width, so that text after a long video lies inside it, until
    its first decoded token goes on behind the video again (``stream.coords.amax()``, not this
    cursor). Images, and videos of no more steps than rows or columns, are the same in both. ERNIE
    4.5 VL in transformers 5.24 is the latter, with its frames merged in time.

    References:
        Wang et al.: Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
        Resolution (2024), https://arxiv.org/abs/2409.12191

    Args:
        release: ``"trained"`` or ``"transformers>=5.3"``.

    Returns:
        A layout, for ``frequencies`` in sections of 16, 24, 24.

    Raises:
        ValueError: ``release`` is none of these.

    Example:
        >>> from posenc_mm.streams import Text, Video
        >>> qwen2_vl()(Video(frames=4, rows=1, columns=2), Text(1)).coords[0, -1].tolist()
        [4.0, 4.0, 4.0]
    """
    return Layout(time="frames", advance=_advance(release))


def qwen2_5_vl(tokens_per_second: float = 2.0, release: str = "trained") -> Layout:
    """M-RoPE of Qwen2.5-VL: whole positions of absolute time.

    As :func:`qwen2_vl`, with time in seconds, times ``tokens_per_second`` rounded down. Equal to
    transformers 4.57.1 at whole seconds per time step (its cast of fractions to integers is not
    followed), and to 5.24 at any frame rate.

    References:
        Bai et al.: Qwen2.5-VL Technical Report (2025), https://arxiv.org/abs/2502.13923

    Args:
        tokens_per_second: positions per second, from the checkpoint: 2 in Qwen's own code, 4 where
            transformers' configuration is silent.
        release: ``"trained"`` or ``"transformers>=5.3"``.

    Returns:
        A layout, for ``frequencies`` in sections of 16, 24, 24.

    Raises:
        ValueError: ``tokens_per_second`` is not positive, or ``release`` unknown.

    Example:
        >>> from posenc_mm.streams import Video
        >>> video = Video(frames=8, fps=3.0, patch=2)
        >>> qwen2_5_vl()(video).coords[0, :, 0].tolist()
        [0.0, 1.0, 2.0, 4.0]
    """
    return Layout(scale=(tokens_per_second,), quantise="times", advance=_advance(release))


def qwen3_vl() -> Layout:
    """M-RoPE of Qwen3-VL, Qwen3.5 and GLM-4V: time is told by text, each time step is an image.

    Equal to transformers 4.57.1 and 5.24, whose rules for what follows a block agree where blocks
    have one time step. Give ``Image(rows, columns)`` between texts, not a video.

    References:
        Bai et al.: Qwen3-VL Technical Report (2025), https://arxiv.org/abs/2511.21631

    Returns:
        A layout, for interleaved ``frequencies`` of 24, 20, 20.
    """
    return Layout(time="frames")


def qwen2_5_omni(positions_per_second: float = 25.0) -> Layout:
    """TMRoPE of Qwen2.5-Omni: video and sound on one clock, positions of 40 ms.

    A sound has 25 tokens per second, ``Audio(count=..., rate=25)``. A video and its sound are
    ``Together(video, audio, order="time", chunk=2.0)``; the pairs of tokens that open and close
    them share a position, ``Together(Text(1), Text(1))``. Equal to transformers 5.24.

    References:
        Xu et al.: Qwen2.5-Omni Technical Report (2025), https://arxiv.org/abs/2503.20215

    Args:
        positions_per_second: from the checkpoint.

    Returns:
        A layout, for ``frequencies`` in sections of 16, 24, 24.

    Raises:
        ValueError: ``positions_per_second`` is not positive.
    """
    return Layout(scale=(positions_per_second,), quantise="times")


def qwen3_omni(positions_per_second: float = 13.0) -> Layout:
    """TMRoPE of Qwen3-Omni: as Qwen2.5-Omni, with fractional positions and no chunks.

    A sound has one token per position, ``Audio(count=..., rate=positions_per_second)``. A video and
    its sound are ``Together(video, audio, order="time")``; the two tokens that open them have a
    position each. Equal to transformers 5.24.

    References:
        Xu et al.: Qwen3-Omni Technical Report (2025), https://arxiv.org/abs/2509.17765

    Args:
        positions_per_second: from the checkpoint; 25 where transformers' configuration is silent.

    Returns:
        A layout, for interleaved ``frequencies`` of 24, 20, 20.

    Raises:
        ValueError: ``positions_per_second`` is not positive.
    """
    return Layout(scale=(positions_per_second,))


def video_rope(step: float = 2.0) -> Layout:
    """VideoRoPE, and HoPE: rows and columns centred, and moving along with time on a diagonal.

    Text continues at one more than the last time. Equal to the authors' code (7712ca3).

    References:
        Wei et al.: VideoRoPE: What Makes for Good Video Rotary Position Embedding? (2025),
        https://arxiv.org/abs/2502.05173; Li et al.: HoPE: Hybrid of Position Embedding for Long
        Context Vision-Language Models (2025), https://arxiv.org/abs/2505.20444, which draws
        ``step`` at random in training

    Args:
        step: positions per time step.

    Returns:
        A layout, for alternating ``frequencies``, time the slowest.

    Raises:
        ValueError: ``step`` is not positive.
    """
    return Layout(time="frames", scale=(step,), centre="floor", couple=True, advance="time")


def mrope_i(step: float = 1.0) -> Layout:
    """MRoPE-I with spatial reset, ILRoPE and OmniRoPE, which are one design under three names.

    Rows and columns count from 0 in each block; time alone begins at the cursor. Scores between a
    text and an image are then no function of their distance: text moves on all axes, the image on
    one. Equal to the MRoPE-I authors' code, and to its versions of the others (cd413b9).

    References:
        Huang et al.: Revisiting Multimodal Positional Encoding in Vision-Language Models (2025),
        https://arxiv.org/abs/2510.23095

    Args:
        step: positions per time step.

    Returns:
        A layout, for interleaved ``frequencies`` of 24, 20, 20.

    Raises:
        ValueError: ``step`` is not positive.
    """
    return Layout(time="frames", scale=(step,), anchor="time")


ilrope = mrope_i
omnirope = mrope_i


def mm_rope(scale: tuple[float, float, float] = (4.0, 8.0, 8.0)) -> Layout:
    """MM-RoPE of Lumos-1: latents at the frames and pixels that they stand for.

    Equal to the code of the MRoPE-I authors (cd413b9).

    References:
        Yuan et al.: Lumos-1: On Autoregressive Video Generation from a Unified Model Perspective
        (2025), https://arxiv.org/abs/2507.08801

    Args:
        scale: frames, rows and columns of pixels per latent.

    Returns:
        A layout.

    Raises:
        ValueError: a number is not positive.
    """
    return Layout(time="frames", scale=scale)


def v2pe(span: float = 16.0) -> Layout:
    """V2PE: one axis for all, on which an image of any size spans the same few positions.

    Equal to the code of the MRoPE-I authors (cd413b9) to its float32 rounding.

    References:
        Ge et al.: V2PE: Improving Multimodal Long-Context Capability of Vision-Language Models with
        Variable Visual Position Encoding (2024), https://arxiv.org/abs/2412.09616

    Args:
        span: positions of a block.

    Returns:
        A layout of one axis.

    Raises:
        ValueError: ``span`` is not positive.

    Example:
        >>> from posenc_mm.streams import Image, Text
        >>> v2pe(1.0)(Text(2), Image(2, 2), Text(1)).coords[0, :, 0].tolist()
        [0.0, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0]
    """
    return Layout(axes=1, span=span, quantise="cursor")


def _advance(release: str) -> str:
    if release not in RELEASES:
        raise ValueError(f"release must be one of {RELEASES}, got {release!r}")
    return "max" if release == "trained" else "space"
