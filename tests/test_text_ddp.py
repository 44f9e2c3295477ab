"""Two processes from the same command line: they train together, and count each token once."""

import csv
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("lightning")
from text.data import Needles, TextFiles
from text.data.windows import Windows, collate, dealt_out
from text.module import LanguageModel

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs" / "text"
RUNS = Path("runs") / "text" / "file"
LENGTHS = [16, 40]
DDP = ["--trainer.accelerator=cpu", "--trainer.devices=2", "--trainer.strategy=ddp"]
QUIET = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
SMALL = ["--model.dim=16", "--model.depth=1", "--model.heads=2", "--model.dropout=0"]
SHORT = ["--trainer.max_epochs=1", "--trainer.log_every_n_steps=1", "--data.train_windows=10"]


def run(folder, command, *words):
    """As its user would, on a port that is free; returns what was printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    overlay = CONFIGS / "encodings" / "learned_alibi.yaml"
    words = ["-c", CONFIGS / "file.yaml", "-c", overlay, *DDP, *QUIET, *SMALL, *SHORT, *words]
    done = subprocess.run(
        [sys.executable, "-m", "text", command, *map(str, words)], cwd=folder, text=True,
        env={**environment, "MASTER_PORT": str(port)}, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def told(run, name):
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as stream:
        (value,) = (float(row[name]) for row in csv.DictReader(stream) if row.get(name))
    return value


def alone(model, corpus, length):
    """The mean loss over each token of a split once, window by window, in one process."""
    windows = Windows(corpus, length, [(0, len(corpus.tokens))])
    assert len(windows) % 2 == 1  # one process has a window more
    losses = []
    for window in windows:
        batch = collate([window])
        with torch.no_grad():
            logits = model(batch.tokens[:, :-1], batch.positions)[0].double()
        losses.append(F.cross_entropy(logits, window.tokens[1:], reduction="none")[window.counted])
    losses = torch.cat(losses)
    assert len(losses) == len(corpus.tokens) - 1
    return float(losses.mean())


def test_every_token_counts_once(tmp_path):
    words = random.Random(0).choices(["what", "was", "said", "is", "so", "Ω", "it\n"], k=1555)
    path = tmp_path / "text.txt"
    path.write_text(" ".join(words) + "ß" * 20, encoding="utf-8")
    given = [f"--data.path={path}", "--data.length=16", "--data.batch_size=4"]
    given += ["--data.vocabulary=characters"]
    printed = run(tmp_path, "fit", *given)
    first, second, third = (tmp_path / RUNS / f"version_{number}" for number in range(3))
    assert printed.count("results: ") == 1  # the first process speaks for both
    last = first / "checkpoints" / "last.ckpt"
    model = LanguageModel.load_from_checkpoint(last).double().eval()
    data = TextFiles(str(path), length=16, test_length=LENGTHS, vocabulary="characters")
    assert told(first, "val/loss") == pytest.approx(alone(model, data.corpus("val"), 16), rel=1e-5)

    tested = [*given, f"--data.test_length={LENGTHS}", "--ckpt_path", last]
    printed = run(tmp_path, "test", *tested)
    assert printed.count("are not in the training text") == 1
    corpus = data.corpus("test")
    for length, name in zip(LENGTHS, ("test/loss", "test/loss_40"), strict=True):
        wanted = alone(model, corpus, length)
        assert told(second, name) == pytest.approx(wanted, rel=1e-5)

    printed = run(tmp_path, "predict", *tested)
    assert f"predictions: {(RUNS / third.name / 'predictions-*.csv')}" in printed
    seen = {length: [] for length in LENGTHS}
    for each in third.glob("predictions-?.csv"):
        with each.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                seen[int(row["length"])].append(int(row["index"]))
    assert len(list(third.glob("predictions-?.csv"))) == 2
    for indices in seen.values():
        assert sorted(indices) == list(range(1, len(corpus.tokens)))


def test_one_process_evaluates_alone_and_each_of_several_has_something(monkeypatch):
    batches = Needles(length=16, batch_size=4, eval_windows=12).val_dataloader().dataset
    assert dealt_out(batches) is None and len(batches) == 3
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    shares = []
    for rank in range(2):
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda *_: 2)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda *_, rank=rank: rank)
        loader = Needles(length=16, batch_size=4, eval_windows=12).val_dataloader()
        shares.append(list(loader.sampler))
    assert shares == [[0, 2], [1]]
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda *_: 4)
    assert dealt_out(batches) is None
