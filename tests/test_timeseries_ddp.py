"""Two processes from the same command line: they train together, and count each window once."""

import csv
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
from made_series import Made

from timeseries.module import Forecaster

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs" / "timeseries"


def test_every_window_counts_once(tmp_path):
    data = Made(24, 6, rows=481)
    assert len(data.split.val) % 2 == 1  # one process has a window more
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    words = ["-c", CONFIGS / "seattle.yaml", "-c", CONFIGS / "networks" / "patches.yaml"]
    words += ["--trainer.accelerator=cpu", "--trainer.devices=2", "--trainer.strategy=ddp"]
    words += ["--data=made_series.Made", "--data.lookback=24", "--data.horizon=6"]
    words += ["--data.rows=481", "--model.network_args.patch=6", "--model.network_args.linear=true"]
    words += ["--trainer.enable_progress_bar=false", "--trainer.max_epochs=1"]
    words += ["--trainer.limit_train_batches=2", "--trainer.log_every_n_steps=1"]
    done = subprocess.run(
        [sys.executable, "-m", "timeseries", "fit", *words], cwd=tmp_path, capture_output=True,
        env={**environment, "MASTER_PORT": str(port)}, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("results: ") == 1  # the first process speaks for both
    (run,) = (tmp_path / "runs" / "timeseries" / "seattle").iterdir()
    with (run / "metrics.csv").open(newline="") as stream:
        (told,) = (float(row["val/mse"]) for row in csv.DictReader(stream) if row["val/mse"])
    model = Forecaster.load_from_checkpoint(run / "checkpoints" / "last.ckpt").eval()
    batch = data.split.val.__getitems__(list(range(len(data.split.val))))
    with torch.no_grad():
        error = model.point(batch) - batch.future
    assert told == pytest.approx(float(error.double().square().mean()), rel=1e-6)
