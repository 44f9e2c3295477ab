"""Two processes from the same command line, with images and so sequences of different sizes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "configs" / "vision" / "digits.yaml"

# A data module of the user's own: each process trains on another size and shape, which changes.
RAGGED = """
import torch
from lightning.pytorch import Callback, LightningDataModule
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self, rank):
        self.rank = rank
    def __len__(self):
        return 6
    def __getitem__(self, step):
        size = [(8, 12), (8, 8)][(self.rank + step) % 2] if step < 4 else (8 + 2 * self.rank, 6)
        generator = torch.Generator().manual_seed(10 * self.rank + step)
        images = torch.randn(3 + self.rank, 1, *size, generator=generator)
        return images, torch.randint(10, (len(images),), generator=generator)

class Ragged(LightningDataModule):
    classes, channels = 10, 1
    def __init__(self, size: int = 8):
        super().__init__()
    def train_dataloader(self):
        # No batching: an item is a batch. The trainer must not deal them out anew.
        return DataLoader(Images(self.trainer.global_rank), batch_size=None)

class Record(Callback):
    def on_after_backward(self, trainer, module):
        named = {n: p for n, p in module.named_parameters() if p.requires_grad}
        assert all(p.grad is not None for p in named.values())
        trainer.grads = {n: p.grad.clone() for n, p in named.items()}
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        tokens = batch[0].shape[-2] * batch[0].shape[-1] // 4
        rows = getattr(trainer, "rows", [])
        trainer.rows = [*rows, {"tokens": tokens, "grads": trainer.grads}]
    def on_train_end(self, trainer, module):
        torch.save({"rows": trainer.rows, "weights": dict(module.named_parameters())},
                   f"rank{trainer.global_rank}.pt")
"""

SLOTS = {
    "nothing learned": ["--model.rotary=Rotary", "--model.rotary.axes=2", "--model.bias=ALiBi"],
    "learned": ["--model.rotary=MixedRotary", "--model.additive=Learned"],
}


def start(tmp_path, *words):
    """Run the command as its user would, on a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    environment |= {"OMP_NUM_THREADS": "1", "MASTER_PORT": str(port)}
    ddp = ["--trainer.strategy=ddp", "--trainer.accelerator=cpu", "--trainer.devices=2"]
    quiet = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    command = [sys.executable, "-m", "vision", "fit", "-c", str(DIGITS), *ddp, *quiet, *words]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_processes_with_sequences_of_other_lengths_stay_in_step(tmp_path, slots):
    (tmp_path / "ragged.py").write_text(RAGGED)
    words = ["--data=ragged.Ragged", "--trainer.use_distributed_sampler=false", *slots]
    words += ["--trainer.max_epochs=1", "--trainer.callbacks=ragged.Record"]
    words += ["--trainer.logger=false", "--trainer.enable_checkpointing=false"]
    start(tmp_path, *words)
    first, second = (torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1))
    lengths = [[row["tokens"] for row in rank["rows"]] for rank in (first, second)]
    assert lengths == [[24, 16, 24, 16, 12, 12], [16, 24, 16, 24, 15, 15]]
    for one, two in zip(first["rows"], second["rows"], strict=True):
        for name, gradient in one["grads"].items():
            assert torch.equal(gradient, two["grads"][name]), name
    assert all(torch.equal(w, second["weights"][n]) for n, w in first["weights"].items())
    if "--model.rotary=MixedRotary" in slots:
        learned = [name for name in first["weights"] if "posenc" in name]
        assert len(learned) == 2
        assert all(first["rows"][-1]["grads"][name].abs().sum() > 0 for name in learned)


def test_a_whole_run_in_two_processes(tmp_path):
    overlay = DIGITS.parent / "encodings" / "mixed_rope.yaml"
    words = ["--trainer.max_epochs=2", "--trainer.limit_train_batches=3"]
    printed = start(tmp_path, "-c", str(overlay), *words, "--trainer.log_every_n_steps=1")
    run = tmp_path / "runs" / "vision" / "digits" / "version_0"
    assert printed.count("results: ") == 1  # the first process speaks for both
    assert (run / "config.yaml").is_file() and (run / "metrics.csv").is_file()
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert checkpoint["global_step"] == 6
    assert [path.name for path in run.parent.iterdir()] == ["version_0"]
