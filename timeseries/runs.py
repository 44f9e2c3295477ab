"""One run of a comparison: train a network or measure references, test them, write it down."""

import copy
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from timeseries.data import Batch, Forecasting

FACTORS = (1.0, 1.5, 2.0)
REFERENCES = "references"
QUIET = [
    "--trainer.logger=false",
    "--trainer.callbacks=null",
    "--trainer.enable_checkpointing=false",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]


def run(task: dict[str, Any], progress: Any = None) -> list[dict[str, Any]]:
    """Do a task and write down what came out.

    Args:
        task: ``forecast`` (a name, or :data:`REFERENCES`), ``seed``, ``configs``, ``overrides``,
            ``key`` and the ``path`` to write.
        progress: a queue that takes ``(forecast, seed, share done)``.

    Returns:
        A result per forecast, as written.
    """
    import torch

    for logger in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    if progress is not None:
        torch.set_num_threads(1)

    def tell(share: float) -> None:
        if progress is not None:
            progress.put((task["forecast"], task["seed"], min(share, 1.0)))

    results = _references(task, tell) if task["forecast"] == REFERENCES else [_train(task, tell)]
    path = Path(task["path"])
    part = path.with_suffix(".part")
    text = json.dumps({"key": task["key"], "results": results}, indent=1)
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
    return results


def key_of(task: dict[str, Any]) -> str:
    """Name the configuration of a run: a result is kept only while all of it is the same."""
    texts = [Path(config).read_text(encoding="utf-8") for config in task["configs"]]
    parts = [*texts, task["forecast"], task["seed"], task["overrides"]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def is_finished(task: dict[str, Any]) -> bool:
    """Whether a result with this very key lies at the task's path."""
    path = Path(task["path"])
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["key"] == task["key"]


def at_lookback(data: Forecasting, lookback: int) -> Forecasting:
    """Show the same windows of the test with another lookback.

    Args:
        data: series.
        lookback: rows to see.

    Returns:
        The series with that lookback.

    Raises:
        ValueError: they are too short for it, or some of them.
    """
    if lookback == data.lookback:
        return data
    other = data.at_lookback(lookback)
    if other.counts["test"] != data.counts["test"]:
        raise ValueError("some series are too short for it")
    return other


@contextmanager
def seeing(model: Any, lookback: int) -> Iterator[None]:
    """Have a trained network see more rows, or fewer; its positions are all that changes.

    Args:
        model: a ``Forecaster``.
        lookback: rows to see.

    Raises:
        ValueError: it has weights for each row that it sees.
    """
    from timeseries.networks import Patches

    network = model.network
    trained = network.shape
    if lookback != trained.lookback and not (isinstance(network, Patches) and not network.linear):
        raise ValueError("the network has weights for each row that it sees")
    network.shape = trained._replace(lookback=lookback)
    try:
        yield
    finally:
        network.shape = trained


def _train(task: dict[str, Any], tell: Callable[[float], None]) -> dict[str, Any]:
    """Train an encoding with a seed, and test it as it was best in validation."""
    from lightning.pytorch.callbacks import LambdaCallback

    from timeseries.scores import evaluate

    cli = _build(task["configs"], [f"--seed_everything={task['seed']}", *task["overrides"]])
    trainer, model, data = cli.trainer, cli.model, cli.datamodule
    best: dict[str, Any] = {"mse": float("inf"), "weights": None}

    def keep(trainer: Any, model: Any) -> None:
        if not trainer.sanity_checking and trainer.callback_metrics["val/mse"] < best["mse"]:
            best["mse"] = float(trainer.callback_metrics["val/mse"])
            best["weights"] = copy.deepcopy(model.state_dict())

    def follow(trainer: Any, _: Any) -> None:
        tell((trainer.current_epoch + 1) / max(trainer.max_epochs or 1, 1))

    trainer.callbacks.append(LambdaCallback(on_train_epoch_end=follow, on_validation_end=keep))
    start = time.perf_counter()
    trainer.fit(model, datamodule=data)
    seconds = time.perf_counter() - start
    if best["weights"] is not None:
        model.load_state_dict(best["weights"])
    model.eval().to(trainer.strategy.root_device)
    scores, why = {}, {}
    for lookback in _lookbacks(data):
        try:
            with seeing(model, lookback):
                other = at_lookback(data, lookback)
                scores[lookback] = evaluate(other, model.point, model.device)._asdict()
        except ValueError as error:
            if lookback == data.lookback:
                raise
            why[lookback] = str(error)
    return {
        "forecast": task["forecast"], "trained": True, "seed": task["seed"], "seconds": seconds,
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "lookback": data.lookback, "scores": scores, "why": why, "slots": model.encodings,
    }  # fmt: skip


def _references(task: dict[str, Any], tell: Callable[[float], None]) -> list[dict[str, Any]]:
    """Measure what is not trained step by step: baselines, and linear networks solved for."""
    from timeseries.baselines import baselines
    from timeseries.scores import evaluate

    cli = _build(task["configs"], task["overrides"])
    data = cli.datamodule
    rows: dict[str, dict[str, Any]] = {}
    for lookback in _lookbacks(data):
        try:
            other = at_lookback(data, lookback)
        except ValueError:
            continue
        for name, forecast in baselines(other).items():
            scores = evaluate(other, forecast)._asdict()
            row = rows.setdefault(name, {"scores": {}, "seconds": 0.0, "parameters": 0})
            row["scores"][lookback] = scores
    rows |= _solved(cli.model.network, data, tell)
    # A longer lookback may have a season that the shorter one does not have.
    rows = {name: row for name, row in rows.items() if data.lookback in row["scores"]}
    shared = {"trained": False, "seed": 0, "lookback": data.lookback, "why": {}}
    return [{"forecast": name, **shared, **row} for name, row in rows.items()]


def _solved(
    own: Any, data: Forecasting, tell: Callable[[float], None]
) -> dict[str, dict[str, Any]]:
    """Ridge regression, without encodings and with those of the base if its network is linear."""
    from timeseries.networks import Linear, Shape
    from timeseries.ridge import solve
    from timeseries.scores import evaluate

    shape = Shape(data.lookback, data.horizon, data.variates, data.known_width)
    networks = {"ridge": Linear(shape)}
    if isinstance(own, Linear) and own.encode is not None:
        networks["ridge + encoding"] = own
    rows = {}
    for done, (name, network) in enumerate(networks.items()):
        start = time.perf_counter()
        solve(
            network, data.split.train, data.split.val,
            tell=lambda share, done=done: tell((done + share) / len(networks)),
        )  # fmt: skip
        seconds = time.perf_counter() - start
        scores = evaluate(data, lambda batch, net=network: net(*_inputs(batch))[..., 0])
        parameters = sum(p.numel() for p in network.parameters())
        scores = {data.lookback: scores._asdict()}
        rows[name] = {"scores": scores, "seconds": seconds, "parameters": parameters}
    return rows


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return batch.past, batch.moments, batch.known


def _build(configs: Sequence[str], arguments: Sequence[str]) -> Any:
    from timeseries.cli import build

    return build([*(f"--config={config}" for config in configs), *QUIET, *arguments])


def _lookbacks(data: Forecasting) -> list[int]:
    """The lookback trained at, and longer ones."""
    return sorted({round(data.lookback * factor) for factor in FACTORS})
