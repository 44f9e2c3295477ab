"""Diagnostics as callbacks: in the three applications, from YAML, alone and in two processes."""

import csv
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("matplotlib")
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.strategies import FSDPStrategy

import posenc_mm as pm
from posenc_mm.diagnostics import Subject, attention_by_distance, attention_maps
from posenc_mm.lightning import AttentionDistance, EffectiveContext, ShiftTest

ROOT = Path(__file__).resolve().parents[1]
QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Toy(LightningModule):
    """Predicts the next of seven tokens, with dropout, so that random numbers matter."""

    def __init__(self, dropout=0.2, seen=None, **slots):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(7, 16)
        self.network = pm.Transformer(16, 2, 2, causal=True, dropout=dropout, **slots)
        self.seen = seen

    def forward(self, tokens, offset=0):
        x = self.network(self.embedding(tokens), pm.sequence(tokens.shape[1], offset=offset))
        return x @ self.embedding.weight.T

    def training_step(self, batch, _):
        logits = self(batch[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def validation_step(self, batch, _):
        self.log("val/loss", self.training_step(batch, 0), sync_dist=True)

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def subject(self, batch, samples):
        if self.seen is not None:
            self.seen.append((self.trainer.current_epoch, samples, self.training))
        torch.rand(3)
        tokens = batch[:samples]
        positions = pm.sequence(tokens.shape[1] - 1)
        return Subject(
            self, (tokens[:, :-1],), positions=positions, tokens=tokens, logits=self,
            shifted=lambda offset: self(tokens[:, :-1], offset),
        )  # fmt: skip


def text():
    return torch.randint(7, (12, 14), generator=torch.Generator().manual_seed(3))


def loader():
    return torch.utils.data.DataLoader(text(), batch_size=4)


def every(**options):
    return [kind(**options) for kind in (AttentionDistance, EffectiveContext, ShiftTest)]


def trainer(folder, callbacks, logger=True, epochs=2, **options):
    logger = CSVLogger(folder) if logger is True else logger
    return Trainer(
        default_root_dir=folder, logger=logger, callbacks=callbacks, max_epochs=epochs,
        enable_checkpointing=False, log_every_n_steps=1, **{**QUIET, **options},
    )  # fmt: skip


def column(path, name):
    with path.open(newline="", encoding="utf-8") as stream:
        return [float(row[name]) for row in csv.DictReader(stream) if row.get(name)]


def test_numbers_and_pictures_of_each(tmp_path, caplog):
    run = trainer(tmp_path, every(samples=3))
    model = Toy(rotary=pm.Rotary(8))
    with caplog.at_level("INFO"):
        run.fit(model, loader(), loader())
        run.test(model, loader(), verbose=False)
    folder = Path(run.log_dir) / "diagnostics"
    names = ["attention_distance", "effective_context", "position_shift"]
    wanted = {f"val_{name}_step_{step}.png" for name in names for step in (3, 6)}
    wanted |= {f"test_{name}_step_6.png" for name in names}
    assert {path.name for path in folder.iterdir()} == wanted
    for kind in every():
        assert f"pictures of {type(kind).__name__}: {folder}" in caplog.text
    metrics = Path(run.log_dir) / "metrics.csv"
    first, last = column(metrics, "val/attention_distance")
    assert first != last
    maps = attention_maps(model, text()[:3, :-1])
    found = attention_by_distance(maps, pm.sequence(13))
    means = [float(layer.mean.mean()) for layer in found.layers]
    assert column(metrics, "test/attention_distance") == pytest.approx([sum(means) / 2], rel=1e-6)
    assert column(metrics, "test/attention_distance_2") == pytest.approx(means[1:], rel=1e-6)
    assert 1 <= column(metrics, "test/effective_context")[0] <= 6
    assert column(metrics, "test/position_shift")[0] < 1e-5
    assert float(run.callback_metrics["test/position_shift"]) < 1e-5


def test_a_training_with_them_is_the_same_training(tmp_path):
    states = []
    for callbacks in ([], every()):
        torch.manual_seed(5)
        model = Toy()
        trainer(tmp_path, callbacks, logger=False).fit(model, loader(), loader())
        states.append({**model.state_dict(), "drawn": torch.rand(1)})
        assert all(module.training for module in model.modules())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_tensorboard_gets_the_pictures(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger(tmp_path)
    run = trainer(tmp_path, [AttentionDistance(theme="dark")], logger=[CSVLogger(tmp_path), logger])
    run.fit(Toy(), loader(), loader())
    logger.experiment.flush()
    events = EventAccumulator(logger.log_dir, size_guidance={"images": 0})
    events.Reload()
    assert events.Tags()["images"] == ["val/attention_distance"]
    assert [image.step for image in events.Images("val/attention_distance")] == [3, 6]
    assert not list(tmp_path.rglob("*.png"))


def test_every_nth_validation_is_looked_at_and_a_restart_counts_on(tmp_path):
    seen = []
    model, looking = Toy(seen=seen), AttentionDistance(every=3, samples=2)
    trainer(tmp_path, [looking], logger=False, epochs=5).fit(model, loader(), loader())
    check, *looks = seen  # before the training, where nothing is logged or counted
    assert check == (0, 2, False) and looks == [(0, 2, False), (3, 2, False)]
    again = AttentionDistance(every=3)
    again.load_state_dict(looking.state_dict())
    assert again.validations == 5


def test_a_table_that_ends_leaves_offsets_out(tmp_path):
    run = trainer(tmp_path, [ShiftTest(offsets=[1, 64])], logger=False, epochs=1)
    with pytest.warns(UserWarning, match="leaves out the offset 64: "):
        run.fit(Toy(additive=pm.Learned(16, 20, std=0.5)), loader(), loader())
    assert float(run.callback_metrics["val/position_shift"]) > 1e-3


class Silent(Toy):
    subject = None


class Empty(Toy):
    def subject(self, batch, samples):
        return Subject(torch.nn.Identity(), (batch,))


@pytest.mark.parametrize("callback", every(), ids=lambda c: type(c).__name__)
def test_modules_that_do_not_say_enough_are_refused(callback, tmp_path):
    name = type(callback).__name__
    run = trainer(tmp_path, [callback], logger=False)
    with pytest.raises(ValueError, match=rf"{name} needs a method subject.*Silent has none"):
        run.fit(Silent(), loader(), loader())
    run = trainer(tmp_path, [callback], logger=False)
    with pytest.raises(ValueError, match=rf"{name} needs \w+ of the subject.*Identity"):
        run.fit(Empty(), loader(), loader())
    assert run.global_step == 0, "an epoch was spent before this was said"


def test_a_strategy_that_splits_the_model_is_refused(tmp_path):
    run = trainer(tmp_path, [])
    run.strategy.__class__ = FSDPStrategy
    with pytest.raises(ValueError, match="FSDPStrategy has only a part of Toy"):
        AttentionDistance().setup(run, Toy(), "fit")


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"samples": 0}, {"theme": "sepia"}], ids=lambda o: next(iter(o))
)
def test_arguments_are_checked_at_the_start(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        AttentionDistance(**options)


CALLBACK = """
trainer:
  callbacks:
    - class_path: posenc_mm.lightning.AttentionDistance
      init_args:
        samples: 2
    - class_path: posenc_mm.lightning.ShiftTest
      init_args:
        samples: 2
        offsets: [1, 2]
"""
CONTEXT = "    - class_path: posenc_mm.lightning.EffectiveContext\n"
LEAST = [
    "--trainer.max_epochs=1",
    "--trainer.limit_train_batches=1",
    "--trainer.limit_val_batches=1",
]
LEAST += [f"--trainer.{name}=false" for name in ("enable_progress_bar", "enable_model_summary")]
APPS = {
    "vision": (["digits.yaml", "encodings/axial_rope.yaml"], ["content_shift"]),
    "timeseries": (
        ["seattle.yaml", "networks/patches.yaml", "encodings/rope_time.yaml"],
        ["position_shift"],
    ),
    "text": (["stdlib.yaml", "encodings/rope.yaml"], ["position_shift", "effective_context"]),
}


def fit(app, folder, *words):
    extra = folder / "diagnostics.yaml"
    extra.write_text(CALLBACK + (CONTEXT if app == "text" else ""), encoding="utf-8")
    configs = [ROOT / "configs" / app / name for name in APPS[app][0]] + [extra]
    command = [
        sys.executable,
        "-m",
        app,
        "fit",
        *(f"-c={path}" for path in configs),
        *LEAST,
        *words,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        environment["MASTER_PORT"] = str(probe.getsockname()[1])
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.rglob("metrics.csv")
    return done.stdout + done.stderr, path


@pytest.mark.parametrize("app", APPS)
def test_the_applications_take_them_from_yaml(app, tmp_path):
    said, path = fit(app, tmp_path)
    assert "pictures of AttentionDistance: " in said and "pictures of ShiftTest: " in said
    (distance,) = column(path, "val/attention_distance")
    assert distance > 0
    for name in APPS[app][1]:
        assert len(column(path, f"val/{name}")) == 1
    if app != "vision":
        assert column(path, "val/position_shift")[0] < 1e-4  # relative encodings


def test_two_processes_do_not_wait_for_each_other(tmp_path):
    ddp = ["--trainer.accelerator=cpu", "--trainer.devices=2", "--trainer.strategy=ddp"]
    said, path = fit("text", tmp_path, *ddp)
    assert said.count("pictures of EffectiveContext: ") == 1
    assert len(column(path, "val/effective_context")) == 1
    assert "sync_dist=True" not in said
