"""A task made of letters: a key was said once with its value, and is asked for later."""

from typing import NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from posenc_mm import sequence
from text.data.windows import Batch

FILLERS, KEYS, VALUES = "abcdefghijklmnop", "ABCDEFGH", "0123456789"
ALPHABET = "".join(sorted(FILLERS + KEYS + VALUES + "\ufffd"))


class Needles(LightningDataModule):
    """Letters in which some keys stand, each twice before the same digit, at random places.

    ``abA3cB0dB0eA3`` has two keys: the digit after a key can be foreseen the second time. Only
    there the loss counts. To foresee it, a model has to find the key again, however far back, and
    read the token beside it. With one key it may look for the only digit instead, which no position
    is needed for: what is probed then is whether positions far off disturb it.

    Args:
        length: tokens of a window to train at.
        test_length: tokens of a window to test at; a list tests at each in turn.
        keys: how many, from 1 to 8. One is found by looking for any digit; of several, the right
            one has to be told by the token before it, which takes far longer to learn.
        batch_size: windows of ``length`` per step and process.
        train_windows: per epoch, each one new.
        eval_windows: of validation and of a test, the same ones always.

    Raises:
        ValueError: a number is out of range.
    """

    alphabet = ALPHABET

    def __init__(
        self,
        length: int = 64,
        test_length: int | list[int] | None = None,
        keys: int = 1,
        batch_size: int = 64,
        train_windows: int = 6400,
        eval_windows: int = 256,
    ) -> None:
        super().__init__()
        if not 1 <= keys <= len(KEYS):
            raise ValueError(f"keys must be from 1 to {len(KEYS)}, got keys={keys}")
        tested = test_length if isinstance(test_length, list) else [test_length or length]
        for name, count in [("length", length), *(("test_length", one) for one in tested)]:
            if count < 4 * keys:  # each twice, with its value
                raise ValueError(
                    f"{name} must be at least 4 * keys = {4 * keys}, got {name}={count}"
                )
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
        return DataLoader(
            _Drawn(length, self.keys, batch, self.eval_windows, seed), batch_size=None
        )


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
    """Draw windows in which each key stands twice.

    Args:
        batch: number of windows :math:`B`.
        length: tokens :math:`N` of each, beside the one after the last.
        keys: how many.
        generator: source of chance.

    Returns:
        The windows; the second value of each key counts.
    """
    names, values = _drawn_pairs(batch, keys, generator)
    tokens = _tokens(FILLERS)[torch.randint(len(FILLERS), (batch, length + 1), generator=generator)]
    places = _places(batch, 2 * keys, length + 1, generator)
    turn = torch.rand(batch, 2 * keys, generator=generator).argsort(dim=1) % keys  # twice each
    tokens.scatter_(1, places, names.gather(1, turn))
    tokens.scatter_(1, places + 1, values.gather(1, turn))
    again = (turn.unsqueeze(2) == turn.unsqueeze(1)).tril(-1).any(-1)
    counted = torch.zeros(batch, length + 1, dtype=torch.bool).scatter_(1, places, again)
    return Batch(tokens, counted[:, :-1], sequence(length), None, torch.zeros(batch).long())


def draw_asked(
    batch: int, length: int, keys: int, depth: float, generator: torch.Generator
) -> Asked:
    """Draw windows that ask for a key planted at a depth, beside the other keys once each.

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
    tokens = _tokens(FILLERS)[torch.randint(len(FILLERS), (batch, length), generator=generator)]
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
