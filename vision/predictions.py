"""Predictions as a table that anything can read."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

COLUMNS = ("index", "size", "class", "predicted", "probability")


class WritePredictions(BasePredictionWriter):
    """Writes ``predictions.csv`` beside the other results, one file per process.

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
        prediction: Tensor,
        batch_indices: Sequence[int] | None,
        batch: tuple[Tensor, Tensor],
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        images, labels = batch
        size = "x".join(map(str, images.shape[-2:]))
        names = trainer.datamodule.class_names
        best = prediction.max(dim=-1)
        columns = (batch_indices, labels.tolist(), best.indices.tolist(), best.values.tolist())
        csv.writer(self._file).writerows(
            (index, size, names[label], names[predicted], f"{probability:.6f}")
            for index, label, predicted, probability in zip(*columns, strict=True)
        )

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is not None:
            self._file.close()
