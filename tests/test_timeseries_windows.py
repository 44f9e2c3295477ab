"""Windows: every one of each series and none across, gathered as one, scaled by training rows."""

import pickle

import pytest
import torch

pytest.importorskip("lightning")
from torch.utils.data import DataLoader

from posenc_mm.timestamps import TimeAxis
from timeseries.data import Batch, Borders, Forecasting, Reading, Series, Windows

L, H = 5, 3


def make(name="a", rows=40, start="2024-03-30", freq=1800, columns=2, known=1, tz=None, scale=1.0):
    """A series whose cells tell their row and column."""
    seconds = TimeAxis([start]).seconds() + freq * torch.arange(rows)
    axis = (
        TimeAxis(seconds, tz="UTC", unit="s").in_zone(tz)
        if tz
        else TimeAxis(seconds.numpy().astype("M8[s]"))
    )
    cells = scale * (torch.arange(rows)[:, None] + 0.25 * torch.arange(columns + known)).double()
    names = tuple(f"y{n}" for n in range(columns)), tuple(f"k{n}" for n in range(known))
    return Series(name, axis, cells[:, :columns], 1000 + cells[:, columns:], *names)


class Given(Forecasting):
    """Series as they are given."""

    def __init__(self, *series, borders=None, **options):
        super().__init__(**{"lookback": L, "horizon": H, **options})
        self.given, self.fixed = series, borders

    def ends(self, rows):
        return Borders(*self.fixed) if self.fixed else super().ends(rows)

    def load(self):
        return Reading(list(self.given), ["a note"])


@pytest.mark.parametrize("stride", [1, 4])
def test_windows_are_all_there_are_and_never_cross_series(stride):
    series = [make("a", 40), make("short", L + H - 1), make("b", L + H), make("c", 21)]
    windows = Windows(series, L, H, stride)
    wanted = [
        (one, start)
        for one in (0, 2, 3)
        for start in range(0, len(series[one].axis) - L - H + 1, stride)
    ]
    assert (
        len(windows)
        == len(wanted)
        == sum(max(0, len(one.axis) - L - H + stride) // stride for one in series)
    )
    for index, (one, start) in enumerate(wanted):
        window, source = windows[index], series[one]
        assert windows.belongs[index] == one
        assert torch.equal(window.past, source.values[start : start + L].float())
        assert torch.equal(window.future, source.values[start + L : start + L + H].float())
        assert torch.equal(window.known, source.known[start : start + L + H].float())
        assert torch.equal(window.moments, source.axis.seconds()[start : start + L + H].double())
        assert windows.origins[index] == window.moments[L - 1]


def test_one_window_is_a_view_and_a_batch_is_the_same_windows():
    windows = Windows([make("a"), make("b", 30)], L, H)
    assert windows[7].past.data_ptr() == windows.values[7:].data_ptr()
    order = [50, 3, 3, 0]
    batch = windows.__getitems__(order)
    assert isinstance(batch, Batch)
    for row, index in enumerate(order):
        for whole, window in zip(batch, windows[index], strict=True):
            assert torch.equal(whole[row], window)
    assert [tuple(part.shape) for part in batch] == [
        (4, L, 2),
        (4, H, 2),
        (4, L + H),
        (4, L + H, 1),
    ]
    assert [part.dtype for part in batch] == [torch.float32] * 2 + [torch.float64, torch.float32]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_whole_batches(workers):
    windows = Windows([make(known=0)], L, H)
    loader = DataLoader(windows, 10, num_workers=workers, collate_fn=Windows.collate)
    batches = list(loader)
    assert [len(batch.past) for batch in batches] == [10, 10, 10, 3]
    assert torch.equal(torch.cat([b.past for b in batches]), windows.__getitems__(range(33)).past)
    assert batches[0].known.shape == (10, L + H, 0)
    assert len(pickle.loads(pickle.dumps(windows))) == 33


def test_moments_are_exact_seconds_of_utc_over_a_change_of_the_clocks():
    naive = Windows([make()], L, H)[0].moments
    zoned = Windows([make(tz="Australia/Melbourne", start="2024-04-06 14:00")], L, H)[0].moments
    assert zoned.diff().tolist() == [1800.0] * (L + H - 1)
    assert zoned[0] == 1_712_412_000 and naive[0] == 1_711_756_800
    fine = Series("f", TimeAxis(torch.arange(9) * 250_000 + 10**15, unit="us"), *make(rows=9)[2:])
    assert Windows([fine], L, H)[1].moments.diff().tolist() == [0.25] * (L + H - 1)


@pytest.mark.parametrize("name", ["lookback", "horizon", "stride"])
def test_wrong_lengths_are_refused(name):
    arguments = {"lookback": L, "horizon": H, "stride": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got {name}=0"):
        Windows([make()], **arguments)
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got {name}=0"):
        Given(make(), **arguments)
    for argument, value in (("batch_size", 0), ("num_workers", -1)):
        with pytest.raises(ValueError, match=f"{argument} must be at least"):
            Given(make(), **{argument: value})
    with pytest.raises(ValueError, match="of the same columns"):
        Windows([make(), make(columns=1)], L, H)
    with pytest.raises(ValueError, match="series must be some"):
        Windows([], L, H)


@pytest.mark.parametrize("lookback", [1, 5, 60])
def test_what_is_evaluated_does_not_depend_on_the_lookback(lookback):
    data = Given(make(rows=101), lookback=lookback, horizon=4)
    assert data.borders == [Borders(70, 81, 101)]
    assert data.counts == {"train": 70 - lookback - 4 + 1, "val": 11 - 4 + 1, "test": 20 - 4 + 1}
    axis = data.series[0].axis.seconds().double()
    for windows, first in ((data.split.val, 70), (data.split.test, 81)):
        assert windows[0].moments[lookback] == axis[first]
        assert len(windows[0].past) == lookback
    assert data.split.train[len(data.split.train) - 1].moments[-1] == axis[69]


def test_training_is_shuffled_and_all_else_is_whole_and_in_order():
    data = Given(make(rows=400), batch_size=16, stride=2)
    assert data.counts["train"] == (280 - L - H + 2) // 2
    loader = data.train_dataloader()
    first, again = (torch.cat([b.moments[:, 0] for b in loader]) for _ in range(2))
    assert not torch.equal(first, again) and torch.equal(first.sort().values, again.sort().values)
    for name, loader in (
        ("val", data.val_dataloader()),
        ("test", data.test_dataloader()),
        ("test", data.predict_dataloader()),
    ):
        moments = torch.cat([batch.moments[:, 0] for batch in loader])
        assert len(moments) == data.counts[name] and (moments.diff() == 1800).all()


def test_dropping_the_last_windows_is_asked_for_and_said():
    data = Given(make(rows=400), batch_size=16, drop_last_test=True)
    assert data.counts["test"] == 78
    assert sum(len(batch.past) for batch in data.test_dataloader()) == 64
    assert sum(len(batch.past) for batch in data.predict_dataloader()) == 78
    assert "drop_last_test leaves out the last 14" in data.describe()
    assert "every one" in Given(make(rows=400)).describe().splitlines()[-2]


def test_scaling_knows_the_training_rows_alone():
    one = make(rows=100)
    changed = one._replace(values=one.values.clone(), known=one.known.clone())
    changed.values[70:], changed.known[70:] = 1e6, -1e6
    data, other = Given(one), Given(changed)
    for left, right in ((data, other),):
        assert torch.equal(left.split.train.values, right.split.train.values)
        assert torch.equal(left.split.train.known, right.split.train.known)
        for kind in ("scaler", "known_scaler"):
            for a, b in zip(getattr(left, kind), getattr(right, kind), strict=True):
                assert torch.equal(a, b)
    rows = torch.arange(70.0, dtype=torch.float64)
    assert torch.allclose(data.scaler.mean, torch.stack([rows, rows + 0.25]).mean(1)[None])
    assert torch.allclose(data.scaler.std, rows.std(correction=0).expand(1, 2))
    train = data.split.train
    for scaled in (train.values, train.known):
        assert (
            scaled.mean(0).abs().max() < 1e-6
            and (scaled.std(0, correction=0) - 1).abs().max() < 1e-5
        )
    past = data.split.test[3].past.double() * data.scaler.std + data.scaler.mean
    assert torch.allclose(past, one.values[80 - L + 3 : 83], atol=1e-4)


def test_each_series_is_scaled_by_its_own_rows_and_a_constant_stays():
    flat = make("flat", 50)
    flat = flat._replace(values=torch.full_like(flat.values, 0.1))
    data = Given(make("a", 100), make("b", 60, scale=50.0), flat)
    assert data.scaler.mean.shape == (3, 2) and data.scaler.std[2].tolist() == [1.0, 1.0]
    train = data.split.train
    assert train.values[:70].std(0, correction=0).allclose(torch.ones(2), atol=1e-5)
    assert train.values[70:112].std(0, correction=0).allclose(torch.ones(2), atol=1e-5)
    assert train.values[112:].abs().max() < 1e-12
    assert [int((train.belongs == row).sum()) for row in range(3)] == [63, 35, 28]


def test_series_that_are_too_short_are_left_out_and_named():
    data = Given(make("long", 100), make("tiny", 12))
    assert [one.name for one in data.series] == ["long"]
    assert "left out, as too short: tiny (12 rows: 8, 2, 2)" in data.describe()
    with pytest.raises(ValueError, match=r"8 rows to train .*lookback=5.* got tiny \(12 rows"):
        _ = Given(make("tiny", 12)).counts


def test_the_description_and_attributes_tell_what_is_done(caplog):
    caplog.set_level("INFO", logger="lightning.pytorch")
    data = Given(make(rows=100, tz="Europe/Berlin"), borders=(60, 70, 90))
    data.prepare_data(), data.setup("fit"), data.setup("test")
    assert (data.variates, data.known_width, data.zone) == (2, 1, "Europe/Berlin")
    assert (data.step, data.span) == (1800.0, 1800.0 * (L + H - 1))
    assert data.columns == ("y0", "y1") and data.known_columns == ("k0",)
    assert caplog.text.count("are seen (L)") == 1
    for part in (
        "5 rows are seen (L), 3 are forecast (H)",
        "train: rows 1 to 60, 53 windows, stride 1; columns are scaled by mean and deviation of",
        "val: forecasts of rows 61 to 70, 8 windows",
        "test: forecasts of rows 71 to 90, 18 windows, every one",
        "10 rows behind are not used",
        "a note",
    ):
        assert part in data.describe() and part in caplog.text


def test_steps_without_one_length_are_their_median():
    months = TimeAxis(
        [f"20{year:02d}-{month:02d}-01" for year in range(9) for month in range(1, 13)]
    )
    monthly = Series("m", months, *make(rows=108)[2:])
    assert Given(monthly).step == 31 * 86_400
    jitter = TimeAxis(torch.arange(100) * 600 + torch.randint(-200, 200, (100,)), unit="s")
    data = Given(Series("j", jitter, *make(rows=100)[2:]))
    assert data.step == jitter.seconds().diff().double().median()
    train = data.split.train
    assert (train[0].moments.diff() != 600).any()
