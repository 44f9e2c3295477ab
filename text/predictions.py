"""What a model foresaw, token by token, as a table that anything can read."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

from text.data.windows import Batch

COLUMNS = ("length", "position", "index", "token", "predicted", "probability")


class WritePredictions(BasePredictionWriter):
    """Writes ``predictions.csv`` beside the other results, one file per process.

    A row per counted token: the length of its window, its position there, its index in the text,
    the token (as bytes, where it is not a whole character), the likeliest one, and the probability
    that the model gave to what came.

    Attributes:
        path: where the predictions are, once there are any.
    """

    def __init__(self) -> None:
        super().__init__(write_interval="batch")
        self.path: Path | None = None
        self._file: TextIO | None = None

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        folder = Path(trainer.log_dir or trainer.default_root_dir)
        folder.mkdir(parents=True, exist_ok=True)
        process = f"-{trainer.global_rank}" if trainer.world_size > 1 else ""
        self.path = folder / f"predictions{process}.csv"
        self._file = self.path.open("w", newline="", encoding="utf-8")
        csv.writer(self._file).writerow(COLUMNS)

    def write_on_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        prediction: tuple[Tensor, Tensor],
        batch_indices: Sequence[int] | None,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        window, row = batch.counted.nonzero(as_tuple=True)
        best, probability = (part[window, row].tolist() for part in prediction)
        targets = batch.tokens[window, row + 1].tolist()
        index = (batch.starts[window] + row + 1).tolist()
        length = batch.tokens.shape[1] - 1
        names = [_shown(pl_module.vocabulary.bytes_of(k)) for k in range(pl_module.vocabulary.size)]
        columns = ((row + 1).tolist(), index, targets, best, probability)
        csv.writer(self._file).writerows(
            (length, position, at, names[target], names[predicted], f"{sure:.6f}")
            for position, at, target, predicted, sure in zip(*columns, strict=True)
        )

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is not None:
            self._file.close()


def _shown(token: bytes) -> str:
    text = token.decode(errors="backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]
