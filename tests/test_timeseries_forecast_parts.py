"""The parts of the forecast: gaps, lengths, stamps to come, regressions, intervals, pictures."""

import math

import numpy as np
import pytest
import torch

pytest.importorskip("lightning")

from posenc_mm import TimeAxis  # noqa: E402
from posenc_mm.additive import Concat, Seasonal  # noqa: E402
from posenc_mm.timestamps import frequency_of, zone_of  # noqa: E402
from timeseries.data import Series  # noqa: E402
from timeseries.forecasting.asking import parse  # noqa: E402
from timeseries.forecasting.choosing import Part, on_clocks  # noqa: E402
from timeseries.forecasting.drawing import _broken  # noqa: E402
from timeseries.forecasting.evaluating import better, evaluate_all, regressions  # noqa: E402
from timeseries.forecasting.fitting import (  # noqa: E402
    PENALTIES,
    columns_of,
    fit,
    measure,
    network_of,
    refit,
)
from timeseries.forecasting.future import _continued, _repeated  # noqa: E402
from timeseries.forecasting.gaps import fill, whole  # noqa: E402
from timeseries.forecasting.intervals import calibrate, coverage  # noqa: E402
from timeseries.forecasting.keeping import Stages, key_of  # noqa: E402
from timeseries.forecasting.preparing import prepare  # noqa: E402
from timeseries.forecasting.reading import Data, stated  # noqa: E402
from timeseries.forecasting.sizing import borders, usual  # noqa: E402
from timeseries.forecasting.telling import Telling  # noqa: E402
from timeseries.networks import Linear, Shape  # noqa: E402
from timeseries.ridge import solve  # noqa: E402
from timeseries.scores import evaluate as scores_of  # noqa: E402

MELBOURNE = "Australia/Melbourne"


def series_of(stamps, values, tz=None, freq=None, name="one"):
    axis = TimeAxis(np.asarray(stamps, dtype="M8[s]"), tz=tz, freq=freq)
    values = torch.as_tensor(np.asarray(values)).double().reshape(len(axis), -1)
    columns = tuple(f"c{n}" for n in range(values.shape[1]))
    return Series(name, axis, values, torch.zeros(len(axis), 0).double(), columns, ())


def ready_of(rows=700, columns=2, lookback=30, horizon=7):
    generator = np.random.default_rng(0)
    stamps = np.arange(rows) * 3600 + np.datetime64("2024-01-01", "s").astype(int)
    values = np.sin(np.arange(rows) / 24 * 2 * np.pi)[:, None] + generator.normal(
        size=(rows, columns)
    )
    one = series_of(stamps.astype("M8[s]"), values, freq="h")
    data = Data([one], frequency_of("h"), True, None, False, None)
    gapless = whole(one)
    real = gapless.real.clone()
    real[rows - 40 : rows - 37] = False
    return prepare(data, [gapless._replace(real=real)], lookback, horizon, Telling())


def test_gaps_are_filled_on_the_civil_grid():
    days = ["2024-10-03", "2024-10-04", "2024-10-07", "2024-10-08", "2024-10-20", "2024-10-21"]
    one = series_of(days, [0.0, 1.0, 7.0, 8.0, 9.0, 10.0], tz=MELBOURNE, freq="D")
    filled = fill(one, frequency_of("D"))
    assert filled.series.axis.isoformat()[1:5] == [
        "2024-10-04T00:00:00+10:00", "2024-10-05T00:00:00+10:00",
        "2024-10-06T00:00:00+10:00", "2024-10-07T00:00:00+11:00",
    ]  # fmt: skip
    # In time: the day on which clocks are set forward has 23 hours.
    torch.testing.assert_close(
        filled.series.values[2:4, 0], torch.tensor([1 + 6 * 24 / 71, 1 + 6 * 48 / 71]).double()
    )
    assert filled.real.tolist() == [True, True, False, False, True, True, True, True]
    assert filled.pieces == [(0, 6), (6, 8)] and filled.long == 11
    assert fill(one, frequency_of("D"), most=11).pieces == [(0, 19)]


def test_usual_lengths():
    assert usual(3600, None)[:2] == (168, 24)
    assert usual(1800, None)[:2] == (336, 48)
    assert usual(300, None)[:2] == (288, 12)
    assert usual(60, None)[:2] == (480, 60)
    assert usual(86_400, "day")[:2] == (56, 14)
    assert usual(7 * 86_400, "week")[:2] == (104, 13)
    assert usual(30.4 * 86_400, "month")[:2] == (36, 12)
    assert usual(91 * 86_400, "month", 3)[:2] == (12, 4)


def test_borders_are_those_of_the_application_unless_rows_are_few():
    assert borders(52_608, 48) == (36_825, 42_087, 52_608)
    few = borders(60, 12)
    assert few == (32, 46, 60)


def test_stamps_to_come_keep_to_their_clocks():
    daily = series_of(["2024-10-03", "2024-10-04", "2024-10-05"], [0.0] * 3, MELBOURNE, "D").axis
    options = parse(["data.csv"])
    data = Data([], frequency_of("D"), True, None, False, None)
    assert _continued(daily, data, options, 3).isoformat() == [
        "2024-10-06T00:00:00+10:00", "2024-10-07T00:00:00+11:00", "2024-10-08T00:00:00+11:00",
    ]  # fmt: skip
    hours = TimeAxis(["2024-10-05T23:00", "2024-10-06T00:00"], MELBOURNE, freq="h")
    assert [stamp[11:] for stamp in _continued(hours, data._replace(frequency=hours.frequency),
                                               options, 4).isoformat()] == [
        "01:00:00+10:00", "03:00:00+11:00", "04:00:00+11:00", "05:00:00+11:00"]  # fmt: skip


def test_irregular_stamps_are_those_of_a_week_ago():
    start = np.datetime64("2024-03-18", "s")
    every = [start + np.timedelta64(86_400 * day + 3600 * hour + 60 * day, "s")
             for day in range(15) for hour in (8, 12, 17)]  # fmt: skip
    axis = series_of(every, [0.0] * len(every), tz="Europe/Berlin").axis
    assert _repeated(axis, 4).isoformat() == [
        "2024-04-02T08:08:00+02:00", "2024-04-02T12:08:00+02:00",
        "2024-04-02T17:08:00+02:00", "2024-04-03T08:09:00+02:00",
    ]  # fmt: skip


def test_regressions_equal_those_of_one_encoding_at_a_time():
    ready, parts = ready_of(), [Part("d", Seasonal({"day": 2})), Part("w", Seasonal({"week": 1}))]
    network = network_of(ready, parts)
    sums = measure(ready, network, 1, lambda share: None)
    (_, week), known = columns_of(parts, ready.known_width)
    own = fit(sums, "week", week)
    shape = Shape(ready.lookback, ready.horizon, ready.variates)
    alone = Linear(shape, Concat([parts[1].encoding]))
    solved = solve(alone, ready.split.train, ready.split.val, penalties=PENALTIES)
    assert known == [] and own.penalty == solved.penalty
    assert own.val == pytest.approx(solved.mse[solved.penalty], rel=1e-9)
    torch.testing.assert_close(own.look.float(), alone.look)
    torch.testing.assert_close(own.read.float(), alone.read)
    found = evaluate_all(
        ready, "test", {}, regressions(network, [own]), ["week"], lambda share: None
    )
    expected = scores_of(ready, lambda batch: alone(batch.past, batch.moments, batch.known)[..., 0])
    residuals = found.residuals["week"]
    # Every window counts, but for the values of rows that were not there.
    assert len(residuals) == expected.windows == len(ready.split.test)
    assert int(residuals.isnan().sum()) == 3 * 7 * 2
    assert float(found.errors["week"].counts.sum()) == residuals.numel() - 3 * 7 * 2
    torch.testing.assert_close(
        found.errors["week"].mae, float(residuals.double().abs().nanmean()), rtol=1e-6, atol=0
    )
    units = residuals.double().abs().nanmean((0, 1)) * ready.scaler.std[0]
    torch.testing.assert_close(found.errors["week"].units, units, rtol=1e-6, atol=0)
    ready.held["test"].real.fill_(True)
    found = evaluate_all(ready, "test", {}, regressions(network, [own]), [], lambda share: None)
    assert found.errors["week"].mse == pytest.approx(expected.mse, rel=1e-5)
    assert found.errors["week"].mse == pytest.approx(own.test, rel=1e-9)
    assert found.errors["week"].mae == pytest.approx(expected.mae, rel=1e-5)


def test_the_last_weights_follow_from_all_splits():
    ready = ready_of(columns=1)
    network = network_of(ready, [])
    sums = measure(ready, network, 1, lambda share: None)
    one = fit(sums, "none", [])
    rows = []
    for windows in ready.split:
        batch = windows.__getitems__(list(range(len(windows))))
        seen, _ = network.regressors(batch.past.double(), batch.moments, batch.known)
        rows.append((seen[:, 0], batch.future[..., 0].double() - batch.past[:, -1].double()))
    seen, target = (torch.cat(parts) for parts in zip(*rows, strict=True))
    ridge = seen.T @ seen + one.penalty * torch.eye(seen.shape[1]).double()
    torch.testing.assert_close(refit(sums, one).look, torch.linalg.solve(ridge, seen.T @ target))
    thinned = measure(ready, network, 3, lambda share: None)
    count = float(sums.train.count)
    assert float(thinned.train.count) == pytest.approx(count, rel=0.01)


def test_encodings_move_to_other_clocks():
    moments = torch.tensor([[1_720_000_000]])
    (moved,) = on_clocks([Part("d", Concat([Seasonal({"day": 1})]))], zone_of(MELBOURNE))
    assert torch.equal(moved.encoding(moments), Seasonal({"day": 1}, zone=MELBOURNE)(moments))


def test_intervals_hold_what_they_should():
    generator = torch.Generator().manual_seed(0)
    residuals = torch.randn(1000, 5, 2, generator=generator)
    residuals[::7, 2] = torch.nan
    owners = torch.arange(1000) % 3
    widths = calibrate(residuals[:500], owners[:500], 3, 0.9)
    assert widths.half.shape == (3, 5, 2) and not widths.pooled and not widths.short
    own = residuals[:500][owners[:500] == 1][:, 3, 1].abs().sort().values
    assert float(widths.half[1, 3, 1]) == pytest.approx(
        float(own[math.ceil(0.9 * (len(own) + 1)) - 1])
    )
    held = coverage(residuals[500:], owners[500:], widths)
    assert held.shape == (5,) and bool((held - 0.9).abs().max() < 0.05)


def test_few_windows_borrow_or_take_the_largest_error():
    residuals = torch.arange(1.0, 41.0).reshape(40, 1, 1)
    owners = (torch.arange(40) >= 36).long()
    widths = calibrate(residuals, owners, 2, 0.9)
    assert widths.pooled and not widths.short
    assert widths.half[1, 0, 0] == 37  # of all: ceil(41 * .9)
    assert calibrate(residuals[:5], owners[:5], 1, 0.9).short
    assert calibrate(residuals[:5], owners[:5], 1, 0.9).half.item() == 5
    assert calibrate(residuals[:9], owners[:9], 1, 0.9).half.item() == 9


def test_a_difference_has_to_show_in_most_stretches():
    ready = ready_of()
    single = {"zero": lambda batch: 0 * batch.future, "truth": lambda batch: 0.9 * batch.future,
              "odd": lambda batch: 0.001 * batch.future}  # fmt: skip
    found = evaluate_all(ready, "test", single, lambda batch: {}, [], lambda share: None)
    errors, origins = found.errors, found.origins
    assert better(errors["truth"], errors["zero"], origins) is True
    assert better(errors["zero"], errors["truth"], origins) is False
    assert better(errors["zero"], errors["zero"], origins) is None


def test_pictures_draw_nothing_where_rows_are_missing():
    moments = torch.tensor([0.0, 1.0, 2.0, 50.0, 51.0]) * 3600
    dates, values = _broken(moments, torch.arange(5.0), 3600.0)
    assert len(dates) == len(values) == 6 and math.isnan(values[3])


def test_stages_are_made_again_where_they_do_not_fit(tmp_path):
    (tmp_path / "data.csv").write_text("a\n1\n")
    options = parse([str(tmp_path / "data.csv")])
    key = key_of(options)
    stages = Stages(tmp_path, key, False, Telling())
    assert stages.take("one", lambda: {"a": torch.ones(1)})["a"] == 1
    assert stages.take("one", lambda: {"a": torch.zeros(1)})["a"] == 1
    assert Stages(tmp_path, "other", False, Telling()).take("one", lambda: 2) == 2
    (tmp_path / "one.pt").write_bytes(b"broken")
    assert stages.take("one", lambda: 3) == 3
    (tmp_path / "data.csv").write_text("a\n2\n")
    assert key_of(options) != key
    assert key_of(parse([str(tmp_path / "data.csv"), "--level", "0.5"])) == key_of(options)


def test_a_stated_frequency_is_kept():
    axis = TimeAxis(["2024-01-01", "2024-01-03", "2024-01-04"], tz="-08:00")
    assert stated(axis, frequency_of("D")).frequency == frequency_of("D")
    assert stated(axis, frequency_of("D")).isoformat() == axis.isoformat()
