"""The command line of the vision application, as it is typed."""

import csv
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
from vision.cli import main
from vision.module import ImageClassifier

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "vision"
DIGITS = ["-c", str(CONFIGS / "digits.yaml")]
SHORT = [
    "--trainer.max_epochs=1",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.log_every_n_steps=1",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
RUN = Path("runs") / "vision" / "digits" / "version_0"
LAST = RUN / "checkpoints" / "last.ckpt"


def overlay(name):
    return ["-c", str(CONFIGS / "encodings" / f"{name}.yaml")]


@pytest.fixture
def vision(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["vision", *map(str, words)])
        main()
        return capsys.readouterr()

    return run


def table(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def metrics(run):
    return table(run / "metrics.csv")


def column(run, name):
    return [float(row[name]) for row in metrics(run) if row.get(name)]


def test_fit_test_validate_predict_say_where_their_results_are(vision):
    printed = vision("fit", *DIGITS, *overlay("axial_rope"), *SHORT).out
    assert f"results: {RUN}" in printed and f"checkpoint last: {LAST}" in printed
    names = {path.name.partition(".")[0] for path in RUN.iterdir()}
    assert names == {"checkpoints", "config", "events", "hparams", "metrics"}
    assert len(column(RUN, "train/loss")) == 2
    assert 0 <= column(RUN, "val/accuracy")[0] <= 1

    trained = [*DIGITS, *overlay("axial_rope"), *SHORT, "--ckpt_path", LAST]
    assert f"results: {RUN.with_name('version_1')}" in vision("test", *trained).out
    tested = metrics(RUN.with_name("version_1"))[0]
    assert {"test/accuracy", "test/accuracy_12", "test/accuracy_16"} <= tested.keys()

    assert "results: " in vision("validate", *trained).out
    printed = vision("predict", *trained, "--data.test_size=8").out
    path = RUN.with_name("version_3") / "predictions.csv"
    assert f"predictions: {path}" in printed
    rows = table(path)
    assert [row["index"] for row in rows] == [str(i) for i in range(len(rows))]
    right = sum(row["class"] == row["predicted"] for row in rows) / len(rows)
    assert right == pytest.approx(float(tested["test/accuracy"]))


def test_digits_reach_95_percent(vision):
    quiet = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    vision("fit", *DIGITS, *overlay("learned"), *quiet)
    vision("test", *DIGITS, *overlay("learned"), *quiet, "--ckpt_path", LAST)
    (accuracy,) = column(RUN.with_name("version_1"), "test/accuracy")
    assert accuracy > 0.95


@pytest.mark.parametrize("now", ["none", "mixed_rope", "axial_rope --model.rotary.base=1e4"])
def test_a_checkpoint_under_another_encoding_is_refused(vision, now):
    vision("fit", *DIGITS, *overlay("axial_rope"), *SHORT)
    name, *rest = now.split()
    for command in ("test", "fit"):
        with pytest.raises(ValueError, match="another encoding") as refusal:
            vision(command, *DIGITS, *overlay(name), *rest, *SHORT, "--ckpt_path", LAST)
        text = str(refusal.value)
        assert "trained with Rotary(head_dim=16, axes=2" in text and "base=100.0" in text
        other = {"none": "has none", "mixed_rope": "has MixedRotary(", "axial_rope": "base=10000.0"}
        assert other[name] in text


def test_the_model_of_a_checkpoint_is_built_from_it_alone(vision):
    vision("fit", *DIGITS, *overlay("learned"), *overlay("mixed_rope"), *SHORT)
    model = ImageClassifier.load_from_checkpoint(LAST)
    assert model.encodings["additive"].startswith("Learned(dim=64, sizes=(4, 4)")
    saved = torch.load(LAST, weights_only=True)["state_dict"]
    assert saved.keys() == model.state_dict().keys()
    assert all(torch.equal(saved[name], value) for name, value in model.state_dict().items())


def test_a_saved_config_fed_back_builds_the_same_module(vision):
    words = [*overlay("relative_bias"), "--model.bias.sizes=[3,5]", "--model.rotary=Rotary"]
    words += ["--model.rotary.axes=2", "--model.rotary.base=1e4", "--trainer.max_epochs=2"]
    vision("fit", *DIGITS, *SHORT, *words)
    vision("fit", "-c", RUN / "config.yaml", "--trainer.max_epochs=1")
    first, second = (
        ImageClassifier.load_from_checkpoint(run / "checkpoints" / "last.ckpt")
        for run in (RUN, RUN.with_name("version_1"))
    )
    assert first.encodings == second.encodings
    assert "sizes=(3, 5)" in second.encodings["bias"]
    assert "base=10000.0" in second.encodings["rotary"]
    assert [(n, p.shape) for n, p in first.named_parameters()] == [
        (n, p.shape) for n, p in second.named_parameters()
    ]
    # One setting changed, and the schedule follows it: it is not frozen at the epochs of before.
    rates = torch.load(RUN.with_name("version_1") / "checkpoints" / "last.ckpt", weights_only=True)
    assert rates["lr_schedulers"][0]["T_max"] == 1


def test_resume_goes_on_where_it_stopped(vision):
    words = [*DIGITS, *overlay("mixed_rope"), *SHORT, "--trainer.max_epochs=3"]
    vision("fit", *words)
    vision("fit", *words, "--trainer.max_steps=4")
    half = RUN.with_name("version_1") / "checkpoints" / "last.ckpt"
    assert torch.load(half, weights_only=True)["global_step"] == 4
    with pytest.warns(UserWarning, match="dirpath has changed"):
        vision("fit", *words, "--ckpt_path", half)
    resumed = RUN.with_name("version_2")
    assert [row["step"] for row in metrics(resumed) if row["train/loss"]] == ["4", "5"]
    whole = torch.load(LAST, weights_only=True)
    last = torch.load(resumed / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["epoch"] == whole["epoch"] == 2
    assert last["lr_schedulers"][0]["last_epoch"] == whole["lr_schedulers"][0]["last_epoch"]


def test_early_stopping(vision):
    stop = ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=val/loss"]
    stop += ["--trainer.callbacks.patience=2", "--trainer.callbacks.min_delta=1e9"]
    vision("fit", *DIGITS, *SHORT, "--trainer.max_epochs=9", *stop)
    assert len(column(RUN, "val/loss")) == 3


def test_mixed_precision(vision, monkeypatch):
    seen = []
    forward = ImageClassifier.forward
    monkeypatch.setattr(
        ImageClassifier, "forward", lambda *args: seen.append(forward(*args)) or seen[-1]
    )
    vision("fit", *DIGITS, *overlay("axial_rope"), *SHORT, "--trainer.precision=bf16-mixed")
    assert {logits.dtype for logits in seen} == {torch.bfloat16}
    weights = torch.load(LAST, weights_only=True)["state_dict"].values()
    assert {weight.dtype for weight in weights} == {torch.float32}


def test_gradient_checkpointing_changes_memory_only(vision, monkeypatch):
    calls = []
    original = torch.utils.checkpoint.checkpoint
    monkeypatch.setattr(
        torch.utils.checkpoint,
        "checkpoint",
        lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs),
    )
    counts = []
    for flag in ("true", "false"):
        words = [*overlay("relative_bias"), f"--model.gradient_checkpointing={flag}"]
        vision("fit", *DIGITS, *SHORT, *words)
        counts.append(len(calls))
    assert counts[0] > 0 and counts[1] == counts[0]
    assert column(RUN, "train/loss") == column(RUN.with_name("version_1"), "train/loss")


def test_progress_bar_and_tensorboard(vision):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    bar = ["--trainer.enable_progress_bar=true", "--trainer.callbacks+=TQDMProgressBar"]
    printed = vision("fit", *DIGITS, *SHORT, *bar)
    assert "Epoch 0" in printed.out + printed.err and "val/accuracy" in printed.out + printed.err
    events = EventAccumulator(str(RUN)).Reload()
    assert {"train/loss", "val/loss", "val/accuracy"} <= set(events.Tags()["scalars"])


def test_no_logger_leaves_the_folder_as_it_was(vision, tmp_path):
    bare = ["--trainer.logger=false", "--trainer.callbacks=null"]
    vision("validate", *DIGITS, *SHORT, *bare)
    assert not list(tmp_path.iterdir())


def test_compare_is_a_command_of_its_own(monkeypatch):
    seen = []
    module = type(sys)("vision.compare")
    module.main = seen.append
    monkeypatch.setitem(sys.modules, "vision.compare", module)
    main(["compare", "--seeds", "1"])
    assert seen == [["--seeds", "1"]]


@pytest.mark.parametrize("command", ["fit", "validate", "test", "predict"])
def test_print_config(vision, command):
    with pytest.raises(SystemExit) as end:
        vision(command, *DIGITS, *overlay("learned"), "--print_config")
    assert end.value.code == 0
