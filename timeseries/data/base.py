"""What all forecasting data share: borders, scaling on the training rows, windows and loaders."""

import copy
from abc import ABC, abstractmethod

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.overrides.distributed import UnrepeatedDistributedSampler
from lightning.pytorch.utilities import rank_zero_info
from torch.utils.data import DataLoader

from timeseries.data.series import Reading, Series
from timeseries.data.splits import Borders, Prepared, Scaler, Split, long_enough, scale
from timeseries.data.windows import Windows


class Forecasting(LightningDataModule, ABC):
    """Series to forecast, in windows of three splits that follow each other in time.

    Windows of validation and test start ``lookback`` rows before their border, so that how many
    there are, and what they forecast, does not depend on the lookback. Every one is evaluated, in
    order. Columns are scaled by mean and standard deviation of the training rows alone, those known
    in advance too. Whoever asks for an attribute first has the series read.

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes.
        batch_size: windows per step and process.
        stride: rows from one window of training to the next; others are next to each other.
        drop_last_test: leave out the last windows of the test if they do not fill a batch. Only to
            compare with published results that were computed so: the figures flatter.
        num_workers: processes that load beside the training; windows lie in memory and need none.

    Attributes:
        columns: names of what is forecast.
        known_columns: names of what is known in advance.
        variates: how many columns are forecast, V.
        known_width: how many are known in advance, F.
        step: seconds from one row to the next.
        span: seconds from the first row of a window to its last, the median over training.
        zone: the time zone of the stamps, None if they have none.
        counts: windows of each split.
        series: as they were read, those that are long enough.
        borders: the rows at which each split ends, of each.
        scaler: of what is forecast.
        known_scaler: of what is known in advance.
        split: windows of scaled values.
        notes: what was found out, for people.
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        batch_size: int = 32,
        stride: int = 1,
        drop_last_test: bool = False,
        num_workers: int = 0,
    ) -> None:
        super().__init__()
        lengths = {"lookback": lookback, "horizon": horizon}
        for name, number in {**lengths, "batch_size": batch_size, "stride": stride}.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {name}={number}")
        if num_workers < 0:
            raise ValueError(f"num_workers must be at least 0, got num_workers={num_workers}")
        self.lookback, self.horizon, self.stride = lookback, horizon, stride
        self.batch_size, self.num_workers = batch_size, num_workers
        self.drop_last_test = drop_last_test
        self._prepared: Prepared | None = None

    @abstractmethod
    def load(self) -> Reading:
        """Read the series."""

    def ends(self, rows: int) -> Borders:
        """Say where splits end: 70 %, 10 % and 20 % of the rows, rounded as is usual."""
        return Borders(int(rows * 0.7), rows - int(rows * 0.2), rows)

    def setup(self, stage: str | None = None) -> None:
        if self._prepared is None:
            self._prepared = self._prepare(self.load())
            rank_zero_info(self.describe())

    def at_lookback(self, lookback: int) -> "Forecasting":
        """The same series, seen at another lookback."""
        other = copy.copy(self)
        other.lookback = lookback
        other._prepared = other._prepare(Reading(self.series, []))
        return other

    @property
    def prepared(self) -> Prepared:
        """What comes of the series; whoever asks first has them read."""
        if self._prepared is None:
            self.prepare_data()
            self.setup()
        return self._prepared

    @property
    def series(self) -> list[Series]:
        return self.prepared.series

    @property
    def borders(self) -> list[Borders]:
        return self.prepared.borders

    @property
    def scaler(self) -> Scaler:
        return self.prepared.scaler

    @property
    def known_scaler(self) -> Scaler:
        return self.prepared.known_scaler

    @property
    def split(self) -> Split:
        return self.prepared.split

    @property
    def notes(self) -> list[str]:
        return self.prepared.notes

    @property
    def columns(self) -> tuple[str, ...]:
        return self.series[0].columns

    @property
    def known_columns(self) -> tuple[str, ...]:
        return self.series[0].known_columns

    @property
    def variates(self) -> int:
        return len(self.columns)

    @property
    def known_width(self) -> int:
        return len(self.known_columns)

    @property
    def zone(self) -> str | None:
        return self.series[0].axis.zone

    @property
    def step(self) -> float:
        frequency = self.series[0].axis.frequency
        if frequency.confidence > 0.5:
            try:
                return float(frequency.length)
            except ValueError:
                pass  # months have no one length
        steps = [one.axis.seconds().double().diff() for one in self.series]
        return float(torch.cat(steps).median())

    @property
    def span(self) -> float:
        train = self.split.train
        last = train.starts + self.lookback + self.horizon - 1
        return float((train.moments[last] - train.moments[train.starts]).median())

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(windows) for name, windows in self.split._asdict().items()}

    def describe(self) -> str:
        """Tell what is forecast from what, where splits end and what the scaling knows."""
        split, first, ends = self.split, self.series[0], self.borders[0]
        start, stop = first.axis[[0, -1]].isoformat()
        several = f", the first of {len(self.series)} series" if len(self.series) > 1 else ""
        left = len(split.test) % self.batch_size if self.drop_last_test else 0
        every = (
            f"drop_last_test leaves out the last {left}, as some published results do"
            if self.drop_last_test
            else "every one"
        )
        lines = [
            f"{first.name}{several}: {len(first.axis):,} rows, {start} to {stop}, "
            f"{first.axis.zone or 'no zone'}; {_counted(self.columns, 'column')} to forecast, "
            f"{_counted(self.known_columns, 'column')} known in advance",
            f"{self.lookback} rows are seen (L), {self.horizon} are forecast (H)",
            f"train: rows 1 to {ends.train:,}, {len(split.train):,} windows, stride {self.stride}; "
            "columns are scaled by mean and deviation of these rows",
            f"val: forecasts of rows {ends.train + 1:,} to {ends.val:,}, {len(split.val):,} "
            "windows, every one",
            f"test: forecasts of rows {ends.val + 1:,} to {ends.test:,}, {len(split.test):,} "
            f"windows, {every}",
        ]
        if ends.test < len(first.axis):
            lines.append(f"{len(first.axis) - ends.test:,} rows behind are not used")
        return "\n".join([*lines, *self.notes])

    def train_dataloader(self) -> DataLoader:
        return self._loader(self.split.train, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self._loader(self.split.val)

    def test_dataloader(self) -> DataLoader:
        return self._loader(self.split.test, drop_last=self.drop_last_test)

    def predict_dataloader(self) -> DataLoader:
        return self._loader(self.split.test)

    def _loader(
        self, windows: Windows, shuffle: bool = False, drop_last: bool = False
    ) -> DataLoader:
        sampler = None
        if not shuffle and torch.distributed.is_available() and torch.distributed.is_initialized():
            # Lightning's usual one counts windows twice where processes have unlike numbers.
            sampler = UnrepeatedDistributedSampler(windows, shuffle=False)
        return DataLoader(
            windows,
            batch_size=self.batch_size,
            shuffle=shuffle,
            sampler=sampler,
            drop_last=drop_last,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            collate_fn=Windows.collate,
        )

    def _prepare(self, reading: Reading) -> Prepared:
        borders = [self.ends(len(one.axis)) for one in reading.series]
        kept, short = long_enough(reading.series, borders, self.lookback, self.horizon)
        series, borders = [reading.series[row] for row in kept], [borders[row] for row in kept]
        notes = [*reading.notes]
        if short:
            notes.append(f"left out, as too short: {'; '.join(short)}")
        scaler, known_scaler, scaled = scale(series, borders)
        ended, before = list(zip(scaled, borders, strict=True)), self.lookback
        lengths = self.lookback, self.horizon
        split = Split(
            Windows([one.part(0, end.train) for one, end in ended], *lengths, self.stride),
            Windows([one.part(end.train - before, end.val) for one, end in ended], *lengths),
            Windows([one.part(end.val - before, end.test) for one, end in ended], *lengths),
        )
        return Prepared(series, borders, scaler, known_scaler, split, notes)


def _counted(names: tuple[str, ...], noun: str) -> str:
    listed = f" ({', '.join(names)})" if 0 < len(names) < 10 else ""
    return f"{len(names)} {noun}{'' if len(names) == 1 else 's'}{listed}"
