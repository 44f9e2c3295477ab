"""A comparison that is killed leaves no process behind that goes on training."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("lightning")

ROOT = Path(__file__).resolve().parents[1]
SLOW = """
import os, pathlib, time

def run(task, queue):
    pathlib.Path(task["path"]).write_text(str(os.getpid()))
    time.sleep(600)
"""
COMPARE = """
import slow
from {application} import compare

if __name__ == "__main__":
    compare.{work[0]} = slow.run
    compare.{work[1]}([{{"forecast": "none", "encoding": "none", "seed": 0, "path": "pid"}}], 1)
"""


def alive(pid):
    """Whether it runs: who was left to another process may not be fetched by it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(holds, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not holds():
        time.sleep(0.05)
    return holds()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="takes /proc to list processes")
@pytest.mark.parametrize(
    ("application", "work", "kill"),
    [
        ("timeseries", ("run", "_work"), signal.SIGTERM),
        ("vision", ("train_one", "_train"), signal.SIGKILL),
    ],
)
def test_no_process_outlives_the_comparison(application, work, kill, tmp_path):
    if importlib.util.find_spec(application) is None:
        pytest.skip(f"{application} is not here")
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "main.py").write_text(COMPARE.format(application=application, work=work))
    process = subprocess.Popen(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    children = []
    try:
        written = tmp_path / "pid"
        assert wait_for(lambda: written.is_file() and written.read_text(), 120)
        own = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        children = [int(pid) for pid in own]
        # The one that trains, and the one that passes on how far it is.
        assert int(written.read_text()) in children and len(children) >= 2
        process.send_signal(kill)
        process.wait(10)
        assert wait_for(lambda: not any(map(alive, children)), 20)
    finally:
        for pid in filter(alive, [process.pid, *children]):
            os.kill(pid, signal.SIGKILL)
        process.wait(10)
