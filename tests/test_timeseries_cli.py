"""The command line of the timeseries application, as it is typed."""

import csv
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
from timeseries.cli import main
from timeseries.module import Forecaster

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "timeseries"
BASE = ["-c", str(CONFIGS / "seattle.yaml")]
PATCHES = ["-c", str(CONFIGS / "networks" / "patches.yaml")]
# The clocks are set within the windows of the test.
MADE = [
    "--data=made_series.Made",
    "--data.lookback=24",
    "--data.horizon=6",
    "--data.tz=Europe/Berlin",
    "--data.start=2024-03-14T10:00",
]
QUIET = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
SHORT = [
    *QUIET,
    "--trainer.max_epochs=1",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.log_every_n_steps=1",
    "--model.network_args.patch=6",
    "--model.network_args.depth=1",
]
RUN = Path("runs") / "timeseries" / "seattle" / "version_0"
LAST = RUN / "checkpoints" / "last.ckpt"


def overlay(name):
    return ["-c", str(CONFIGS / "encodings" / f"{name}.yaml")]


@pytest.fixture
def timeseries(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["timeseries", *map(str, words)])
        main()
        return capsys.readouterr()

    return run


def table(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def column(run, name):
    return [float(row[name]) for row in table(run / "metrics.csv") if row.get(name)]


@pytest.mark.filterwarnings("ignore:The number of training batches")
def test_fit_test_validate_predict_say_where_their_results_are(timeseries):
    words = [*BASE, *MADE, *QUIET]
    printed = timeseries("fit", *words).out
    assert f"results: {RUN}" in printed and f"checkpoint last: {LAST}" in printed
    names = {path.name.partition(".")[0] for path in RUN.iterdir()}
    assert names == {"checkpoints", "config", "events", "hparams", "metrics"}
    assert column(RUN, "ridge/val_mse") == pytest.approx(column(RUN, "val/mse"), rel=1e-4)

    trained = [*words, "--ckpt_path", LAST]
    assert f"results: {RUN.with_name('version_1')}" in timeseries("test", *trained).out
    (tested,) = table(RUN.with_name("version_1") / "metrics.csv")
    assert float(tested["test/windows_clock_change"]) == 58
    assert {"test/mae_clock_change", "test/mae_rest"} <= tested.keys()

    assert "results: " in timeseries("validate", *trained).out
    assert column(RUN.with_name("version_2"), "val/mse") == column(RUN, "val/mse")

    printed = timeseries("predict", *trained).out
    path = RUN.with_name("version_3") / "predictions.csv"
    assert f"predictions: {path}" in printed
    rows = table(path)
    assert list(rows[0]) == ["window", "seen_until", "stamp", "series", "column", "forecast"]
    windows = [int(row["window"]) for row in rows]
    assert windows == sorted(windows) and len(rows) == (windows[-1] + 1) * 6 * 2
    assert {row["series"] for row in rows} == {"north", "south"}
    assert [row["column"] for row in rows[:3]] == ["level", "flow", "level"]
    # At 2 the clock skips an hour.
    stamps = [row["stamp"] for row in rows]
    assert "2024-03-31T01:00:00+01:00" in stamps and "2024-03-31T03:00:00+02:00" in stamps
    assert not any(stamp.startswith("2024-03-31T02") for stamp in stamps)


def test_quantiles_are_columns(timeseries):
    quantiles = ["--model.quantiles=[0.1,0.5,0.9]", "--model.loss=quantile"]
    words = [*BASE, *PATCHES, *MADE, *SHORT, *quantiles, "--trainer.limit_predict_batches=1"]
    timeseries("predict", *words, "--trainer.callbacks=null", "--trainer.logger=false")
    rows = table(Path("predictions.csv"))
    assert all(float(row["q0.1"]) <= float(row["q0.5"]) <= float(row["q0.9"]) for row in rows)
    assert len(rows) == 64 * 6 * 2


def test_a_checkpoint_under_another_encoding_is_refused(timeseries, capsys):
    words = [*BASE, *PATCHES, *MADE, *SHORT]
    timeseries("fit", *words, *overlay("rope_time"))
    for command, now, said in [
        ("fit", overlay("none"), "rotary: trained with TimeRotary(head_dim=16"),
        ("test", overlay("rope_rows"), "clock: trained with time, this model has row"),
        ("test", [*overlay("rope_time"), "--model.rotary.span=9D"], "span=777600.0"),
    ]:
        with pytest.raises(SystemExit) as end:
            timeseries(command, *words, *now, "--ckpt_path", LAST)
        assert end.value.code == 2
        text = capsys.readouterr().err
        assert "error: the checkpoint was trained with another encoding." in text and said in text


def test_a_saved_config_and_a_checkpoint_build_the_same_module(timeseries):
    words = [*overlay("holidays"), *overlay("rope_seasons"), "--model.bias=T5Bias"]
    words += ["--model.network_args.variate=learned", "--model.network_args.linear=true"]
    timeseries("fit", *BASE, *PATCHES, *MADE, *SHORT, *words)
    timeseries("fit", "-c", RUN / "config.yaml", "--trainer.max_epochs=2")
    first, second = (
        Forecaster.load_from_checkpoint(run / "checkpoints" / "last.ckpt")
        for run in (RUN, RUN.with_name("version_1"))
    )
    assert first.encodings == second.encodings
    assert "zone='Europe/Berlin'" in first.encodings["additive"]
    assert "years=(2024, 2025)" in first.encodings["additive"]
    assert "step=21600.0, span=104400.0" in first.encodings["rotary"]
    assert [(n, p.shape) for n, p in first.named_parameters()] == [
        (n, p.shape) for n, p in second.named_parameters()
    ]
    saved = torch.load(LAST, weights_only=True)["state_dict"]
    assert all(torch.equal(saved[name], value) for name, value in first.state_dict().items())
    # One setting changed, and the schedule follows it: it is not frozen at the epochs of before.
    rates = torch.load(RUN.with_name("version_1") / "checkpoints" / "last.ckpt", weights_only=True)
    assert rates["lr_schedulers"][0]["T_max"] == 2


def test_resume_goes_on_where_it_stopped(timeseries):
    words = [*BASE, *PATCHES, *MADE, *SHORT, *overlay("rope_time")]
    words += ["--trainer.max_epochs=3", "--model.network_args.linear=true"]
    timeseries("fit", *words, "--trainer.max_steps=4")
    with pytest.warns(UserWarning, match="dirpath has changed"):
        timeseries("fit", *words, "--ckpt_path", LAST)
    resumed = RUN.with_name("version_1")
    steps = [row["step"] for row in table(resumed / "metrics.csv") if row["train/loss"]]
    assert steps == ["4", "5"]
    last = torch.load(resumed / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["epoch"] == 2 and last["global_step"] == 6


@pytest.mark.parametrize("name", ["compare", "forecast"])
def test_other_commands_are_their_own(monkeypatch, name):
    module = type(sys)(f"timeseries.{name}")
    module.main = lambda words: (7, words)
    monkeypatch.setitem(sys.modules, f"timeseries.{name}", module)
    assert main([name, "--seeds", "1"]) == (7, ["--seeds", "1"])


@pytest.mark.parametrize("command", ["fit", "validate", "test", "predict"])
def test_print_config(timeseries, command):
    with pytest.raises(SystemExit) as end:
        timeseries(command, *BASE, *overlay("learned"), "--print_config")
    assert end.value.code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: data must be named"),
        (["-c", str(CONFIGS / "table.yaml")], "error: --data.path must be given for Table"),
        (["-c", "nope.yaml"], "nope.yaml"),
        ([*BASE, "--model.network=lstm"], "error: network must be one of linear, patches"),
        ([*BASE, "--model.rotary=Rotary"], "error: network='linear' has no place for rotary"),
        ([*BASE, "--model.rotary=Rotary", "--model.rotary.axis=2"], "'axis' is not accepted"),
        ([*BASE, *PATCHES, "--model.network_args.widht=3"], "error: network_args of 'patches'"),
        ([*BASE, *PATCHES, "--model.network_args.patch=0"], "error: patch must be"),
        ([*BASE, *PATCHES, "--model.clock=noon"], "error: clock must be one of time, row"),
        ([*BASE, *PATCHES, "--optimizer=null"], "error: an optimizer must be given"),
        ([*BASE, "--model.additive.periods={hour: 1}"], "a harmonic must last two steps or more"),
        ([*BASE, "--model.lookback=3"], 'must be given via "data"'),
        ([*BASE, "--data.lookback=9999"], "error: series must have 10,023 rows to train"),
        ([*BASE, "--data=ETT", "--data.name=ETTh7"], "Got value: ETTh7"),
    ],
)
def test_mistakes_are_named(timeseries, capsys, words, said):
    with pytest.raises(SystemExit) as end:
        timeseries("fit", *words, *QUIET)
    assert end.value.code == 2
    text = capsys.readouterr().err
    assert said in text and "Traceback" not in text
