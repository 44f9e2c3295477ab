"""A task made of letters: a key was said with its digit, and is asked for later."""

from typing import NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from posenc_mm import sequence
from text.data.windows import Batch, dealt_out

FILLERS, KEYS, VALUES = "abcdefghijklmnop", "ABCDEFGH", "0123456789"
ALPHABET = "".join(sorted(FILLERS + KEYS + VALUES + "\ufffd"))


class Needles(LightningDataModule):
    """Letters and digits at random, and among them keys, each before a digit of its own.

    ``aB3c7B3A0dA0`` has two keys: the digit after a key can be foreseen when it comes again, and
    only there the loss counts. To foresee it, a model has to find the key, however far back, and
    read the token beside it: other digits are no answer, so that order has to be known.

    This is multi-query associative recall between letters that say nothing. Most of a window is
    pairs and few keys are known at its beginning, so that it is quick to learn; a probe then asks
    for keys that were said once.

    References:
        Arora et al.: Zoology: Measuring and Improving Recall in Efficient Language Models (2023),
        https://arxiv.org/abs/2312.04927

    Args:
        length: tokens of a window to train at.
        test_length: tokens of a window to test at; a list tests at each in turn.
        keys: how many different ones in a window, from 1 to 8; in training, at most.
        batch_size: windows of ``length`` per step and process.
        train_windows: per epoch, each one new.
        eval_windows: of validation and of a test, the same ones always.

    Raises:
        ValueError: a number is out of range.
    """

    alphabet = ALPHABET

    def __init__(
        self,
        length: int = 32,
        test_length: int | list[int] | None = None,
        keys: int = 4,
        batch_size: int = 32,
        train_windows: int = 1280,
        eval_windows: int = 256,
    ) -> None:
        super().__init__()
        if not 1 <= keys <= len(KEYS):
            raise ValueError(f"keys must be from 1 to {len(KEYS)}, got keys={keys}")
        least = 4 * keys  # each twice, with its digit
        tested = test_length if isinstance(test_length, list) else [test_length or length]
        for name, count in [("length", length), *(("test_length", one) for one in tested)]:
            if count < least:
                raise ValueError(f"{name} must be at least 4 * keys = {least}, got {name}={count}")
        counts = {"batch_size": batch_size, "train_windows": train_windows}
        for name, count in {**counts, "eval_windows": eval_windows}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {name}={count}")
        self.length, self.test_lengths, self.keys = length, tested, keys
        self.batch_size = batch_size
        self.train_windows, self.eval_windows = train_windows, eval_windows

    def train_dataloader(self) -> DataLoader:
        return DataLoader(
            _Drawn(self.length, self.keys, self.batch_size, self.train_windows), batch_size=None
        )

    def val_dataloader(self) -> DataLoader:
        return self._evaluation(self.length, seed=1)

    def test_dataloader(self) -> list[DataLoader]:
        return [self._evaluation(length, seed=2) for length in self.test_lengths]

    def predict_dataloader(self) -> list[DataLoader]:
        return self.test_dataloader()

    def _evaluation(self, length: int, seed: int) -> DataLoader:
        batch = max(1, self.batch_size * self.length // length)
        batches = _Drawn(length, self.keys, batch, self.eval_windows, seed)
        return DataLoader(batches, batch_size=None, sampler=dealt_out(batches))


class _Drawn(Dataset):
    """Batches, drawn as they are asked for."""

    def __init__(
        self, length: int, keys: int, batch: int, windows: int, seed: int | None = None
    ) -> None:
        self.length, self.keys, self.batch, self.windows = length, keys, batch, windows
        self.seed = seed

    def __len__(self) -> int:
        return -(-self.windows // self.batch)

    def __getitem__(self, index: int) -> Batch:
        if not 0 <= index < len(self):
            raise IndexError(index)
        # Processes that train together draw the same numbers, but never for the same index.
        drawn = int(torch.randint(2**60, ())) if self.seed is None else self.seed << 32
        seed = drawn + index
        generator = torch.Generator().manual_seed(seed)
        return draw_training(self.batch, self.length, self.keys, generator)


class Asked(NamedTuple):
    """Windows that end with a key whose value was planted.

    Attributes:
        tokens: ``(B, N)``, the last of which is the key.
        answers: ``(B,)`` the tokens that should follow.
    """

    tokens: Tensor
    answers: Tensor


def draw_training(batch: int, length: int, keys: int, generator: torch.Generator) -> Batch:
    """Draw windows of which three quarters are pairs of a key and its digit.

    A key comes in at a place of chance; from there on it comes as often as any other.

    Args:
        batch: number of windows :math:`B`.
        length: tokens :math:`N` of each, beside the one after the last; at least ``4 * keys``.
        keys: how many different ones, at most.
        generator: source of chance.

    Returns:
        The windows; a digit counts where its key has stood before.
    """
    names, values = _drawn_pairs(batch, keys, generator)
    tokens = _noise(batch, length + 1, generator)
    count = max(keys + 1, 3 * (length + 1) // 8)  # more than keys: one of them comes again
    places = _places(batch, count, length + 1, generator)
    # Were all keys said early, a model would not learn to read pairs late in a window.
    begin = torch.rand(batch, 1, keys, generator=generator) * count
    begin[:, :, 0] = 0
    begun = (begin <= torch.arange(count).unsqueeze(1)).double()
    turn = begun.flatten(0, 1).multinomial(1, generator=generator).view(batch, count)
    tokens.scatter_(1, places, names.gather(1, turn))
    tokens.scatter_(1, places + 1, values.gather(1, turn))
    again = (turn.unsqueeze(2) == turn.unsqueeze(1)).tril(-1).any(-1)
    counted = torch.zeros(batch, length + 1, dtype=torch.bool).scatter_(1, places, again)
    return Batch(tokens, counted[:, :-1], sequence(length), None, torch.zeros(batch).long())


def draw_asked(
    batch: int, length: int, keys: int, depth: float, generator: torch.Generator
) -> Asked:
    """Draw windows that ask for a key planted at a depth, with the other keys once each.

    Args:
        batch: number of windows :math:`B`.
        length: tokens :math:`N` of each, the question at the end included.
        keys: how many, the one asked for among them.
        depth: where the key and its value are: 0 at the beginning, 1 just before the question.
        generator: source of chance.

    Returns:
        The windows and their answers.
    """
    names, values = _drawn_pairs(batch, keys, generator)
    tokens = _noise(batch, length, generator)
    spare = length - 3
    planted = round(depth * spare)
    # The other keys lie around the planted pair: places are drawn without its two cells.
    places = _places(batch, keys - 1, spare, generator)
    while (torn := (places == planted - 1).any(dim=1)).any():
        places[torn] = _places(int(torn.sum()), keys - 1, spare, generator)
    places = places + 2 * (places >= planted)
    tokens.scatter_(1, places, names[:, 1:])
    tokens.scatter_(1, places + 1, values[:, 1:])
    tokens[:, planted], tokens[:, planted + 1] = names[:, 0], values[:, 0]
    tokens[:, -1] = names[:, 0]
    return Asked(tokens, values[:, 0])


def _noise(batch: int, length: int, generator: torch.Generator) -> Tensor:
    """Letters, and digits that are no key's: one that is cannot be told by being a digit."""
    among = _tokens(FILLERS + VALUES)
    return among[torch.randint(len(among), (batch, length), generator=generator)]


def _drawn_pairs(batch: int, keys: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    order = torch.rand(batch, len(KEYS), generator=generator).argsort(dim=1)[:, :keys]
    values = torch.randint(len(VALUES), (batch, keys), generator=generator)
    return _tokens(KEYS)[order], _tokens(VALUES)[values]


def _places(batch: int, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Draw places for pairs ``(B, count)``, in order, without overlap."""
    cells = torch.rand(batch, length - count, generator=generator).argsort(dim=1)[:, :count]
    return cells.sort(dim=1).values + torch.arange(count)


def _tokens(characters: str) -> Tensor:
    return torch.tensor([ALPHABET.index(character) for character in characters])
