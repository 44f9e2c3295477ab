"""What a stream is made of: text, images, videos, sounds, series, points, and siblings."""

from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from posenc_mm.checks import check_number, check_whole
from posenc_mm.streams.clocks import Ticks, Times, seconds, settled, ticks_of


class Modality(IntEnum):
    """What a token is of: rows of a table of embeddings, with padding first."""

    PADDING = 0
    TEXT = 1
    IMAGE = 2
    VIDEO = 3
    AUDIO = 4
    SERIES = 5
    POINTS = 6


@dataclass(frozen=True, eq=False)
class Text:
    """Tokens of text, which are counted; or text that is spoken or shown at certain times.

    Args:
        count: number of tokens; 0 is allowed.
        times: seconds of each token, ``(count,)``, for text on the clock of videos and sounds:
            subtitles, transcripts. It is then a block like these.

    Raises:
        ValueError: ``count`` is negative, or times are not as many finite numbers.
    """

    count: int
    times: Times = None
    modality: ClassVar[Modality] = Modality.TEXT

    def __post_init__(self) -> None:
        check_whole(0, count=self.count)
        if self.times is not None:
            times = seconds("times", self.times)
            if len(times) != self.count:
                raise ValueError(
                    f"times must hold one number for each of {self.count} tokens, got {len(times)}"
                )
            object.__setattr__(self, "times", times)

    @property
    def clock(self) -> Ticks | None:
        """When tokens are, unless they are counted."""
        return Ticks(self.times, 1.0) if isinstance(self.times, Tensor) else None


@dataclass(frozen=True)
class Image:
    """Patches of an image, row by row, as many as reach the transformer (after merging).

    Args:
        rows: patches from top to bottom.
        columns: patches from left to right.
        time: seconds, for a still among videos, or where a design tells images apart by time.

    Raises:
        ValueError: a size is below 1, or ``time`` not finite.
    """

    rows: int
    columns: int
    time: float | None = None
    modality: ClassVar[Modality] = Modality.IMAGE

    def __post_init__(self) -> None:
        check_whole(rows=self.rows, columns=self.columns)
        if self.time is not None:
            check_number(-float("inf"), time=self.time)

    @property
    def clock(self) -> Ticks | None:
        """When it is, if it has a time."""
        if self.time is None:
            return None
        return Ticks(torch.tensor([float(self.time)], dtype=torch.float64, device="cpu"), 1.0)


@dataclass(frozen=True, eq=False)
class Video:
    """Patches of a video: time step by time step, row by row.

    Args:
        times: seconds of each time step, ``(T,)``, at any spacing, negative or not; or how many
            there are (``frames``).
        rows: patches from top to bottom.
        columns: patches from left to right.
        frames: number of frames, in place of times.
        fps: frames per second. Without it steps are counted.
        patch: frames that one step of tokens spans (the temporal patch): there are
            ``frames / patch`` steps, rounded up, each at its first frame.
        start: seconds at the first frame, with ``fps``.

    Raises:
        ValueError: a size is below 1; neither or both of times and frames are given, or ``fps``,
            ``patch`` or ``start`` with times; or numbers are not finite.

    Example:
        >>> Video(frames=6, fps=4.0, patch=2, rows=2, columns=3).clock
        Ticks(ticks=tensor([0., 1., 2.], dtype=torch.float64), rate=2.0)
    """

    times: Times = None
    rows: int = 1
    columns: int = 1
    _: KW_ONLY
    frames: int | None = None
    fps: float | None = None
    patch: int = 1
    start: float = 0.0
    modality: ClassVar[Modality] = Modality.VIDEO

    def __post_init__(self) -> None:
        check_whole(rows=self.rows, columns=self.columns, patch=self.patch)
        times, frames = settled(self.times, "frames", self.frames, "fps", self.fps, self.start)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "frames", frames)
        if isinstance(self.times, Tensor) and self.patch != 1:
            raise ValueError(f"patch is for frames that are counted, got patch={self.patch}")

    @property
    def clock(self) -> Ticks:
        """When time steps are."""
        return ticks_of(self.times, self.frames, self.fps, self.patch, self.start)


@dataclass(frozen=True, eq=False)
class Audio:
    """Tokens of a sound.

    Args:
        times: seconds of each token, ``(T,)``; or how many there are (``count``).
        count: number of tokens, in place of times; 0 is allowed.
        rate: tokens per second. Without it tokens are counted.
        start: seconds at the first token, with ``rate``.

    Raises:
        ValueError: neither or both of times and count are given, ``rate`` or ``start`` comes with
            times, or numbers are not finite.
    """

    times: Times = None
    _: KW_ONLY
    count: int | None = None
    rate: float | None = None
    start: float = 0.0
    modality: ClassVar[Modality] = Modality.AUDIO

    def __post_init__(self) -> None:
        times, count = settled(self.times, "count", self.count, "rate", self.rate, self.start)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "count", count)

    @property
    def clock(self) -> Ticks:
        """When tokens are."""
        return ticks_of(self.times, self.count, self.rate, 1, self.start)


@dataclass(frozen=True, eq=False)
class Series:
    """Values of one variate of a time series, or patches of them.

    Args:
        times: seconds of each token, ``(T,)``; or how many there are (``count``).
        variate: which variate they are of: a number of its own, 0 or more.
        count: number of tokens, in place of times; 0 is allowed.
        rate: tokens per second. Without it tokens are counted.
        start: seconds at the first token, with ``rate``.

    Raises:
        ValueError: as for :class:`Audio`, or ``variate`` is negative.
    """

    times: Times = None
    variate: int = 0
    _: KW_ONLY
    count: int | None = None
    rate: float | None = None
    start: float = 0.0
    modality: ClassVar[Modality] = Modality.SERIES

    def __post_init__(self) -> None:
        check_whole(0, variate=self.variate)
        times, count = settled(self.times, "count", self.count, "rate", self.rate, self.start)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "count", count)

    @property
    def clock(self) -> Ticks:
        """When tokens are."""
        return ticks_of(self.times, self.count, self.rate, 1, self.start)


@dataclass(frozen=True, eq=False)
class Points:
    """Tokens at any coordinates: points in space, actions, cells of a volume.

    Args:
        coords: ``(N, A)``, in the order of the layout's axes; axes that it lacks are the last.

    Raises:
        ValueError: another shape, no real numbers, or half precision.
    """

    coords: Tensor
    modality: ClassVar[Modality] = Modality.POINTS

    def __post_init__(self) -> None:
        if not isinstance(self.coords, Tensor) or self.coords.ndim != 2:
            raise ValueError(f"coords must be a tensor (N, A), got {self.coords!r}")
        flat = seconds("coords", self.coords.reshape(-1))
        object.__setattr__(self, "coords", flat.reshape(self.coords.shape))

    @property
    def clock(self) -> None:
        """Points have no times of their own."""


Segment: TypeAlias = Text | Image | Video | Audio | Series | Points
SEGMENTS = (Text, Image, Video, Audio, Series, Points)
