"""One run of a comparison: train an encoding with a seed, test it at every size, write it down."""

import hashlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

FACTORS = (1.0, 1.5, 2.0)


def train_one(task: dict[str, Any], progress: Any = None) -> dict[str, Any]:
    """Train one encoding with one seed, test it at every size, and write down what came out.

    Args:
        task: ``encoding``, ``seed``, ``configs``, ``overrides``, ``key`` and the ``path`` to write.
        progress: a queue that takes ``(encoding, seed, share done)`` after each epoch.

    Returns:
        What was written.
    """
    import torch
    from lightning.pytorch.callbacks import LambdaCallback

    from vision.cli import build

    for logger in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    if progress is not None:
        torch.set_num_threads(1)
    name, seed = task["encoding"], task["seed"]
    arguments = [f"--config={config}" for config in task["configs"]]
    arguments += [f"--seed_everything={seed}", "--trainer.logger=false"]
    arguments += ["--trainer.callbacks=null", "--trainer.enable_checkpointing=false"]
    arguments += ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    cli = build([*arguments, *task["overrides"]])
    trainer, model, data = cli.trainer, cli.model, cli.datamodule
    sizes = _sizes(data.size, model)
    data.test_sizes = [(size, size) for size in sizes]

    def tell(trainer: Any, _: Any) -> None:
        if progress is not None:
            done = (trainer.current_epoch + 1) / max(trainer.max_epochs or 1, 1)
            progress.put((name, seed, min(done, 1.0)))

    trainer.callbacks.append(LambdaCallback(on_train_epoch_end=tell))
    start = time.perf_counter()
    trainer.fit(model, datamodule=data)
    seconds = time.perf_counter() - start
    scores: dict[str, float] = {}
    for tested in trainer.test(model, datamodule=data, verbose=False):
        scores.update(tested)
    accuracy = {
        size: scores["test/accuracy" + ("" if (size, size) == data.size else f"_{size}")]
        for size in sizes
    }
    result = {
        "key": task["key"], "encoding": name, "seed": seed, "seconds": seconds,
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "train_size": data.size[0], "test_images": len(data.split.test),
        "accuracy": accuracy, "slots": model.encodings,
    }  # fmt: skip
    path = Path(task["path"])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    os.replace(part, path)
    return result


def key_of(task: dict[str, Any]) -> str:
    """Name the configuration of a run: a result is kept only while all of it is the same."""
    texts = [Path(config).read_text(encoding="utf-8") for config in task["configs"]]
    parts = [*texts, task["encoding"], task["seed"], task["overrides"]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def is_finished(task: dict[str, Any]) -> bool:
    """Whether a result with this very key lies at the task's path."""
    path = Path(task["path"])
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["key"] == task["key"]


def _sizes(size: tuple[int, int], model: Any) -> list[int]:
    """The size trained at, and larger ones in whole patches."""
    if size[0] != size[1]:
        sys.exit(f"compare needs square images, the data have size={size}")
    patch = model.network.patch_embed.patch_size[0]
    return sorted({max(size[0], round(size[0] * factor / patch) * patch) for factor in FACTORS})
