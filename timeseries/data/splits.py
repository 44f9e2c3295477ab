"""Splits in time: where they end, what is long enough for them, and scaling by the first one."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from timeseries.data.series import Series
from timeseries.data.windows import Windows


class Split(NamedTuple):
    """Windows for training, for choosing among trained models, and for the final word."""

    train: Windows
    val: Windows
    test: Windows


class Borders(NamedTuple):
    """The rows at which training, validation and test rows end."""

    train: int
    val: int
    test: int


class Scaler(NamedTuple):
    """Mean and standard deviation of each column over the training rows of each series.

    Attributes:
        mean: ``(S, V)`` of the values, one row per series, float64.
        std: ``(S, V)`` over the population; 1 where a column does not vary.
    """

    mean: Tensor
    std: Tensor

    @staticmethod
    def fit(parts: list[Tensor]) -> "Scaler":
        """Measure one ``(T, V)`` tensor per series."""
        mean = torch.stack([part.mean(0) for part in parts])
        # Not Tensor.std, which warns of columns that are none.
        std = torch.stack([(part - part.mean(0)).square().mean(0).sqrt() for part in parts])
        varies = torch.stack([(part != part[0]).any(0) for part in parts])
        return Scaler(mean, torch.where(varies, std, 1.0))

    def scaled(self, parts: list[Tensor]) -> list[Tensor]:
        """Scale the columns of each series."""
        return [(x - mean) / std for x, mean, std in zip(parts, *self, strict=True)]


class Prepared(NamedTuple):
    """Series, and what comes of them: see :class:`timeseries.data.Forecasting`."""

    series: list[Series]
    borders: list[Borders]
    scaler: Scaler
    known_scaler: Scaler
    split: Split
    notes: list[str]


def scale(series: list[Series], borders: list[Borders]) -> tuple[Scaler, Scaler, list[Series]]:
    """Scale values, and what is known in advance, by the rows that train alone."""
    trained = [one.part(0, end.train) for one, end in zip(series, borders, strict=True)]
    scaler = Scaler.fit([one.values for one in trained])
    known_scaler = Scaler.fit([one.known for one in trained])
    values = scaler.scaled([one.values for one in series])
    known = known_scaler.scaled([one.known for one in series])
    scaled = [
        one._replace(values=own, known=its)
        for one, own, its in zip(series, values, known, strict=True)
    ]
    return scaler, known_scaler, scaled


def long_enough(
    series: Sequence[Series], borders: Sequence[Borders], lookback: int, horizon: int
) -> tuple[list[int], list[str]]:
    """Find the series that have a window to train, to validate and to test.

    Args:
        series: all of them.
        borders: of each.
        lookback: rows that are seen.
        horizon: rows that are forecast.

    Returns:
        Which ones, and what to say of the others.

    Raises:
        ValueError: none has.
    """
    long, short = [], []
    wanted = (lookback + horizon, horizon, horizon)
    for row, (one, end) in enumerate(zip(series, borders, strict=True)):
        parts = (end.train, end.val - end.train, end.test - end.val)
        if all(part >= want for part, want in zip(parts, wanted, strict=True)):
            long.append(row)
        else:
            of = ", ".join(f"{part:,}" for part in parts)
            short.append(f"{one.name} ({len(one.axis):,} rows: {of})")
    if not long:
        raise ValueError(
            f"series must have {wanted[0]:,} rows to train (lookback={lookback} and "
            f"horizon={horizon}), {horizon:,} to validate and {horizon:,} to test, got "
            f"{'; '.join(short)}"
        )
    return long, short
