"""Forecasts of real tables, held against what came."""

import csv
import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightning")

from timeseries.forecast import main  # noqa: E402

DATA = Path(os.environ.get("POSENC_MM_DATA", ""))


def cut(folder, name, keep):
    """Some lines of a file, and those behind them."""
    path = DATA / name
    if not os.environ.get("POSENC_MM_DATA") or not path.is_file():
        pytest.skip(f"POSENC_MM_DATA holds no {name}")
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if keep(line)]
    behind = lines[lines.index(kept[-1]) + 1 :]
    (folder / name).write_text("\n".join([head, *kept]) + "\n", encoding="utf-8")
    return folder / name, head.split(","), [line.split(",") for line in behind]


def forecast(path, *options):
    out = path.parent / "out"
    main([str(path), "--out", str(out), *options])
    with (out / "forecast.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    errors = {row["forecast"]: row for row in report["tables"]["errors"]}
    return rows, report, errors


def numbers(rows, column):
    return np.array([float(row[column]) for row in rows])


def test_electricity_across_a_change_of_the_clocks(tmp_path, capsys):
    path, _, behind = cut(
        tmp_path, "vic_elec.csv", lambda line: "2013-09" < line < "2014-10-04T14:00:00Z"
    )
    options = ("--target", "Demand", "--lookback", "48", "--tz", "Australia/Melbourne")
    rows, report, errors = forecast(path, *options, "--holidays", "AU-VIC")
    stamps = [row["stamp"] for row in rows]
    # The day has 23 hours: what follows 1:30 is 3:00.
    assert stamps[3:5] == ["2014-10-05T01:30:00+10:00", "2014-10-05T03:00:00+11:00"]
    assert stamps[-1] == "2014-10-06T00:30:00+11:00"
    came = np.array([float(line[1]) for line in behind[:48]])
    assert np.abs(numbers(rows, "forecast") - came).mean() < 200
    inside = (numbers(rows, "lower") <= came) & (came <= numbers(rows, "upper"))
    assert inside.mean() > 0.6
    model = errors["ridge + encodings  <- the model"]
    assert model["MAE"] < 0.8 * errors["ridge (lookback alone)"]["MAE"]
    utc = report["tables"]["encodings"][-1]
    assert utc["regression"] == "the same on clocks of UTC" and utc["MAE change"] > 0.03
    assert utc["kept"] == "no"
    assert "holidays x day (AU-VIC)" in capsys.readouterr().out


def test_clocks_that_values_go_by_are_found_and_used(tmp_path, capsys):
    path, _, _ = cut(tmp_path, "vic_elec.csv", lambda line: "2012-07" < line < "2014-03")
    rows, report, _ = forecast(path, "--target", "Demand", "--lookback", "48", "--horizon", "24")
    said = capsys.readouterr().out
    assert "! the daily pattern shifts by an hour" in said and "such as --tz Australia/" in said
    assert "clocks of encodings: Australia/Melbourne" in said
    assert rows[0]["stamp"].endswith("+00:00")
    assert report["tables"]["encodings"][-1]["MAE change"] < -0.03


def test_a_calendar_that_is_made_up_is_left_alone(tmp_path, capsys):
    path, _, _ = cut(tmp_path, "exchange_rate.csv", lambda line: True)
    rows, report, errors = forecast(path, "--lookback", "20", "--horizon", "5")
    said = capsys.readouterr().out
    assert "! the week in the values wanders" in said
    assert "encodings: none of the calendar (its stamps seem made up" in said
    assert len(rows) == 5 * 8 and "encodings" not in report["tables"]
    assert errors["ridge (lookback alone)  <- the model"]["MSE"] < 1.02 * errors["naive"]["MSE"]
    # Nobody beats the last value, and no one says so.
    assert report["verdict"]["better"] is None
    assert any("is not told from naive" in warning for warning in report["warnings"])


def test_weeks_of_illness(tmp_path):
    path, _, _ = cut(tmp_path, "national_illness.csv", lambda line: True)
    rows, report, errors = forecast(path, "--target", "OT", "--level", "0.8")
    assert [row["stamp"][:10] for row in rows[:2]] == ["2020-07-07", "2020-07-14"]
    assert len(rows) == 13 and report["windows"]["test"] == 181
    model = next(row for name, row in errors.items() if name.endswith("<- the model"))
    assert model["MSE"] < 0.8 * errors["seasonal naive (year)"]["MSE"]


def test_a_price_with_what_is_known_in_advance(tmp_path):
    path, head, behind = cut(
        tmp_path, "epf_np.csv", lambda line: line.startswith(("2017/", "2018/0", "2018/1/"))
    )
    names = [name.strip() for name in head]
    future = tmp_path / "future.csv"
    lines = [",".join(row[:3]) for row in behind[:24]]
    future.write_text("\n".join([",".join(head[:3]), *lines]) + "\n", encoding="utf-8")
    options = ("--target", "OT", "--known", *names[1:3], "--future", str(future))
    rows, report, errors = forecast(path, *options, "--lookback", "72")
    assert len(rows) == 24
    came = np.array([float(row[3]) for row in behind[:24]])
    last = float(path.read_text(encoding="utf-8").splitlines()[-1].split(",")[3])
    assert np.abs(numbers(rows, "forecast") - came).mean() < np.abs(last - came).mean()
    bought = report["tables"]["encodings"][1]
    assert bought["regression"].startswith("+ known") and bought["MAE change"] < 0


def test_a_car_park_with_irregular_stamps(tmp_path, capsys):
    path, _, _ = cut(tmp_path, "hourly_parking.csv", lambda line: True)
    group = ("--target", "Occupancy", "--group", "SystemCodeNumber")
    rows, report, errors = forecast(path, *group, "--only", "BHMBCCMKT01")
    hours = [int(row["stamp"][11:13]) for row in rows]
    assert min(hours) >= 7 and max(hours) <= 17
    assert numbers(rows, "lower").min() >= 0
    model = errors["ridge + encodings  <- the model"]
    assert model["MAE"] < 0.7 * errors["seasonal naive (day)"]["MAE"]
    assert "stamps are irregular" in capsys.readouterr().out


def test_the_package_that_ships_hours(tmp_path):
    package = importlib.util.find_spec("vega_datasets")
    if package is None:
        pytest.skip("vega_datasets is not installed")
    source = Path(package.origin).parent / "_data" / "seattle-temps.csv"
    lines = source.read_text(encoding="utf-8").splitlines()
    (tmp_path / "seattle.csv").write_text("\n".join(lines[:3000]), encoding="utf-8")
    rows, report, errors = forecast(tmp_path / "seattle.csv", "--tz", "-08:00")
    assert rows[0]["stamp"].endswith("-08:00") and len(rows) == 24
    assert report["verdict"]["better"] is True
    assert any("1 row missing in 1 gap" in warning for warning in report["warnings"])
