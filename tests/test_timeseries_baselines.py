"""Baselines: published figures, the season of each frequency, and clocks that are set."""

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("lightning")

from posenc_mm.timestamps import TimeAxis, zone_of
from timeseries.baselines import Season, baselines, mean, naive, season_of, seasonal_naive
from timeseries.data import ETT, Batch, Exchange, Illness, Parking, Table, VicElec
from timeseries.scores import STRETCHES, across_change, evaluate

DAY = Season("day", 86_400.0)
MELBOURNE = zone_of("Australia/Melbourne")


@pytest.fixture
def found(data_dir, monkeypatch):
    """The sets are looked for among the real data."""
    monkeypatch.setenv("POSENC_MM_DATA", str(data_dir))
    return data_dir


def figures(data, name):
    scores = evaluate(data, baselines(data)[name])
    assert scores.windows == data.counts["test"]
    assert np.mean(scores.stretches) == pytest.approx(scores.mse, rel=0.01)
    return round(scores.mse, 3), round(scores.mae, 3)


def batch(axis, values, lookback):
    """One window over all rows of an axis."""
    rows = torch.as_tensor(values, dtype=torch.float32)[None, :, None]
    past, future = rows.split([lookback, len(axis) - lookback], dim=1)
    moments = axis.seconds().double()[None]
    return Batch(past, future, moments, torch.zeros(1, len(axis), 0))


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (Exchange, "naive", (0.081, 0.196)),
        (ETT, "naive", (1.294, 0.713)),
        (ETT, "seasonal naive (day)", (0.512, 0.433)),
        (Illness, "seasonal naive (year)", (2.564, 1.004)),
    ],
)
def test_published_figures(found, data, name, expected):
    assert figures(data(batch_size=256), name) == expected


@pytest.mark.parametrize(
    ("step", "season"),
    [(1, "hour"), (60, "day"), (1800, "day"), (1976, "day"), (3600, "day"), (4 * 3600, "day"),
     (86_400, "week"), (7 * 86_400, "year"), (31 * 86_400, "year"), (91 * 86_400, "year"),
     (366 * 86_400, None)],
)  # fmt: skip
def test_the_season_follows_from_the_step(step, season):
    found = season_of(step)
    assert (found and found.name) == season


@pytest.mark.parametrize(
    ("freq", "rows", "lookback"), [("h", 24, 60), ("30min", 48, 48), ("D", 7, 20), ("B", 5, 20),
                                   ("W-WED", 52, 104), ("MS", 12, 36), ("ME", 12, 12), ("QS", 4, 8)]
)  # fmt: skip
def test_on_regular_stamps_the_last_rows_come_again(freq, rows, lookback):
    horizon = min(2 * rows + 3, 60)
    stamps = pd.date_range("2019-02-04", periods=lookback + horizon, freq=freq)
    axis = TimeAxis(stamps)
    season = season_of(float(axis.seconds().double().diff().median()))
    window = batch(axis, np.arange(len(axis)), lookback)
    tiled = torch.arange(lookback - rows, lookback).repeat(horizon // rows + 1)[:horizon]
    assert seasonal_naive(window, season)[0, :, 0].tolist() == tiled.tolist()


@pytest.mark.parametrize("start", ["2014-10-02", "2014-04-02"])
def test_a_day_ago_is_the_same_time_on_the_wall(start):
    stamps = pd.date_range(start, periods=48 * 7, freq="30min", tz="Australia/Melbourne")
    values = stamps.hour + stamps.minute / 60
    axis, lookback = TimeAxis(stamps), int((stamps < stamps[0] + pd.Timedelta("80h")).sum())
    window = batch(axis, values, lookback)
    civil = seasonal_naive(window, DAY, MELBOURNE)
    # All but the hour that was skipped, or comes twice, is right.
    assert window.future[civil != window.future].floor().unique().tolist() in ([], [2.0])
    assert (seasonal_naive(window, DAY) != window.future).sum() > 40
    assert across_change(window.moments, MELBOURNE).tolist() == [True]
    assert across_change(window.moments[:, :24], MELBOURNE).tolist() == [False]
    assert across_change(window.moments, zone_of("+10:00")).tolist() == [False]


def test_gaps_and_jitter_are_bridged_in_time():
    generator = np.random.default_rng(0)
    hours = np.concatenate([24 * day + np.arange(8, 17) for day in range(6)])
    seconds = hours * 3600 + generator.integers(-600, 600, len(hours))
    keep = np.delete(np.arange(len(hours)), [2, 3, 20])
    axis = TimeAxis(seconds[keep], unit="s")
    window = batch(axis, (hours % 24)[keep], 34)
    again = seasonal_naive(window, DAY)
    assert (again == window.future).all()


def test_short_windows_have_no_season(tmp_path):
    stamps = pd.date_range("2020-01-01", periods=400, freq="h")
    table = tmp_path / "hourly.csv"
    pd.DataFrame({"time": stamps, "x": np.sin(np.arange(400))}).to_csv(table, index=False)
    names = ["naive", "mean of the lookback"]
    assert list(baselines(Table(str(table), lookback=23, horizon=4))) == names
    long = Table(str(table), lookback=24, horizon=4)
    assert list(baselines(long)) == [*names, "seasonal naive (day)"]
    window = long.split.test[0]
    one = Batch(*(part.unsqueeze(0) for part in window))
    assert (naive(one) == one.past[:, -1:]).all() and naive(one).shape == one.future.shape
    assert torch.allclose(mean(one)[0], window.past.mean(0).expand(4, 1))
    season = baselines(long)["seasonal naive (day)"]
    assert torch.equal(season(one), one.past[:, :4])


def test_windows_across_a_change_of_the_clocks_are_counted_apart(found):
    data = VicElec(batch_size=512)
    scores = evaluate(data, baselines(data)["naive"])
    assert (scores.windows, scores.changes) == (10_474, 383)
    rest = scores.windows - scores.changes
    both = (scores.changes * scores.mae_change + rest * scores.mae_rest) / scores.windows
    assert both == pytest.approx(scores.mae)
    parking = Parking(batch_size=512)
    scores = evaluate(parking, baselines(parking)["seasonal naive (day)"])
    assert scores.changes == 0 and scores.mae_change is None and scores.mae_rest == scores.mae
    assert len(scores.stretches) == STRETCHES
    assert scores.mse < 0.7 * evaluate(parking, naive).mse
