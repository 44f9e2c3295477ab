"""The comparison: it ranks what was measured, keeps what is finished, and says no more."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("lightning")

from timeseries import compare, report, verdict
from timeseries.runs import REFERENCES, _build, at_lookback, run
from timeseries.scores import evaluate

QUICK = ["--trainer.max_epochs=1", "--trainer.limit_train_batches=2"]
RUN = ["--encodings", "learned", "calendar+rope_time", "--seeds", "2", *QUICK]
BASE = """
model:
  network: linear
  additive:
    class_path: posenc_mm.Seasonal
    init_args: {{periods: {{day: 1}}, zone: auto}}
data:
  class_path: timeseries.data.Table
  init_args: {{path: {path}, tz: Europe/Berlin, lookback: 48, horizon: 6}}
"""


@pytest.fixture
def base(tmp_path):
    """Hours in which the clocks are set, among those tested."""
    stamps = pd.date_range("2021-03-01", periods=700, freq="h", tz="UTC").tz_convert(
        "Europe/Berlin"
    )
    values = np.sin(2 * np.pi * stamps.hour / 24) + np.random.default_rng(0).normal(0, 0.1, 700)
    table, config = tmp_path / "hours.csv", tmp_path / "hours.yaml"
    pd.DataFrame({"time": stamps.astype(str), "x": values}).to_csv(table, index=False)
    config.write_text(BASE.format(path=table))
    return ["-c", str(config)]


def frame(errors, trained=True, stretches=None, changes=0):
    """Runs as :func:`timeseries.report.frame` gives them: errors by name, lookback and seed."""
    return pd.DataFrame(
        {"forecast": name, "trained": trained, "seed": seed, "lookback": lookback, "windows": 500,
         "mse": mse, "mae": mse**0.5, "changes": changes, "mae_change": 0.3 if changes else None,
         "mae_rest": 0.2 if changes else mse**0.5,
         "stretches": [mse * one for one in stretches or [0.9, 1.1] * 5], "seconds": 2.0 + seed,
         "parameters": 1000}
        for name, lookbacks in errors.items()
        for lookback, values in lookbacks.items()
        for seed, mse in enumerate(values)
    )  # fmt: skip


def said(*frames):
    return verdict.sentences(report.summarise(pd.concat(frames)))


@pytest.fixture
def in_process(monkeypatch):
    """Work in this process, and note what was done."""
    done = []

    def work(todo, jobs):
        for task in todo:
            done.append((task["forecast"], task["seed"]))
            run(task)

    monkeypatch.setattr(compare, "_work", work)
    return done


def test_results_are_kept_until_what_they_depend_on_changes(
    in_process, base, tmp_path, capsys, monkeypatch
):
    arguments, out = [*base, *RUN, "--out", str(tmp_path)], tmp_path
    compare.main(arguments)
    trained = [(name, seed) for seed in (0, 1) for name in ("learned", "calendar+rope_time")]
    assert in_process == [(REFERENCES, 0), *trained]
    printed = capsys.readouterr().out
    for file in ("results.csv", "results.md", "errors.png"):
        assert (out / file).stat().st_size > 100
        assert str(out / file) in printed
    assert "learned cannot run at a lookback of 72 or 96: positions of a Learned" in printed
    assert "n/a" in (out / "results.md").read_text()

    first = pd.read_csv(out / "results.csv")
    assert first["windows"].unique().tolist() == [135] and first["mse"].gt(0).all()
    assert first.loc[first["lookback"] == 48, "changes"].unique().tolist() == [51]
    lookbacks = first.groupby("forecast")["lookback"].agg(lambda some: sorted(set(some)))
    everywhere = ["calendar+rope_time", "naive", "mean of the lookback", "seasonal naive (day)"]
    assert all(lookbacks[name] == [48, 72, 96] for name in everywhere)
    assert all(lookbacks[name] == [48] for name in ("learned", "ridge", "ridge + encoding"))
    naive = first[first["forecast"] == "naive"]
    assert naive["mse"].nunique() == 1  # the same windows, whatever the lookback
    per_seed = first[first["trained"]].groupby("seed")["mse"].apply(list)
    assert per_seed[0] != per_seed[1]

    (out / "runs" / "learned-1.json").unlink()
    in_process.clear()
    compare.main(arguments)
    assert in_process == [("learned", 1)]
    again = pd.read_csv(out / "results.csv")
    assert again["mse"].tolist() == first["mse"].tolist()

    def interrupt(todo, jobs):
        in_process.extend((task["forecast"], task["seed"]) for task in todo)
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "_work", interrupt)
    # Baselines have no optimizer.
    changes = {"--optimizer.lr=0.002": trained, "--data.horizon=4": [(REFERENCES, 0), *trained]}
    for change, todo in changes.items():
        in_process.clear()
        with pytest.raises(SystemExit):
            compare.main([*arguments, change])
        assert in_process == todo


def test_an_encoding_replaces_those_of_the_base(in_process, base, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "rope_rows-0.part").write_text('{"key": "cut off')
    arguments = [*base, "--encodings", "rope_rows", "--seeds", "1", *QUICK, "--out", str(tmp_path)]
    compare.main(arguments)
    written = json.loads((runs / "rope_rows-0.json").read_text())["results"][0]
    assert written["slots"]["additive"] == "none" and written["slots"]["clock"] == "row"
    assert written["slots"]["rotary"].startswith("TimeRotary")
    assert len(written["scores"]["48"]["stretches"]) == 10
    assert not (runs / "rope_rows-0.part").exists()


def test_scores_are_those_of_the_test_command(base):
    none = compare.CONFIGS / "encodings" / "none.yaml"
    network = compare.CONFIGS / "networks" / "small.yaml"
    cli = _build([base[1], str(network), str(none)], [])
    scores = evaluate(cli.datamodule, cli.model.eval().point)
    tested = cli.trainer.test(cli.model, datamodule=cli.datamodule, verbose=False)[0]
    assert (scores.mse, scores.mae) == pytest.approx((tested["test/mse"], tested["test/mae"]))
    change, rest = tested["test/mae_clock_change"], tested["test/mae_rest"]
    assert (scores.mae_change, scores.mae_rest) == pytest.approx((change, rest))
    assert scores.changes == tested["test/windows_clock_change"]


def test_the_embedded_series_need_no_file(in_process, tmp_path, monkeypatch):
    pytest.importorskip("vega_datasets")
    monkeypatch.delenv("POSENC_MM_DATA", raising=False)
    arguments = ["--encodings", "none", "--seeds", "1", *QUICK, "--data.lookback", "48"]
    compare.main([*arguments, "--data.batch_size=256", "--out", str(tmp_path)])
    results = pd.read_csv(tmp_path / "results.csv")
    assert results["windows"].unique().tolist() == [1728]
    assert results["lookback"].unique().tolist() == [48, 72, 96]


def test_networks_with_weights_per_row_run_at_one_lookback(in_process, base, tmp_path, capsys):
    arguments = [*base, "--encodings", "none", "--network", "variates", "--seeds", "1", *QUICK]
    compare.main([*arguments, "--out", str(tmp_path)])
    assert "none cannot run at a lookback of 72 or 96: the network has w" in capsys.readouterr().out


def test_a_lookback_that_leaves_windows_out_is_refused(tmp_path):
    from timeseries.data import Table

    stamps = pd.date_range("2020-01-01", periods=100, freq="h")
    parts = [pd.DataFrame({"time": stamps[:n], "x": np.sin(np.arange(n)), "name": str(n)})
             for n in (60, 100)]  # fmt: skip
    pd.concat(parts).to_csv(tmp_path / "two.csv", index=False)
    data = Table(str(tmp_path / "two.csv"), group="name", lookback=30, horizon=4)
    assert at_lookback(data, 36).counts["test"] == data.counts["test"]
    assert at_lookback(data, 36).split.test.lookback == 36 and data.lookback == 30
    for lookback in (60, 90):
        with pytest.raises(ValueError, match=r"too short|must have"):
            at_lookback(data, lookback)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--encodings", "rope"], "rope_time"),
        (["--encodings", "calendar+rope"], "--encodings: no 'rope'"),
        (["--network", "wide"], "--network: no 'wide'; there are linear"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_unknown_names_are_refused_with_what_there_is(argv, message):
    with pytest.raises(SystemExit, match=message):
        compare.main(argv)


@pytest.mark.parametrize("argv", [["--seeds", "0"], ["--jobs", "0"], ["--seed", "3"], ["--x"]])
def test_unknown_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as error:
        compare.main(argv)
    assert error.value.code == 2
    assert "error" in capsys.readouterr().err


def test_interrupted_it_keeps_what_is_finished(root, base, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "timeseries", "compare", *base, "--encodings", "none",
               "--seeds", "9", "--jobs", "1", *QUICK, "--out", str(out)]  # fmt: skip
    with subprocess.Popen(command, cwd=root, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as process:  # fmt: skip
        end = time.monotonic() + 240
        while len(list(out.glob("runs/*.json"))) < 2 and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "the same command goes on" in printed and "Traceback" not in printed + errors
    kept = [json.loads(path.read_text()) for path in out.glob("runs/*.json")]
    assert 2 <= len(kept) < 10 and all(one["results"] for one in kept)


def test_ranking_is_by_error_at_the_lookback_trained_at():
    summary = report.summarise(
        pd.concat([frame({"a": {8: [0.4, 0.2], 16: [0.1, 0.1]}, "b": {8: [0.1, 0.1]}}),
                   frame({"naive": {8: [0.2], 16: [0.00004]}}, trained=False)])
    )  # fmt: skip
    assert summary["forecast"].tolist() == ["b", "naive", "a"]
    assert summary["8 mse"].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert summary["8 mse std"].tolist()[::2] == pytest.approx([0.0, 0.02**0.5])
    assert report.lookbacks_of(summary) == [8, 16]
    lines = report.markdown(summary).splitlines()
    assert lines[2].startswith("| 1 | b | 0.100 ± 0.000 | n/a | 0.316 | 2.5 | 1k |")
    assert lines[3].startswith("| 2 | naive | 0.200 | 0.0000400 | 0.447 |")
    assert "change" not in lines[0]
    report.show(summary, "title")


def test_the_sentences_call_no_difference_that_chance_explains():
    close = {"a": {8: [0.40, 0.42, 0.38]}, "b": {8: [0.41, 0.39, 0.42]}}
    text = said(frame(close))
    assert "At a lookback of 8, the one trained at, the MSE of all encodings lies from" in text
    assert "too close to tell apart" in text and "lead" not in text
    apart = {"a": {8: [0.40, 0.41, 0.39]}, "b": {8: [0.60, 0.61, 0.62]}}
    assert "the one trained at, a leads (MSE from 0.400 to 0.610)" in said(frame(apart))
    once = {"a": {8: [0.4]}, "b": {8: [0.6]}}
    assert "the MSE of all encodings" in said(frame(once)) and "1 seed, too few" in said(
        frame(once)
    )
    # Another seed would not change it, but another stretch of time might.
    steady = frame({"a": {8: [0.40, 0.40, 0.40]}}, stretches=[0.2] * 9 + [8.2])
    other = frame({"b": {8: [0.45, 0.45, 0.45]}})
    assert "the MSE of all encodings" in said(steady, other)
    assert "a leads" in said(frame({"a": {8: [0.40, 0.40, 0.40]}}), other)


def test_the_sentences_name_what_was_asked():
    errors = {"rope_time": {8: [0.40, 0.41, 0.39], 16: [0.4, 0.4, 0.4]},
              "rope_rows": {8: [0.50, 0.51, 0.49], 16: [0.6, 0.6, 0.6]},
              "learned": {8: [0.50, 0.49, 0.51]}}  # fmt: skip
    trained = frame(errors, changes=12)
    text = said(trained, frame({"ridge": {8: [0.3]}}, trained=False))
    assert "at a lookback of 16 rope_time leads" in text and "(learned cannot run there)" in text
    assert "The best of them, rope_time, is worse than ridge" in text
    assert "(rope_rows): MSE 0.400 against 0.500, 20.0 % less" in text
    assert "In the 12 windows across a change of the clocks rope_time has an MAE of 0.300" in text
    assert "500 test windows, 3 seeds: they do not say" in text
    assert "is better than naive" in said(trained, frame({"naive": {8: [0.9]}}, trained=False))
    assert "cannot be told from mean" in said(trained, frame({"mean": {8: [0.41]}}, trained=False))
    assert "MAE change" in report.markdown(report.summarise(trained))
