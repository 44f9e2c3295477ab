"""From series to windows: splits that follow each other in time, scaled, across no gap."""

from typing import NamedTuple

import torch
from torch import Tensor

from timeseries.data import Batch, Borders, Forecasting, Series, Split, Windows
from timeseries.data.series import Reading
from timeseries.data.splits import Prepared, scale
from timeseries.forecasting.asking import UnusableError
from timeseries.forecasting.gaps import Filled, fill
from timeseries.forecasting.reading import Data
from timeseries.forecasting.sizing import borders
from timeseries.forecasting.telling import Telling, listed

SPLITS = ("train", "val", "test")


class Held(NamedTuple):
    """What belongs to the windows of one split.

    Attributes:
        real: ``(T,)`` whether a row of the windows was in the table.
        series: ``(N,)`` which series each window is of.
    """

    real: Tensor
    series: Tensor


class Ready(Forecasting):
    """Windows of scaled values, as the application's data modules have them.

    Attributes:
        held: what belongs to the windows of each split.
        last: what is seen by the forecasts that are asked for, each of one series; values are
            scaled, moments and what is known end with the lookback.
        tallies: ``(S, V)`` whether a column counts something: whole numbers, none below 0.
    """

    def __init__(
        self,
        prepared: Prepared,
        lookback: int,
        horizon: int,
        held: dict[str, Held],
        last: list[Series],
        tallies: Tensor,
        batch_size: int = 64,
    ) -> None:
        super().__init__(lookback, horizon, batch_size)
        self._prepared, self.held, self.last, self.tallies = prepared, held, last, tallies

    def load(self) -> Reading:
        return Reading(self.prepared.series, self.prepared.notes)


def prepare(
    data: Data, filled: list[Filled], lookback: int, horizon: int, telling: Telling
) -> Ready:
    """Split, scale and cut into windows.

    Args:
        data: that was read.
        filled: its series without short gaps.
        lookback: rows seen.
        horizon: rows forecast.
        telling: who tells.

    Returns:
        Windows of each split.

    Raises:
        UnusableError: a split has no window.
    """
    ends = [borders(len(one.series.axis), horizon) for one in filled]
    parts = [_parts(one, end, lookback) for one, end in zip(filled, ends, strict=True)]
    kept = [row for row, part in enumerate(parts) if _has_windows(part, lookback + horizon)]
    if not kept:
        raise UnusableError(_too_short(filled, ends, lookback, horizon))
    left = [one.series.name for row, one in enumerate(filled) if row not in kept]
    if left:
        telling.warn(f"too short to be evaluated, so not forecast: {listed(left)}")
    filled, ends, parts = ([many[row] for row in kept] for many in (filled, ends, parts))
    series = [one.series for one in filled]
    scaler, known_scaler, scaled = scale(series, ends)
    windows, held = {}, {}
    for name in SPLITS:
        windows[name], held[name] = _cut(scaled, filled, parts, name, lookback, horizon)
    last = [_last(one, piece.pieces[-1], data, lookback, telling)
            for one, piece in zip(scaled, filled, strict=True)]  # fmt: skip
    prepared = Prepared(series, ends, scaler, known_scaler, Split(**windows), [])
    tallies = torch.stack([_tallies(one.series.values[one.real]) for one in filled])
    return Ready(prepared, lookback, horizon, held, last, tallies)


def batches(windows: Windows, rows: int = 1024) -> "list[list[int]]":
    """Numbers of windows, a batch each."""
    return [
        list(range(start, min(start + rows, len(windows))))
        for start in range(0, len(windows), rows)
    ]


def seen_last(ready: Ready, moments: list[Tensor], known: list[Tensor]) -> Batch:
    """One window per series whose future nobody knows.

    Args:
        ready: what is seen.
        moments: ``(H,)`` of the rows to come, of each series.
        known: ``(H, F)`` of them, scaled.

    Returns:
        The windows, with zeros for the future.
    """
    past = torch.stack([one.values for one in ready.last]).float()
    whole = zip(ready.last, moments, known, strict=True)
    whole = [
        (torch.cat((one.axis.seconds().double(), then)), torch.cat((one.known, also)))
        for one, then, also in whole
    ]
    return Batch(
        past,
        past.new_zeros(len(past), ready.horizon, past.shape[-1]),
        torch.stack([one for one, _ in whole]),
        torch.stack([one for _, one in whole]).float(),
    )


def _parts(filled: Filled, ends: Borders, lookback: int) -> dict[str, list[tuple[int, int]]]:
    """The rows of each split, a stretch without gaps each."""
    spans = {
        "train": (0, ends.train),
        "val": (max(0, ends.train - lookback), ends.val),
        "test": (max(0, ends.val - lookback), ends.test),
    }
    return {
        name: [
            (max(first, start), min(last, end))
            for start, end in filled.pieces
            if min(last, end) > max(first, start)
        ]
        for name, (first, last) in spans.items()
    }


def _cut(
    scaled: list[Series],
    filled: list[Filled],
    parts: list[dict[str, list[tuple[int, int]]]],
    name: str,
    lookback: int,
    horizon: int,
) -> tuple[Windows, Held]:
    pieces, real, owners = [], [], []
    for row, (one, gaps, part) in enumerate(zip(scaled, filled, parts, strict=True)):
        for start, end in part[name]:
            pieces.append(one.part(start, end))
            real.append(gaps.real[start:end])
            owners.append(row)
    windows = Windows(pieces, lookback, horizon)
    return windows, Held(torch.cat(real), torch.tensor(owners)[windows.belongs])


def _last(
    series: Series, piece: tuple[int, int], data: Data, lookback: int, telling: Telling
) -> Series:
    """The rows that the forecast sees, with what they miss filled."""
    if piece[1] - piece[0] >= lookback:
        return series.part(len(series.axis) - lookback, len(series.axis))
    tail = series.part(max(0, len(series.axis) - lookback), len(series.axis))
    whole = fill(tail._replace(axis=tail.axis), data.frequency, most=lookback)
    if whole.long or len(whole.series.axis) < lookback:
        raise UnusableError(
            f"the last {piece[1] - piece[0]:,} rows of {series.name} come behind a gap, and the "
            f"forecast sees {lookback:,}: --lookback {max(1, piece[1] - piece[0])} does without "
            "the rows before it"
        )
    missing = int((~whole.real[-lookback:]).sum())
    telling.warn(
        f"of the {lookback:,} rows that the forecast of {series.name} sees, {missing:,} are "
        "missing, filled along a line: it may be as wrong as they are"
    )
    return whole.series.part(len(whole.series.axis) - lookback, len(whole.series.axis))


def _tallies(values: Tensor) -> Tensor:
    return ((values >= 0) & (values == values.round())).all(0)


def _has_windows(part: dict[str, list[tuple[int, int]]], length: int) -> bool:
    return all(any(end - start >= length for start, end in part[name]) for name in SPLITS)


def _too_short(filled: list[Filled], ends: list[Borders], lookback: int, horizon: int) -> str:
    advice, fewer = "a smaller --horizon", lookback // 2
    while fewer:
        pairs = zip(filled, ends, strict=True)
        if any(_has_windows(_parts(*pair, fewer), fewer + horizon) for pair in pairs):
            advice = f"--lookback {fewer}, or less"
            break
        fewer //= 2
    one = max(filled, key=lambda many: len(many.series.axis))
    longest = max(end - start for start, end in one.pieces)
    gaps = f" in {len(one.pieces):,} pieces, the longest of {longest:,}" if one.long else ""
    return (
        f"{one.series.name} has {len(one.series.axis):,} rows{gaps}: some to train, to validate "
        f"and to test have to be {lookback + horizon:,} in a row without a gap (lookback "
        f"{lookback:,}, horizon {horizon:,}). Take {advice}"
    )
