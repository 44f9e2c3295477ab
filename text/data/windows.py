"""Windows of tokens: drawn at random for training, laid out without overlap for evaluation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from lightning.pytorch.overrides.distributed import UnrepeatedDistributedSampler
from torch import Tensor
from torch.utils.data import Dataset

from posenc_mm import packed, segments, sequence


class Batch(NamedTuple):
    """What a model is trained on, or judged by.

    Attributes:
        tokens: ``(B, N + 1)``: a token at each position, and the one after the last.
        counted: ``(B, N)``, true where the loss of the token that follows counts.
        positions: ``(N, 1)``, or ``(B, N, 1)`` where documents are packed.
        segments: ``(B, N)``, the document of each token where they are packed.
        starts: ``(B,)``, which token of the text each window begins at.
    """

    tokens: Tensor
    counted: Tensor
    positions: Tensor
    segments: Tensor | None
    starts: Tensor


@dataclass(frozen=True)
class Corpus:
    """Documents, one after another.

    Attributes:
        tokens: ``(T,)``.
        starts: ``(K,)`` the first token of each document, in increasing order.
    """

    tokens: Tensor
    starts: Tensor


class Window(NamedTuple):
    """One window of a corpus: its tokens, which rows count, where it begins, inner starts."""

    tokens: Tensor
    counted: Tensor
    start: int
    documents: Tensor


class Windows(Dataset):
    """The windows that count each token of some spans once.

    Args:
        corpus: to read.
        length: tokens of context :math:`N`.
        spans: stretches (begin, end) of the corpus to evaluate, from :func:`spans_of`.
        stride: tokens from one window to the next; ``length`` unless given. Less than that repeats
            context, so that the counted tokens have at least ``length - stride`` before them.

    Raises:
        ValueError: a span is shorter than a window, or the stride is not from 1 to ``length``.
    """

    def __init__(
        self,
        corpus: Corpus,
        length: int,
        spans: Sequence[tuple[int, int]],
        stride: int | None = None,
    ) -> None:
        self.corpus, self.length = corpus, length
        stride = length if stride is None else stride
        if not 1 <= stride <= length:
            raise ValueError(f"stride must be from 1 to length={length}, got stride={stride}")
        self.places = [place for span in spans for place in _laid_out(*span, length, stride)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Window:
        start, first = self.places[index]
        return _window(self.corpus, start, self.length, first)


class RandomWindows(Dataset):
    """Windows that begin anywhere, drawn anew each time.

    Args:
        corpus: to read.
        length: tokens of context :math:`N`.
        count: windows of an epoch.

    Raises:
        ValueError: the corpus is shorter than a window.
    """

    def __init__(self, corpus: Corpus, length: int, count: int) -> None:
        _check_long_enough(len(corpus.tokens), length)
        self.corpus, self.length, self.count = corpus, length, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Window:
        places = len(self.corpus.tokens) - self.length
        # Processes that train together draw the same numbers, but never for the same index.
        start = (int(torch.randint(places, ())) + index * 1_000_003) % places
        return _window(self.corpus, start, self.length, 0)


def spans_of(total: int, tokens: int | None, longest: int) -> list[tuple[int, int]]:
    """Choose stretches of a corpus to evaluate, evenly spread and the same for every length.

    Args:
        total: tokens of the corpus.
        tokens: how many to evaluate, about; None is all of them.
        longest: tokens of the longest window, of which the stretches are as long.

    Returns:
        Stretches (begin, end), without overlap.
    """
    if tokens is None or tokens >= total - 1:
        return [(0, total)]
    _check_long_enough(total, longest)
    count = max(1, tokens // longest)
    free = total - 1 - longest
    begins = [round(k * free / max(count - 1, 1)) for k in range(count)]
    return [(begin, begin + longest + 1) for begin in begins]


def dealt_out(windows: Dataset) -> UnrepeatedDistributedSampler | None:
    """Share what is evaluated among the processes that run together, if there are several.

    Args:
        windows: to evaluate, or batches of them.

    Returns:
        The share of this process, of which each window is in one; None leaves it to Lightning,
        which repeats some until all processes have as many, so that these would count twice.
    """
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    # A process with nothing at all would not meet the others where they add up their results.
    if not together or len(windows) < torch.distributed.get_world_size():
        return None
    return UnrepeatedDistributedSampler(windows, shuffle=False)


def collate_packed(windows: list[Window]) -> Batch:
    """Put windows into one batch, in which no token sees another document."""
    documents = [_cumulative(window) for window in windows]
    positions = torch.stack([packed(cumulative) for cumulative in documents])
    of_each = torch.stack([segments(cumulative) for cumulative in documents])
    return collate(windows)._replace(positions=positions, segments=of_each)


def collate(windows: list[Window]) -> Batch:
    """Put windows into one batch; a document may see the end of the one before."""
    tokens, counted, starts, _ = zip(*windows, strict=True)
    return Batch(
        torch.stack(tokens), torch.stack(counted), sequence(len(counted[0])), None,
        torch.tensor(starts),
    )  # fmt: skip


def _cumulative(window: Window) -> Tensor:
    length = len(window.counted)
    inner = window.documents[(window.documents > 0) & (window.documents < length)]
    return torch.cat((inner.new_tensor([0]), inner, inner.new_tensor([length])))


def _window(corpus: Corpus, start: int, length: int, first: int) -> Window:
    stop = start + length
    between = torch.searchsorted(corpus.starts, torch.tensor([start, stop]))
    documents = corpus.starts[between[0] : between[1]] - start
    tokens = corpus.tokens[start : stop + 1].long()
    return Window(tokens, torch.arange(length) >= first, start, documents)


def _laid_out(begin: int, end: int, length: int, stride: int) -> Iterator[tuple[int, int]]:
    """Where windows start, and from which row on they count: each target of a span once."""
    _check_long_enough(end - begin, length)
    start, done = begin, begin
    while done < end - 1:
        start = min(start, end - 1 - length)  # the last one is whole too, and counts the rest
        yield start, done - start
        done = start + length
        start += stride


def _check_long_enough(total: int, length: int) -> None:
    if total <= length:
        raise ValueError(
            f"a text must have more tokens than a window of {length}, got {total}: give more text "
            f"or a shorter length"
        )
