"""Finished stages, kept on disk and taken up again where nothing has changed."""

import argparse
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from timeseries.forecasting.telling import Telling

# What changes neither a model nor its errors.
_FREE = ("level", "least", "out", "again", "future")
_ROOT = Path(__file__).resolve().parents[2]


def key_of(options: argparse.Namespace) -> str:
    """Tell apart what comes to another result: data, options, versions and programs."""
    given = {name: str(value) for name, value in sorted(vars(options).items())}
    for name in _FREE:
        given.pop(name)
    digest = hashlib.sha256(repr((given, torch.__version__)).encode())
    digest.update(options.path.read_bytes())
    for package in ("posenc_mm", "timeseries"):
        for file in sorted((_ROOT / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


class Stages:
    """Results by name, as long as the key is the same.

    Args:
        folder: to keep them in.
        key: of :func:`key_of`.
        again: use none of before.
        telling: who tells.
    """

    def __init__(self, folder: Path, key: str, again: bool, telling: Telling) -> None:
        self.folder, self.key, self.again, self.telling = folder, key, again, telling
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, name: str, make: Callable[[], Any]) -> Any:
        """Take what was kept, or make and keep it.

        Args:
            name: of the stage.
            make: its result, of tensors, numbers, text, lists and dictionaries.
        """
        path = self.folder / f"{name}.pt"
        if not self.again and (kept := self._read(path)) is not None:
            self.telling.find(f"{name}: kept from before, as nothing has changed (--again)")
            return kept
        result = make()
        part = path.with_suffix(".part")
        torch.save({"key": self.key, "result": result}, part)
        os.replace(part, path)
        return result

    def _read(self, path: Path) -> Any:
        if not path.is_file():
            return None
        try:
            kept = torch.load(path, weights_only=True)
        except Exception:  # whatever is wrong with it, it is made again
            return None
        return kept["result"] if kept.get("key") == self.key else None
