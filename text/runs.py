"""One run of a comparison: train an encoding with a seed, read longer and longer, write it down."""

import hashlib
import json
import logging
import os
import platform
import time
from pathlib import Path
from typing import Any


def train_one(task: dict[str, Any], progress: Any = None) -> dict[str, Any]:
    """Train one encoding with one seed, score it at every length, and write down what came out.

    Args:
        task: ``encoding``, ``seed``, ``configs``, ``overrides``, ``factors``, ``key`` and the
            ``path`` to write.
        progress: a queue that takes ``(encoding, seed, share done)`` after each epoch.

    Returns:
        What was written.
    """
    from text.scoring import score

    model, data, seconds = train(task, progress)
    data.test_lengths = [data.length * factor for factor in task["factors"]]
    scores: dict[int, dict[str, Any]] = {}
    for length, loader in zip(data.test_lengths, data.test_dataloader(), strict=True):
        refusal = model.network.refusal(length)
        if refusal is not None:
            scores[length] = {"refusal": refusal}
            continue
        found = score(model, loader)
        scores[length] = {
            "loss": found.loss, "perplexity": found.perplexity,
            "bits_per_byte": found.bits_per_byte, "tokens": len(found.losses),
            "curve": found.curve(), "stretches": found.stretches(),
        }  # fmt: skip
    result = {
        "key": task["key"], "encoding": task["encoding"], "seed": task["seed"],
        "seconds": seconds, "parameters": parameters_of(model), "train_length": data.length,
        "scores": scores, "slots": model.encodings,
    }  # fmt: skip
    write(result, Path(task["path"]))
    return result


def train(task: dict[str, Any], progress: Any = None) -> tuple[Any, Any, float]:
    """Train one encoding with one seed.

    Args:
        task: ``encoding``, ``seed``, ``configs`` and ``overrides``.
        progress: a queue that takes ``(encoding, seed, share done)`` after each epoch.

    Returns:
        The model, its data and the seconds that the training took.
    """
    import torch
    from lightning.pytorch.callbacks import LambdaCallback

    from text.cli import build

    for logger in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    if progress is not None:
        torch.set_num_threads(1)
    name, seed = task["encoding"], task["seed"]
    arguments = [f"--config={config}" for config in task["configs"]]
    arguments += [f"--seed_everything={seed}", "--trainer.logger=false"]
    arguments += ["--trainer.callbacks=null", "--trainer.enable_checkpointing=false"]
    arguments += ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    # Between epochs nothing is chosen: what is trained last is what counts.
    arguments += ["--trainer.limit_val_batches=0", "--trainer.num_sanity_val_steps=0"]
    cli = build([*arguments, *task["overrides"]])

    def tell(trainer: Any, _: Any) -> None:
        if progress is not None:
            done = (trainer.current_epoch + 1) / max(trainer.max_epochs or 1, 1)
            progress.put((name, seed, min(done, 1.0)))

    cli.trainer.callbacks.append(LambdaCallback(on_train_epoch_end=tell))
    start = time.perf_counter()
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    return cli.model, cli.datamodule, time.perf_counter() - start


def parameters_of(model: Any) -> int:
    """Count the numbers that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def write(result: dict[str, Any], path: Path) -> None:
    """Write a result, whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    os.replace(part, path)


def key_of(task: dict[str, Any]) -> str:
    """Name the configuration of a run: a result is kept only while all of it is the same."""
    texts = [Path(config).read_text(encoding="utf-8") for config in task["configs"]]
    asked = {name: value for name, value in task.items() if name not in ("key", "path", "configs")}
    # Another Python has another standard library, and a file may have another text by now.
    named = [Path(word.partition("=")[2] or word) for word in task["overrides"]]
    stamps = [path.stat().st_mtime_ns for path in named if path.is_file()]
    parts = [texts, asked, stamps, platform.python_version()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def is_finished(task: dict[str, Any]) -> bool:
    """Whether a result with this very key lies at the task's path."""
    path = Path(task["path"])
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["key"] == task["key"]
