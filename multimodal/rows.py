"""Rows: words spoken at random on one clock, pictures shown meanwhile, and questions in text."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from multimodal.data import RATE, Material
from posenc_mm.streams import Audio, Image, Layout, Stream, Text, Together, pad

KINDS = ("said", "shown", "said 1 s ago")
AGO = 1.0
BANDS, WINDOW = 32, 512
PATCH = 4
# Position of a second: as many as there are frames in it where the models are trained.
PER_SECOND = 20.0
LAYOUT = Layout(scale=(PER_SECOND,), clock=0.0, anchor="time", text="time")


@dataclass(frozen=True)
class Setting:
    """How rows are drawn.

    Args:
        words: spoken in a row, each with a picture.
        rate: audio frames per second.
        dropped: share of the frames that is lost, each with the same chance.
        questions: for each word on average.
    """

    words: int = 4
    rate: float = PER_SECOND
    dropped: float = 0.3
    questions: int = 2


class Rows(NamedTuple):
    """A batch of rows.

    Attributes:
        stream: where the tokens are: frames of sound, patches of pictures, questions.
        content: ``(B, N, 32)``, log-mel bands of a frame, pixels of a patch or the question's
            kind, one-hot; zeros behind each.
        kind: ``(B, N)``, a number of :data:`KINDS` at questions, else -1.
        answer: ``(B, N)``, the digit that is right at questions, else -1.
    """

    stream: Stream
    content: Tensor
    kind: Tensor
    answer: Tensor

    def part(self, rows: Tensor) -> "Rows":
        """Some of the rows, as long as the longest of them."""
        longest = int(self.stream.mask[rows].sum(1).max())
        of_tokens = (each[rows, :longest] for each in self[1:])
        return Rows(self.stream[rows, :longest], *of_tokens)


def draw(material: Material, setting: Setting, count: int, seed: int) -> Rows:
    """Draw rows, the same ones for the same seed.

    Args:
        material: what they are made of.
        setting: how they are made.
        count: how many.
        seed: of the draw.

    Returns:
        The rows, padded on the right.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = [_row(material, setting, generator) for _ in range(count)]
    stream = pad([row.stream for row in drawn])
    length = stream.shape[1]
    padded = (
        torch.stack([_longer(getattr(row, name), length, empty) for row in drawn])
        for name, empty in (("content", 0.0), ("kind", -1), ("answer", -1))
    )
    return Rows(stream, *padded)


def _longer(column: Tensor, length: int, empty: float) -> Tensor:
    longer = column.new_full((length, *column.shape[1:]), empty)
    longer[: len(column)] = column
    return longer


def _row(material: Material, setting: Setting, generator: torch.Generator) -> Rows:
    words = setting.words
    chosen = torch.randint(len(material.sounds), (words,), generator=generator)
    images = torch.randint(len(material.pictures), (words,), generator=generator)
    sounds = [material.sounds[index] for index in chosen.tolist()]
    lengths = torch.tensor([len(sound) for sound in sounds]) / RATE
    pauses = 0.2 + 0.4 * torch.rand(words, generator=generator)
    starts = (pauses + torch.cat((torch.zeros(1), lengths[:-1]))).cumsum(0).double()
    shown_at = starts + lengths * _between(0.25, 0.75, words, generator)

    asked = torch.randint(words, (words * setting.questions,), generator=generator)
    kind = torch.randint(len(KINDS), asked.shape, generator=generator)
    at = starts[asked] + lengths[asked] * _between(0.2, 0.8, len(asked), generator)
    at = at + AGO * (kind == KINDS.index("said 1 s ago"))
    at, order = at.sort()
    asked, kind = asked[order], kind[order]
    said, shown = material.said[chosen[asked]], material.shown[images[asked]]
    answer = torch.where(kind == KINDS.index("shown"), shown, said)

    seconds = float(starts[-1] + lengths[-1]) + AGO
    track = torch.zeros(math.ceil(seconds * RATE) + WINDOW)
    for start, sound in zip(starts.tolist(), sounds, strict=True):
        first = round(start * RATE)
        track[first : first + len(sound)] += sound
    ticks = torch.arange(int(seconds * setting.rate), dtype=torch.float64)
    times = (ticks + torch.rand(1, generator=generator)) / setting.rate
    times = times[torch.rand(len(times), generator=generator) >= setting.dropped]

    frames = log_mel(track, times)
    patches = material.pictures[images].unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
    content = torch.zeros(len(times) + 4 * words + len(asked), BANDS)
    content[: len(times)] = frames
    content[len(times) : -len(asked), : PATCH**2] = patches.reshape(-1, PATCH**2)
    content[torch.arange(-len(asked), 0), kind] = 1.0
    pictures = [Image(2, 2, time=float(moment)) for moment in shown_at]
    stream = LAYOUT(Together(Audio(times), *pictures, Text(len(asked), at)))
    nothing = torch.full((len(content) - len(asked),), -1)
    return Rows(stream, content, torch.cat((nothing, kind)), torch.cat((nothing, answer)))


def _between(low: float, high: float, count: int, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=generator)


def log_mel(track: Tensor, times: Tensor) -> Tensor:
    """Loudness of 32 bands of a sound around some moments, whatever lies between them.

    Args:
        track: ``(T,)`` at 8 kHz.
        times: ``(N,)`` seconds, the middles of windows of 64 ms.

    Returns:
        ``(N, 32)``, about 0 where it is silent and up to 2 where it is loud.
    """
    padded = torch.nn.functional.pad(track, (WINDOW // 2, WINDOW))
    first = (times * RATE).round().long().clamp(max=len(track))
    windows = padded[first[:, None] + torch.arange(WINDOW)] * torch.hann_window(WINDOW)
    power = torch.fft.rfft(windows).abs().square() / WINDOW
    return (1.0 + 100.0 * power @ mel_bands()).log() / 4.0


def mel_bands() -> Tensor:
    """Triangles on the mel scale from 60 to 4,000 Hz, ``(257, 32)``, of sum 1 each."""
    low, high = (1127.0 * math.log1p(hertz / 700.0) for hertz in (60.0, RATE / 2))
    ends = 700.0 * ((torch.linspace(low, high, BANDS + 2) / 1127.0).exp() - 1.0)
    hertz = torch.linspace(0.0, RATE / 2, WINDOW // 2 + 1)[:, None]
    rising = (hertz - ends[:-2]) / (ends[1:-1] - ends[:-2])
    falling = (ends[2:] - hertz) / (ends[2:] - ends[1:-1])
    bands = torch.minimum(rising, falling).clamp(min=0.0)
    return bands / bands.sum(0).clamp(min=1e-6)
