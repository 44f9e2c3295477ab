"""What all texts share: splits, tokens, windows and loaders."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader, Dataset, Sampler

from text.data.windows import (
    Corpus,
    RandomWindows,
    Windows,
    collate,
    collate_packed,
    dealt_out,
    spans_of,
)
from text.vocabulary import START, UNKNOWN, Vocabulary, alphabet_of, vocabulary_of

VOCABULARIES = ("bytes", "characters")


class Split(NamedTuple):
    """Documents for training, for choosing among trained models, and for the final word."""

    train: list[str]
    val: list[str]
    test: list[str]


class Text(LightningDataModule, ABC):
    """Documents in three splits; training and validation see one length, tests any.

    Args:
        length: tokens of a window to train at.
        test_length: tokens of a window to test at; a list tests at each in turn, on the same text.
            ``length`` unless given.
        stride: tokens between windows of an evaluation; the whole window unless given, so that
            none overlap. With less, each counted token has more before it: slower and a little
            better.
        batch_size: windows of ``length`` per step and process; longer ones come in batches of as
            many tokens.
        vocabulary: ``"bytes"`` of UTF-8, or ``"characters"``, those of the training text.
        train_windows: drawn at random per epoch; one pass over the text unless given.
        eval_tokens: of validation and of test text to evaluate, evenly spread; all unless given.
        packed: whether the documents of a window are kept apart, each counting from 0; else a
            document sees the end of the one before, from which a start token divides it.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        length: int,
        test_length: int | list[int] | None,
        stride: int | None,
        batch_size: int,
        vocabulary: str,
        train_windows: int | None,
        eval_tokens: int | None,
        packed: bool,
    ) -> None:
        super().__init__()
        tested = test_length if isinstance(test_length, list) else [test_length or length]
        counts = {"length": length, "batch_size": batch_size, "train_windows": train_windows}
        counts |= {"eval_tokens": eval_tokens, "stride": stride}
        for name, count in [*counts.items(), *(("test_length", one) for one in tested)]:
            if count is not None and count < 1:
                raise ValueError(f"{name} must be at least 1, got {name}={count}")
        if not tested or len(set(tested)) != len(tested):
            raise ValueError(f"test_length must list different lengths, got {test_length}")
        if vocabulary not in VOCABULARIES:
            raise ValueError(
                f"vocabulary must be one of {VOCABULARIES}, got vocabulary={vocabulary!r}"
            )
        self.length, self.test_lengths, self.stride = length, tested, stride
        self.batch_size, self.train_windows, self.eval_tokens = (
            batch_size,
            train_windows,
            eval_tokens,
        )
        self.characters, self.packed = vocabulary == "characters", packed
        self.split: Split | None = None
        self._alphabet = ""
        self._corpora: dict[str, Corpus] = {}

    @abstractmethod
    def load(self) -> Split:
        """Read the documents."""

    def setup(self, stage: str) -> None:
        if self.split is None:
            self.split = self.load()

    @property
    def alphabet(self) -> str:
        """The characters of the training text; empty where tokens are bytes."""
        if self.characters and not self._alphabet:
            self.setup("fit")
            self._alphabet = alphabet_of("".join(self.split.train))
        return self._alphabet

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.alphabet)

    def corpus(self, name: str) -> Corpus:
        """The tokens of a split, each document after a start token."""
        if name not in self._corpora:
            self.setup(name)
            documents = getattr(self.split, name)
            encode = self.vocabulary.encode
            pieces = [encode(START + document) for document in documents]
            lengths = torch.tensor([0, *map(len, pieces)]).cumsum(0)
            self._corpora[name] = Corpus(torch.cat(pieces), lengths[:-1])
            if self.characters and name != "train":
                self._tell_unknown(name, documents)
        return self._corpora[name]

    @rank_zero_only
    def _tell_unknown(self, name: str, documents: list[str]) -> None:
        alphabet = set(self.alphabet) - {UNKNOWN}
        text = "".join(documents)
        strange = sum(text.count(character) for character in set(text) - alphabet)
        if strange:
            print(
                f"{name}: {strange} of {len(text)} characters are not in the training text and "
                f"count as the unknown one"
            )

    def train_dataloader(self) -> DataLoader:
        corpus = self.corpus("train")
        count = self.train_windows or max(1, (len(corpus.tokens) - 1) // self.length)
        return self._loader(RandomWindows(corpus, self.length, count), self.length)

    def val_dataloader(self) -> DataLoader:
        return self._evaluation("val", self.length, self.length)

    def test_dataloader(self) -> list[DataLoader]:
        longest = max(self.test_lengths)
        return [self._evaluation("test", length, longest) for length in self.test_lengths]

    def predict_dataloader(self) -> list[DataLoader]:
        return self.test_dataloader()

    def _evaluation(self, name: str, length: int, longest: int) -> DataLoader:
        corpus = self.corpus(name)
        spans = spans_of(len(corpus.tokens), self.eval_tokens, longest)
        stride = None if self.stride is None else min(self.stride, length)
        windows = Windows(corpus, length, spans, stride)
        return self._loader(windows, length, dealt_out(windows))

    def _loader(self, windows: Dataset, length: int, sampler: Sampler | None = None) -> DataLoader:
        # Windows are cut from memory: processes beside the training would only cost time.
        return DataLoader(
            windows,
            batch_size=max(1, self.batch_size * self.length // length),
            sampler=sampler,
            pin_memory=torch.cuda.is_available(),
            collate_fn=collate_packed if self.packed else collate,
        )
