"""How far can a trained language model read, by which method? Measured on your text."""

import hashlib
import json
import math
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from text.stretching.asking import SHORT, parse


def main(argv: list[str]) -> None:
    """Run the command.

    Args:
        argv: arguments, as on the command line.
    """
    options = parse(argv)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    stem = re.sub(r"\W+", "_", options.checkpoint.stem).strip("_")
    out = options.out or Path("runs") / "text" / f"extend-{stem}"
    try:
        _run(options, out, shlex.join(["python", "-m", "text", "extend", *argv]), console)
    except KeyboardInterrupt:
        print(f"\ninterrupted; what is measured is kept in {out}: the same command goes on")
        sys.exit(130)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


def _run(options: Any, out: Path, command: str, console: Any) -> None:
    from text.stretching import reporting
    from text.stretching.preparing import prepare

    study = prepare(options)
    tasks = tasks_of(options, study, out)
    (out / "runs").mkdir(parents=True, exist_ok=True)
    todo = [task for task in tasks if not _finished(task)]
    shape, spans = study.opened.decoder.shape, study.spans
    console.print(
        f"{options.checkpoint.name}: {shape.depth} layers, {shape.heads} heads of "
        f"{shape.head_dim}, trained on {study.opened.length} tokens"
    )
    console.print(
        "tokens " + ", ".join(f"{a:,} to {b - 1:,} to {name} on" for name, (a, b) in spans.items())
    )
    console.print(
        f"{len(tasks)} measurements: {len(todo)} to do, {len(tasks) - len(todo)} kept from before"
    )
    _measure(options, study, todo, out, console)
    results = [json.loads(task["path"].read_text(encoding="utf-8")) for task in tasks]
    reporting.report(results, study, options, out, command, console)


def tasks_of(options: Any, study: Any, out: Path) -> list[dict[str, Any]]:
    """List what is to be measured.

    Args:
        options: as parsed.
        study: the decoder and the text.
        out: folder of results.

    Returns:
        Tasks: a row, the method and factor of its reading, and the length of windows.
    """
    largest, tuned = options.factors[-1], options.tune_factor
    cells = [("untrained", "none", 1.0, 1.0)]
    for method in options.methods:
        cells += [("untrained", method, factor, factor) for factor in options.factors[1:]]
        # What a method for long texts costs on short ones.
        cells += [("untrained", method, largest, 1.0)] if method != "none" else []
    for method in options.tune:
        cells += [("tuned", method, tuned, factor) for factor in options.factors]
    return [_task(options, study, out, *cell) for cell in dict.fromkeys(cells)]


def _task(
    options: Any, study: Any, out: Path, kind: str, method: str, factor: float, at: float
) -> dict[str, Any]:
    parts: list[Any] = [study.key, kind, method, factor, study.lengths[at], max(options.factors)]
    searching = [study.key, factor, options.search_budget, options.search_windows, options.seed]
    training = [study.key, method, factor, options.steps, options.minutes, options.lr, options.seed]
    if method == "search":
        parts += searching
        training += searching
    if kind == "tuned":
        parts += training
    return {
        "kind": kind, "method": method, "factor": factor, "length": study.lengths[at],
        "key": _hash(parts), "training": _hash(training),
        "path": out / "runs" / f"{kind}-{method}-{factor:g}-{study.lengths[at]}.json",
        "trials": out / "search" / f"{factor:g}-{_hash(searching)}.json",
        "weights": out / "trained" / f"{method}.pt",
    }  # fmt: skip


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _finished(task: dict[str, Any]) -> bool:
    path = task["path"]
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["key"] == task["key"]


def _measure(options: Any, study: Any, todo: list[dict[str, Any]], out: Path, console: Any) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from text.stretching.measuring import Kept, curve, measure
    from text.stretching.preparing import ends_of

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    ends = ends_of(study.parts["test"], max(study.lengths.values()), options.windows)
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        line = bar.add_task("measuring", total=len(todo))
        models: dict[str, Any] = {}
        for number, task in enumerate(todo):
            start = time.perf_counter()
            name = f"{task['method']} x{task['factor']:g} at {task['length']} tokens"
            name += ", trained" if task["kind"] == "tuned" else ""
            bar.update(line, description=name)
            reading = _reading(options, study, task, bar)
            decoder, told = study.opened.decoder, {}
            if task["kind"] == "tuned":
                if task["method"] not in models:
                    models = {task["method"]: _trained(options, study, task, reading, bar)}
                decoder, told = models[task["method"]]

            def tell(share: float, done: int = number) -> None:
                bar.update(line, completed=done + share)

            kept = Kept(task["path"].with_suffix(".pt"), task["key"])
            found = measure(decoder, study, reading, "test", ends, task["length"], tell, kept)
            tails = found[:, -options.tail :].mean(1).tolist()
            loss = sum(tails) / len(tails)
            result = {
                **{key: task[key] for key in ("key", "kind", "method", "factor", "length")},
                "loss": loss, "perplexity": math.exp(loss), "tails": tails,
                "curve": curve(found), "reading": str(reading), **told,
                "seconds": time.perf_counter() - start,
            }  # fmt: skip
            _write(task["path"], result)
            kept.path.unlink()
            bar.console.print(f"{name}: {loss:.3f}")


def _reading(options: Any, study: Any, task: dict[str, Any], bar: Any) -> Any:
    from text.stretching.methods import SEARCH, reading_of
    from text.stretching.reading import Reading
    from text.stretching.searching import searched

    settings, length = study.opened.settings, study.opened.length
    if task["method"] == SHORT:
        return Reading(settings.scaling, window=length)
    if task["method"] != SEARCH:
        return reading_of(task["method"], task["factor"], length, settings)
    line = bar.add_task(f"searching for x{task['factor']:g}", total=1.0)
    found = searched(
        study,
        options,
        task["factor"],
        task["trials"],
        lambda share: bar.update(line, completed=share),
    )
    bar.remove_task(line)
    return found


def _trained(
    options: Any, study: Any, task: dict[str, Any], reading: Any, bar: Any
) -> tuple[Any, dict[str, Any]]:
    """Train for a row, or take its weights from where an interrupted command left them."""
    import copy

    import torch

    from text.stretching.tuning import tune

    path, name = task["weights"], task["method"]
    if path.is_file():
        kept = torch.load(path, map_location=study.device, weights_only=True)
        if kept["key"] == task["training"]:
            decoder = copy.deepcopy(study.opened.decoder)
            decoder.load_state_dict(kept["state"])
            return decoder, kept["told"]
    line = bar.add_task(f"training with {name}", total=1.0)

    def tell(share: float, loss: float) -> None:
        bar.update(line, completed=share, description=f"training with {name}, loss {loss:.2f}")

    at = 1.0 if name == SHORT else task["factor"]
    decoder, told = tune(study, reading, study.lengths[at], options, tell)
    bar.remove_task(line)
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    torch.save({"key": task["training"], "state": decoder.state_dict(), "told": told}, part)
    os.replace(part, path)
    return decoder, told


def _write(path: Path, result: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result), encoding="utf-8")
    os.replace(part, path)
