"""Sliding windows over series, gathered a whole batch at a time."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from timeseries.data.series import Series


class Batch(NamedTuple):
    """Windows: what is seen, what is to be forecast, and when.

    Attributes:
        past: ``(B, L, V)`` float32.
        future: ``(B, H, V)`` float32.
        moments: ``(B, L + H)`` of past and future, in seconds since 1970-01-01T00:00 UTC (on their
            own clock where the series has no zone), float64.
        known: ``(B, L + H, F)`` covariates known in advance, float32.
    """

    past: Tensor
    future: Tensor
    moments: Tensor
    known: Tensor


class Windows(Dataset):
    """Every window of ``lookback + horizon`` neighbouring rows of each series.

    One index gives a window without a copy; a list of indices, as a loader asks for, gives a whole
    batch, so that the loader has nothing to stack: ``collate_fn=Windows.collate``.

    Args:
        series: as they are to be seen, scaled for instance; none gives windows with another.
        lookback: rows that are seen, :math:`L`.
        horizon: rows that are to be forecast, :math:`H`.
        stride: rows from one window to the next.

    Attributes:
        starts: ``(N,)`` the first row of each window, among the rows of all series.
        origins: ``(N,)`` the moment of the last row each window has seen, in seconds as in
            :class:`Batch`.
        belongs: ``(N,)`` which of the series each window is of.

    Raises:
        ValueError: lengths below 1, no series, or series that differ in their columns.
    """

    def __init__(
        self, series: Sequence[Series], lookback: int, horizon: int, stride: int = 1
    ) -> None:
        for name, number in (("lookback", lookback), ("horizon", horizon), ("stride", stride)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {name}={number}")
        columns = {(one.columns, one.known_columns) for one in series}
        if len(columns) != 1:
            raise ValueError(f"series must be some, of the same columns, got {sorted(columns)}")
        self.lookback, self.horizon = lookback, horizon
        self.values = torch.cat([one.values for one in series]).float()
        self.known = torch.cat([one.known for one in series]).float()
        self.moments = torch.cat([one.axis.seconds().double() for one in series])
        starts, belongs, before = [], [], 0
        for row, one in enumerate(series):
            last = before + len(one.axis) - lookback - horizon
            starts.append(torch.arange(before, max(before, last + 1), stride))
            belongs.append(torch.full_like(starts[-1], row))
            before += len(one.axis)
        self.starts, self.belongs = torch.cat(starts), torch.cat(belongs)

    def thinned(self, stride: int) -> "Windows":
        """Every so many of the windows."""
        other = copy.copy(self)
        other.starts, other.belongs = self.starts[::stride], self.belongs[::stride]
        return other

    @property
    def origins(self) -> Tensor:
        return self.moments[self.starts + self.lookback - 1]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Batch:
        """One window, as views, without the dimension of the batch."""
        start = int(self.starts[index])
        seen, end = start + self.lookback, start + self.lookback + self.horizon
        rows = slice(start, end)
        past, future = self.values[start:seen], self.values[seen:end]
        return Batch(past, future, self.moments[rows], self.known[rows])

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """A batch of windows."""
        starts = self.starts[torch.as_tensor(indices)]
        seen, both = starts + self.lookback, self.lookback + self.horizon
        past = _gathered(self.values, starts, self.lookback)
        future = _gathered(self.values, seen, self.horizon)
        moments = _gathered(self.moments[:, None], starts, both).squeeze(-1)
        return Batch(past, future, moments, _gathered(self.known, starts, both))

    @staticmethod
    def collate(batch: Batch) -> Batch:
        """Hand on what was gathered whole."""
        return batch


def _gathered(rows: Tensor, starts: Tensor, length: int) -> Tensor:
    """Copy neighbouring rows as one piece each: many times faster than row by row."""
    width = rows.shape[1]
    size = (max(0, len(rows) - length + 1), length * width)
    pieces = rows.as_strided(size, (width, 1)).index_select(0, starts)
    return pieces.view(len(starts), length, width)
