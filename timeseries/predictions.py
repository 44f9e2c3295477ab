"""Predictions as a table that anything can read."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

from posenc_mm import TimeAxis
from timeseries.data import Batch

COLUMNS = ("window", "seen_until", "stamp", "series", "column")


class WritePredictions(BasePredictionWriter):
    """Writes ``predictions.csv`` beside the other results, one file per process.

    A row is one column of one future row of one window, in the units of the data, stamped by the
    clock on the wall.

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
        numbers = [f"q{level:g}" for level in pl_module.quantiles or ()] or ["forecast"]
        csv.writer(self._file).writerow((*COLUMNS, *numbers))

    def write_on_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        prediction: Tensor,
        batch_indices: Sequence[int] | None,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        data = trainer.datamodule
        moments, rows = batch.moments[:, data.lookback - 1 :].cpu().unique(return_inverse=True)
        axis = TimeAxis(moments, data.zone, "s")
        stamps = (axis if data.zone else TimeAxis(axis.numpy())).isoformat()
        names = [data.series[one].name for one in data.split.test.belongs[batch_indices].tolist()]
        lines = csv.writer(self._file)
        for window, row, name, values in zip(
            batch_indices, rows.tolist(), names, prediction.tolist(), strict=True
        ):
            for at, columns in zip(row[1:], values, strict=True):
                for column, numbers in zip(data.columns, columns, strict=True):
                    start = (window, stamps[row[0]], stamps[at], name, column)
                    lines.writerow((*start, *(f"{number:.6g}" for number in numbers)))

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is not None:
            self._file.close()
