"""Tables as strangers bring them: what is refused, what is said, and what is not silently done."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("lightning")

from posenc_mm.additive import Calendar, Concat, Projected, Seasonal  # noqa: E402
from timeseries.building import other_clocks  # noqa: E402
from timeseries.data import read_table  # noqa: E402
from timeseries.forecast import main  # noqa: E402
from timeseries.forecasting.drawing import Panel, draw  # noqa: E402
from timeseries.forecasting.evaluating import Errors, better  # noqa: E402
from timeseries.networks import Linear, Patches, Shape  # noqa: E402


@pytest.fixture
def hourly():
    stamps = pd.date_range("2024-01-01", periods=400, freq="h")
    generator = np.random.default_rng(0)
    known = generator.normal(size=400)
    load = np.sin(2 * np.pi * stamps.hour / 24) + known + 0.1 * generator.normal(size=400)
    return pd.DataFrame({"when": stamps, "load": load, "known": known})


def forecast(folder, frame, *options):
    frame.to_csv(folder / "data.csv", index=False)
    main([str(folder / "data.csv"), "--target", "load", "--out", str(folder / "out"), *options])
    with (folder / "out" / "forecast.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))


def refused(folder, capsys, code, frame, *options):
    with pytest.raises(SystemExit) as stopped:
        forecast(folder, frame, *options)
    assert stopped.value.code == code
    return capsys.readouterr().err


@pytest.mark.parametrize("freq", ["D", "W", "30min"])
def test_a_frequency_that_rows_do_not_have_is_refused(tmp_path, capsys, hourly, freq):
    said = refused(tmp_path, capsys, 2, hourly, "--freq", freq)
    assert "--freq must be how far rows are apart" in said and "399 of 399 steps are h" in said


def test_other_names_of_the_same_step_are_taken(tmp_path, hourly):
    rows, _ = forecast(tmp_path, hourly, "--freq", "60min", "--horizon", "2", "--lookback", "24")
    assert [row["stamp"] for row in rows] == ["2024-01-17T16:00:00", "2024-01-17T17:00:00"]


def test_days_without_their_hours_are_refused(tmp_path, capsys, hourly):
    lost = hourly.assign(when=hourly["when"].dt.strftime("%Y-%m-%d"))
    said = refused(tmp_path, capsys, 2, lost)
    assert "383 of 400 come again, with other values" in said and "--time COLUMN" in said


def test_rows_that_come_twice_as_they_are_do_no_harm(tmp_path, hourly):
    pd.concat([hourly, hourly]).to_csv(tmp_path / "twice.csv", index=False)
    reading = read_table(tmp_path / "twice.csv")
    assert len(reading.series[0].axis) == 400
    assert any(note.startswith("left out, as they have the stamp") for note in reading.notes)


def test_of_future_rows_with_one_stamp_the_first_counts(tmp_path, hourly):
    stamps = pd.date_range("2024-01-17 16:00", periods=2, freq="h")
    future = pd.DataFrame({"when": stamps, "known": [2.0, -1.0]})
    options = ("--known", "known", "--horizon", "2", "--lookback", "24", "--future")
    future.to_csv(tmp_path / "once.csv", index=False)
    again = future.iloc[:1].assign(known=-50.0)
    pd.concat([future, again]).to_csv(tmp_path / "twice.csv", index=False)
    once, _ = forecast(tmp_path, hourly, *options, str(tmp_path / "once.csv"))
    twice, report = forecast(tmp_path, hourly, *options, str(tmp_path / "twice.csv"))
    assert once == twice
    assert any("stamp of an earlier row: 1 row" in one for one in report["warnings"])


@pytest.mark.parametrize(
    ("zone", "offsets"), [("Europe/Berlin", "+01:00, +02:00"), ("-03:30", "-03:30"), ("UTC", None)]
)
def test_offsets_that_are_not_kept_are_told(tmp_path, zone, offsets):
    stamps = pd.date_range("2024-03-30", periods=60, freq="h", tz=zone)
    path = tmp_path / "data.csv"
    pd.DataFrame({"when": [one.isoformat() for one in stamps], "load": range(60)}).to_csv(path)
    notes = " ".join(read_table(path, targets="load").notes)
    assert ("encodings go by" in notes) == (offsets is not None)
    assert f"({offsets})" in notes or offsets is None
    assert "encodings go by" not in " ".join(read_table(path, targets="load", tz=zone).notes)


def test_a_lookback_that_gaps_leave_room_for_is_named(tmp_path, capsys, hourly):
    gaps = hourly.drop([row for row in range(400) if row % 50 < 4])
    options = ("--horizon", "4", "--lookback")
    said = refused(tmp_path, capsys, 1, gaps, *options, "96")
    assert "Take --lookback 24, or less" in said
    assert len(forecast(tmp_path, gaps, *options, "24")[0]) == 4


def test_what_cannot_be_written_or_found_is_said(tmp_path, capsys, hourly):
    (tmp_path / "out").write_text("a file")
    assert "this cannot be written" in refused(tmp_path, capsys, 1, hourly)
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path / "none.csv")])
    assert stopped.value.code == 1
    assert f"there is no file {tmp_path / 'none.csv'}" in capsys.readouterr().err


def test_nothing_but_errors_is_written_to_stderr(tmp_path, capfd, hourly):
    named = hourly.rename(columns={"load": "負荷 \U0001f50c"})
    named.to_csv(tmp_path / "data.csv", index=False)
    main([str(tmp_path / "data.csv"), "--target", "負荷 \U0001f50c", "--out", str(tmp_path)])
    assert capfd.readouterr().err == ""


def test_a_single_row_has_an_interval_in_the_picture(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    drawn = []
    for width in (0.0, 2.0):
        bounds = torch.tensor([[3 - width], [3.0], [3 + width]])
        panel = Panel("one", (torch.arange(9.0), torch.arange(9.0)), torch.tensor([9.0]), bounds)
        options = {"zone": None, "region": None, "level": 0.9}
        draw(tmp_path / "a.png", [(panel, panel)], title="", **options)
        pixels = image.imread(tmp_path / "a.png")[..., :3]
        light_blue = (pixels[..., 2] - pixels[..., 0] > 0.1) & (pixels.min(-1) > 0.5)
        drawn.append(int(light_blue.sum()))
    assert drawn[1] > drawn[0] + 100


def test_what_came_of_a_single_row_is_in_the_picture(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    past, drawn = (torch.arange(9.0), torch.arange(9.0)), []
    for row in (5.0, float("nan")):
        panel = Panel(
            "one", past, torch.tensor([9.0]), torch.full((3, 1), 3.0), torch.tensor([row])
        )
        draw(tmp_path / "a.png", [(panel, panel)], title="", zone=None, region=None, level=0.9)
        red, green, blue = np.moveaxis(image.imread(tmp_path / "a.png")[..., :3], -1, 0)
        drawn.append(int(((red > 0.7) & (green < 0.5) & (blue < 0.3)).sum()))
    assert drawn[0] > drawn[1] + 20


def test_fewer_windows_than_stretches_tell_nothing():
    ones = torch.ones(9)
    small, large = (Errors(size * ones, size * ones, ones, ones) for size in (1.0, 2.0))
    assert better(small, large, torch.arange(9.0)) is None
    more = [Errors(*(part.repeat(2) for part in one)) for one in (small, large)]
    assert better(*more, torch.arange(18.0)) is True


def test_encodings_on_other_clocks_than_the_series_are_told():
    week = Calendar(["day_of_week"], zone="UTC")
    day = Seasonal({"day": 1}, zone="Europe/Berlin")
    shape = Shape(24, 2)
    linear = Linear(shape, Concat([week, day]))
    (said,) = other_clocks(linear, "Europe/Berlin")
    assert said.startswith(
        "encodings (Calendar) go by the clocks of UTC, but the series have those of "
    )
    (said,) = other_clocks(linear, None)
    assert said.startswith("encodings (Seasonal) go by the clocks of Europe/Berlin, but the ser")
    assert "have none of their own" in said
    patches = Patches(shape, Projected(8, day), dim=8, patch=4, heads=2)
    assert other_clocks(patches, "Europe/Berlin") == [] != other_clocks(patches, "UTC")


def test_the_command_line_says_so(tmp_path, hourly, caplog):
    from timeseries.cli import build

    hourly.to_csv(tmp_path / "data.csv", index=False)
    arguments = ["--data=timeseries.data.Table", f"--data.path={tmp_path / 'data.csv'}"]
    arguments += ["--data.tz=Europe/Berlin", "--data.lookback=24", "--data.horizon=2"]
    arguments += ["--model.additive=Seasonal", "--model.additive.periods={day: 1}"]
    told = []
    for zone in ("UTC", "auto"):
        caplog.clear()
        with caplog.at_level("INFO", logger="lightning.pytorch.utilities.rank_zero"):
            build([*arguments, f"--model.additive.zone={zone}", "--trainer.logger=false"])
        told.append([one for one in caplog.messages if "go by the clocks" in one])
    assert len(told[0]) == 1 and "clocks of UTC" in told[0][0] and told[1] == []
