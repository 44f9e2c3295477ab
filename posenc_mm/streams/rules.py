"""The rules by which segments are placed: a position design as a handful of plain arguments."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch

from posenc_mm.checks import check_number, check_whole
from posenc_mm.streams.axes import Axes, numbers
from posenc_mm.streams.laying import continued, fresh
from posenc_mm.streams.operations import pad
from posenc_mm.streams.siblings import Item
from posenc_mm.streams.stream import Stream

_CHOICES = {
    "time": ("seconds", "frames"),
    "centre": ("none", "floor", "ceil", "exact", "unit"),
    "advance": ("max", "time", "space", "none"),
    "quantise": ("none", "times", "cursor"),
    "line": ("text", "grid"),
}


@dataclass(frozen=True)
class Layout:
    r"""Says where the tokens of a stream are: a position design.

    A row has a *cursor* :math:`c`, which starts at 0. Text is counted from it. The tokens of any
    other block have coordinates of their own, and begin at it:

    .. math:: p_a = [a \in \text{anchor}] \, c + [a > 0] \, [\text{couple}] \, x_0 + x_a, \quad
        x_0 = s_0 \, (\tau - \tau_0), \; x_1 = s_1 \, (i - i_0), \; x_2 = s_2 \, (j - j_0)

    with :math:`\tau` in seconds and :math:`i, j` the row and column of a patch. After a block the
    cursor is one more than the largest coordinate of the axes in ``advance``, those that are not
    anchored counted from the cursor; it never goes back. The defaults are M-RoPE as Qwen2-VL was
    trained: text after a block continues at one more than the maximum over all axes.

    Coordinates are in float32 if all of them are multiples of 1/8 below 2**20, which float32 holds
    exactly and with room to go on, else in float64. The same row is at the same numbers alone, in a
    batch, and continued, to the last bit but where a cursor is a fraction.

    References:
        Wang et al.: Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
        Resolution (2024), https://arxiv.org/abs/2409.12191; the terms position design and frequency
        allocation: Huang et al.: Revisiting Multimodal Positional Encoding in Vision-Language
        Models (2025), https://arxiv.org/abs/2510.23095

    Args:
        axes: number of axes :math:`A`: time, row, column, then any others, where blocks are at 0.
        scale: :math:`s`, units of position per second, per row and per column; ones where short.
            Steps that are counted, without seconds, are one second each, where :math:`s_0 = 1`.
        time: ``"seconds"``, or ``"frames"``: count steps, whatever their times.
        centre: :math:`i_0` of H rows: ``"none"`` 0, ``"floor"`` (H - 1) // 2, ``"ceil"`` H - H //
            2, ``"exact"`` (H - 1) / 2; ``"unit"`` makes (2 i + 1) / H - 1 of i. Columns likewise.
        couple: whether rows and columns move along with time, on a diagonal.
        anchor: axes that begin at the cursor: ``"all"``, ``"time"``, ``"none"`` or their numbers.
        advance: axes whose maximum moves the cursor: ``"max"`` all, ``"time"``, ``"space"``, or
            ``"none"``.
        quantise: ``"times"`` rounds :math:`x_0` down to whole numbers, ``"cursor"`` rounds the
            cursor up, ``"none"`` neither.
        margin: what the cursor goes on by between text and the block after it.
        span: all tokens of a block evenly over so many positions on the axes of text, in place of
            coordinates; ``"count"`` gives each token a position.
        text: axes on which text is counted: ``"all"``, ``"time"``, ``"none"`` or their numbers.
        line: where blocks with times but no rows (sounds, series, timed text) are: ``"text"``, on
            the axes of text, all equal; ``"grid"``, as a video of one patch.
        clock: second that is 0 on the time axis for all blocks with times, which then do not begin
            at the cursor; unless given, :math:`\tau_0` is the earliest time of a block (or of its
            siblings), and each has its own clock.
        dtype: of the coordinates, to round them on purpose: ``torch.float32`` or
            ``torch.float64``.

    Raises:
        ValueError: a rule is unknown, a number not finite, or axes are not there; at the call, a
            block needs seconds or axes that are missing.

    Example:
        >>> from posenc_mm.streams import Image, Text
        >>> stream = Layout()(Text(2), Image(2, 3), Text(1))
        >>> stream.coords[0].T
        tensor([[0., 1., 2., 2., 2., 2., 2., 2., 5.],
                [0., 1., 2., 2., 2., 3., 3., 3., 5.],
                [0., 1., 2., 3., 4., 2., 3., 4., 5.]])
        >>> Layout().extend(stream, Text(1)).coords
        tensor([[[6., 6., 6.]]])
    """

    _: KW_ONLY
    axes: int = 3
    scale: Sequence[float] = (1.0,)
    time: str = "seconds"
    centre: str = "none"
    couple: bool = False
    anchor: Axes = "all"
    advance: str = "max"
    quantise: str = "none"
    margin: float = 0.0
    span: float | str | None = None
    text: Axes = "all"
    line: str = "text"
    clock: float | None = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        check_whole(axes=self.axes)
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}")
        if isinstance(self.scale, str) or not isinstance(self.scale, Sequence):
            raise ValueError(f"scale must be numbers, one per axis, got scale={self.scale!r}")
        if len(self.scale) > self.axes:
            raise ValueError(f"scale must be for {self.axes} axes at most, got {self.scale}")
        for number in self.scale:
            check_number(above=True, scale=number)
        for name in ("anchor", "text"):
            numbers(name, getattr(self, name), self.axes)
        check_number(margin=self.margin)
        if self.span is not None and self.span != "count":
            check_number(above=True, span=self.span)
        if self.clock is not None:
            check_number(-math.inf, clock=self.clock)
            if self.time == "frames":
                raise ValueError(f"clock needs time='seconds', got clock={self.clock}")
        if self.dtype not in (None, torch.float32, torch.float64):
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {self.dtype}")

    @property
    def scales(self) -> tuple[float, ...]:
        """One scale per axis."""
        return (*(float(s) for s in self.scale), *(1.0,) * (self.axes - len(self.scale)))

    @property
    def anchored(self) -> tuple[int, ...]:
        """Numbers of the axes that begin at the cursor."""
        return numbers("anchor", self.anchor, self.axes)

    @property
    def counted(self) -> tuple[int, ...]:
        """Numbers of the axes on which text is counted."""
        return numbers("text", self.text, self.axes)

    def __call__(self, *segments: Item, device: torch.device | str | None = None) -> Stream:
        """Place one row.

        Args:
            segments: in the order of their tokens.
            device: where the stream lives.

        Returns:
            A stream of one row.
        """
        return fresh(self, segments).to(torch.get_default_device() if device is None else device)

    def batch(
        self,
        rows: Sequence[Sequence[Item]],
        *,
        pad: str = "right",
        device: torch.device | str | None = None,
    ) -> Stream:
        """Place rows of any lengths, each as if alone.

        Args:
            rows: the segments of each row.
            pad: the side on which shorter rows are padded, ``"right"`` or ``"left"``.
            device: where the stream lives.

        Returns:
            A stream of as many rows.
        """
        return _padded([self(*row, device=device) for row in rows], pad)

    def extend(self, stream: Stream, *segments: Item) -> Stream:
        """Place more tokens behind each row: a decoded token, or media on a warm cache.

        Args:
            stream: what there is so far, from this layout, or its newest part.
            segments: the same for all rows.

        Returns:
            A stream of the new tokens alone, with the cursor behind them. ``stream.join(new)`` is
            the whole, as the keys of a cache are.
        """
        return continued(self, stream, segments)

    def extend_rows(
        self, stream: Stream, rows: Sequence[Sequence[Item]], *, pad: str = "right"
    ) -> Stream:
        """Place other tokens behind each row: one has a new image, another only text.

        Args:
            stream: what there is so far.
            rows: new segments for each of its rows.
            pad: the side on which shorter rows are padded.

        Returns:
            A stream of the new tokens alone.
        """
        if len(rows) != stream.coords.shape[0]:
            raise ValueError(
                f"rows must be one for each of {stream.coords.shape[0]} rows, got {len(rows)}"
            )
        each = [self.extend(stream[b], *row) for b, row in enumerate(rows)]
        return _padded(each, pad)


def _padded(streams: Sequence[Stream], side: str) -> Stream:
    return pad(streams, side=side)


def layout(
    *segments: Item, rule: Layout | None = None, device: torch.device | str | None = None
) -> Stream:
    """Place the tokens of a row: text, images, videos, sounds and series on one set of axes.

    Args:
        segments: in the order of their tokens.
        rule: the position design; M-RoPE as Qwen2-VL was trained, with seconds, unless given.
        device: where the stream lives.

    Returns:
        A stream of one row.

    Raises:
        ValueError: as :class:`Layout` says.

    Example:
        >>> from posenc_mm.streams import Audio, Text, Together, Video
        >>> both = Together(Video([0.0, 0.4, 2.0], 1, 2), Audio([0.4, 1.2]), order="time")
        >>> layout(Text(3), both, Text(1)).coords[0, :, 0].tolist()
        [0.0, 1.0, 2.0, 3.0, 3.0, 3.4, 3.4, 3.4, 4.2, 5.0, 5.0, 6.0]
    """
    return (Layout() if rule is None else rule)(*segments, device=device)
