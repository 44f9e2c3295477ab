"""``python -m timeseries forecast`` from the command line: what it writes, decides and refuses."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("lightning")

from timeseries.cli import main as command  # noqa: E402
from timeseries.forecast import main  # noqa: E402
from timeseries.forecasting import comparing  # noqa: E402


def hourly(rows=900, freq="h", start="2024-01-01", seed=0, zone=None):
    """A daily pattern, weekends that lack it, and noise."""
    stamps = pd.date_range(start, periods=rows, freq=freq, tz=zone)
    noise = np.random.default_rng(seed).normal(size=rows)
    day = np.sin(2 * np.pi * (stamps.hour + stamps.minute / 60) / 24)
    return pd.DataFrame(
        {"when": stamps, "load": 50 + 10 * day * (stamps.day_of_week < 5) + noise, "noise": noise}
    )


def write(folder, frame, name="data.csv", **options):
    path = folder / name
    frame.to_csv(path, index=False, **options)
    return path


def forecast(path, *options, out=None):
    out = out or path.parent / "out"
    main([str(path), "--out", str(out), *map(str, options)])
    with (out / "forecast.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((out / "report.json").read_text(encoding="utf-8"))


def refused(capsys, code, path, *options):
    with pytest.raises(SystemExit) as stopped:
        forecast(path, *options)
    assert stopped.value.code == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_the_command_line_hands_over(tmp_path, capsys):
    path = write(tmp_path, hourly(400))
    assert not command(["forecast", str(path), "--target", "load", "--out", str(tmp_path / "o")])
    assert capsys.readouterr().out.rstrip().splitlines()[-3:] == [
        f"forecast: {tmp_path / 'o' / 'forecast.csv'} (24 rows)",
        f"picture:  {tmp_path / 'o' / 'forecast.png'}",
        f"report:   {tmp_path / 'o' / 'report.json'}",
    ]


def test_files_tables_and_decisions(tmp_path, capsys):
    options = ("--target", "load", "--level", "0.8", "--lookback", "48")
    rows, report = forecast(write(tmp_path, hourly(1500)), *options)
    assert list(rows[0]) == ["stamp", "series", "column", "lower", "forecast", "upper"]
    assert [row["stamp"] for row in rows[:2]] == ["2024-03-03T12:00:00", "2024-03-03T13:00:00"]
    assert len(rows) == 24 and {row["column"] for row in rows} == {"load"}
    for row in rows:
        assert float(row["lower"]) < float(row["forecast"]) < float(row["upper"])
    assert (tmp_path / "out" / "forecast.png").stat().st_size > 20_000
    errors = {row["forecast"]: row["MSE"] for row in report["tables"]["errors"]}
    model = errors["ridge + encodings  <- the model"]
    assert model < errors["ridge (lookback alone)"] < errors["seasonal naive (day)"]
    assert {"naive", "mean of the lookback"} <= errors.keys()
    assert report["windows"] == {"train": 1050 - 71, "val": 150 - 23, "test": 300 - 23}
    assert report["borders"] == {"data": {"train": 1050, "val": 1200, "test": 1500}}
    assert report["verdict"] == {"against": "seasonal naive (day)", "better": True}
    assert 0.65 < report["coverage"]["test"] < 0.95
    kept = [row["regression"] for row in report["tables"]["encodings"] if row["kept"] == "yes"]
    assert "+ weekend x day" in kept
    told = {one["what"] for one in report["decisions"]}
    assert {"horizon", "lookback", "split", "model", "intervals", "rows to come"} <= told
    out = capsys.readouterr().out
    assert "season in the 1,050 rows that train: day" in out
    assert all(option in out for option in ("--target", "--tz", "--horizon N", "--level"))


def test_the_same_twice_is_the_same_and_stages_are_kept(tmp_path, capsys, monkeypatch):
    path = write(tmp_path, hourly(500))

    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(comparing, "evaluate_all", stop)
        with pytest.raises(SystemExit) as stopped:
            forecast(path)
    assert stopped.value.code == 130
    assert "interrupted; finished stages are kept" in capsys.readouterr().out
    one, _ = forecast(path)
    said = capsys.readouterr().out
    assert "regressions: kept from before" in said and "errors-linear: kept" not in said
    two, _ = forecast(path)
    assert "errors-linear: kept from before" in capsys.readouterr().out
    three, _ = forecast(path, "--again")
    assert "kept from before" not in capsys.readouterr().out
    four, _ = forecast(path, "--horizon", "12")
    assert "kept from before" not in capsys.readouterr().out
    assert one == two == three and len(four) == 24


def test_several_targets_and_bounds_of_counts(tmp_path, capsys):
    frame = hourly(500)
    frame["cars"] = np.random.default_rng(1).poisson(1.0, 500)
    rows, report = forecast(write(tmp_path, frame), "--target", "load", "cars")
    cars = [row for row in rows if row["column"] == "cars"]
    assert min(float(row["lower"]) for row in cars) == 0
    assert {"what": "least value", "is": "0 for cars"}.items() <= report["decisions"][-1].items()
    capsys.readouterr()
    rows, _ = forecast(tmp_path / "data.csv", "--target", "noise", "--least", "-0.5")
    assert min(float(row["lower"]) for row in rows) == -0.5
    assert "least value: -0.5 (as asked; --least)" in capsys.readouterr().out


def test_gaps_are_filled_if_short_and_else_not_crossed(tmp_path, capsys):
    frame = hourly(1500).drop([100, 101, 1400]).drop(range(700, 760))
    _, report = forecast(write(tmp_path, frame), "--lookback", "48", "--target", "load")
    said = capsys.readouterr().out
    assert "3 missing rows filled along a line" in said
    assert "no window crosses 1 gap of 60 rows" in said
    # 1440 rows: 1007 train, 700 and 307 in a piece, then 145 and 288
    assert report["windows"] == {"train": 1007 - 2 * 71, "val": 145 - 23, "test": 288 - 23}


def test_a_gap_at_the_end_is_told(tmp_path, capsys):
    frame = hourly(900)
    forecast(write(tmp_path, frame.drop(range(880, 890))), "--lookback", "48")
    assert (
        "of the 48 rows that the forecast of data sees, 10 are missing" in capsys.readouterr().out
    )
    path = write(tmp_path, frame.drop(range(700, 895)))
    assert "--lookback 5 does without" in refused(capsys, 1, path, "--lookback", "48")


def test_known_columns_take_their_future(tmp_path, capsys):
    frame = hourly(700)
    frame["plan"] = np.random.default_rng(2).normal(size=700).round(3)
    frame["load"] += 20 * frame["plan"]
    past, future = frame.iloc[:676], frame.iloc[676:][["when", "plan"]]
    path, ahead = write(tmp_path, past), write(tmp_path, future, "future.csv")
    options = ("--target", "load", "--known", "plan")
    assert "fill in" in refused(capsys, 2, path, *options)
    template = pd.read_csv(tmp_path / "out" / "future-template.csv")
    assert pd.to_datetime(template["stamp"]).tolist() == future["when"].tolist()
    rows, report = forecast(path, *options, "--future", ahead)
    ahead_of = np.array([float(row["forecast"]) for row in rows])
    assert np.abs(ahead_of - frame["load"].iloc[676:]).mean() < 3
    bought = {row["regression"]: row["MAE change"] for row in report["tables"]["encodings"]}
    assert bought["+ known (plan)"] < -0.5
    short = write(tmp_path, future.drop([680, 681]), "short.csv")
    said = refused(capsys, 1, path, *options, "--future", short)
    assert "got none for 2024-01-29T08:00:00, 2024-01-29T09:00:00" in said
    holes = write(tmp_path, future.assign(plan=[1.0, None, *[1.0] * 22]), "holes.csv")
    said = refused(capsys, 1, path, *options, "--future", holes)
    assert "column 'plan'" in said and "line 3 of" in said
    one, _ = forecast(path, *options, "--future", ahead, "--horizon", "1")
    assert len(one) == 1
    assert "--known COLUMN" in refused(capsys, 2, path, "--future", ahead)


def test_groups_share_a_model_and_have_forecasts_of_their_own(tmp_path, capsys):
    parts = [hourly(400 + 24 * n, seed=n).assign(site=f"site {n}") for n in range(3)]
    parts.append(hourly(5).assign(site="tiny"))
    path = write(tmp_path, pd.concat(parts))
    said = refused(capsys, 2, path, "--target", "load")
    assert "--group 'site'" in said
    rows, report = forecast(path, "--target", "load", "--group", "site")
    assert [row["series"] for row in rows] == [f"site {n}" for n in range(3) for _ in range(24)]
    assert len({row["stamp"] for row in rows}) == 72
    assert "too short to be evaluated, so not forecast: tiny" in capsys.readouterr().out
    assert set(report["borders"]) == {"site 0", "site 1", "site 2"}
    rows, _ = forecast(path, "--target", "load", "--group", "site", "--only", "site 1")
    assert {row["series"] for row in rows} == {"site 1"}
    assert "got nowhere" in refused(capsys, 1, path, "--group", "site", "--only", "nowhere")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda f: f.assign(load=f["load"].astype(str).replace({str(f["load"][7]): "x"})), 1,
         ("'x'", "line 9")),
        (lambda f: f.assign(load=f["load"].where(f.index != 5)), 2, ("line 7", "--fill")),
        (lambda f: f.assign(when=[f"{n % 12 + 1}/{n % 9 + 1}/{2000 + n // 12}" for n in f.index]),
         2, ("--day-first or --month-first", "line 2")),
        (lambda f: f.head(4), 1, ("4 rows are too few",)),
        (lambda f: f.drop(columns="when"), 2, ("--time",)),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_line_or_the_option(tmp_path, capsys, change, code, words):
    said = refused(capsys, code, write(tmp_path, change(hourly(300))), "--target", "load")
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--target", "nothing"), 1, "--target must name a column"),
        (("--tz", "Mars/Base"), 2, "--tz must be the IANA name"),
        (("--holidays", "XX"), 2, "--holidays must be a country"),
        (("--freq", "5min"), 2, "--freq must be how far rows are apart"),
        (("--level", "1.5"), 2, "--level must be between 0 and 1"),
        (("--encodings", "magic"), 2, "got 'magic'"),
        (("--encodings", "rope_time"), 2, "--network patches"),
        (("--encodings", "hour:2"), 2, "at most 0 harmonics of hour"),
        (("--encodings", "holidays"), 2, "--holidays DE"),
        (("--horizon", "200"), 1, "--horizon 98 is the most"),
        (("--only", "a"), 2, "--group"),
    ],
)
def test_options_that_fit_no_data(tmp_path, capsys, options, code, words):
    said = refused(capsys, code, write(tmp_path, hourly(300)), *options)
    assert words in said


def test_filled_values_are_told(tmp_path, capsys):
    frame = hourly(400)
    frame.loc[[30, 31, 200], "load"] = np.nan
    forecast(write(tmp_path, frame), "--fill", "--target", "load")
    assert "! filled along a line, as they had no value: 3 rows" in capsys.readouterr().out


def test_encodings_by_name_and_none(tmp_path, capsys):
    path = write(tmp_path, hourly(600))
    _, report = forecast(path, "--encodings", "day:3,week", "12h:1", "--target", "load")
    assert report["tables"]["encodings"][1]["regression"] == "+ day 3, week 4, 12h 1"
    assert report["tables"]["encodings"][1]["columns"] == 2 * (3 + 4 + 1)
    forecast(path, "--encodings", "none", "--target", "load")
    assert "encodings: none (as asked" in capsys.readouterr().out
