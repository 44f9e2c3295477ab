import os

# Before torch and the peers are imported: they read these once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MPLBACKEND"] = "Agg"

import random
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def seed():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def root():
    """The root of the clone."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data that ``POSENC_MM_DATA`` names; without it the test is skipped."""
    folder = os.environ.get("POSENC_MM_DATA")
    if not folder:
        pytest.skip("POSENC_MM_DATA is not set")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"POSENC_MM_DATA must name a folder, got {folder!r}")
    return path
