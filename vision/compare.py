"""Which encoding? The same network, data and seeds with each of them, at this size and beyond."""

import argparse
import json
import multiprocessing
import os
import shlex
import signal
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.managers import SyncManager
from pathlib import Path
from queue import Empty
from typing import Any

from vision.runs import is_finished, key_of, train_one

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "vision"
ENCODINGS = [
    "none",
    "learned",
    "sinusoidal",
    "axial_rope",
    "mixed_rope",
    "relative_bias",
    "alibi_2d",
]  # fmt: skip
DESCRIPTION = """Train the same network with each encoding on the same seeds, test it at the image
size trained at and beyond, and print a ranked table. Finished runs are kept: interrupted, the same
command goes on where it stopped. Further options go to every run as they would to `fit`, for
example --trainer.max_epochs=5 or --data.batch_size=64."""


def main(argv: list[str]) -> None:
    """Run the comparison.

    Args:
        argv: arguments, as on the command line.
    """
    options, overrides = _parse(argv)
    base, overlays = _configs(options)
    out = options.out or Path("runs") / "vision" / f"compare-{base.stem}"
    (out / "runs").mkdir(parents=True, exist_ok=True)
    tasks = [
        {"encoding": name, "seed": seed, "path": str(out / "runs" / f"{name}-{seed}.json"),
         "configs": [str(base), str(overlay)], "overrides": overrides}
        for seed in range(options.seeds)
        for name, overlay in overlays.items()
    ]  # fmt: skip
    for task in tasks:
        task["key"] = key_of(task)
    todo = [task for task in tasks if not is_finished(task)]
    jobs = min(options.jobs or _jobs(), max(len(todo), 1))
    print(
        f"{len(overlays)} encodings x {options.seeds} seeds on {base.name}: {len(todo)} runs to "
        f"train, {len(tasks) - len(todo)} kept from before, {jobs} at a time",
        flush=True,
    )
    try:
        _train(todo, jobs)
    except KeyboardInterrupt:
        print(f"\ninterrupted; finished runs are kept in {out / 'runs'}: the same command goes on")
        sys.exit(130)
    _report(tasks, out, base.stem, shlex.join(["python", "-m", "vision", "compare", *argv]))


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        "python -m vision compare", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "-c", "--config", type=Path, default=CONFIGS / "digits.yaml", metavar="BASE",
        help="data set, network and budget; default: the embedded digits",
    )  # fmt: skip
    parser.add_argument(
        "--encodings", nargs="+", default=ENCODINGS, metavar="NAME",
        help=f"overlays of configs/vision/encodings, or YAML files; default: {' '.join(ENCODINGS)}",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, help="runs per encoding; default: 3")
    parser.add_argument("--jobs", type=int, help="runs at a time; default: one per core, or GPU")
    parser.add_argument("--out", type=Path, help="default: runs/vision/compare-BASE")
    options, overrides = parser.parse_known_args(argv)
    if options.seeds < 1 or (options.jobs is not None and options.jobs < 1):
        parser.error("--seeds and --jobs must be at least 1")
    stray = [word for word in overrides if word.startswith("-") and "." not in word]
    if stray:
        parser.error(f"unknown options {' '.join(stray)}")
    return options, overrides


def _configs(options: argparse.Namespace) -> tuple[Path, dict[str, Path]]:
    known = {path.stem: path for path in sorted((CONFIGS / "encodings").glob("*.yaml"))}
    overlays = {}
    for name in options.encodings:
        path = known.get(name, Path(name))
        if not path.is_file():
            sys.exit(f"--encodings: no {name!r}; there are {', '.join(known)}, or give a YAML file")
        overlays[path.stem] = path
    if not options.config.is_file():
        sys.exit(f"--config: no file {options.config}")
    return options.config, overlays


def _jobs() -> int:
    import torch

    if torch.cuda.is_available():
        return 1
    # What this process may use, where the system tells.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _train(todo: list[dict[str, Any]], jobs: int) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if not todo:
        return
    context = multiprocessing.get_context("spawn")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    manager = SyncManager(ctx=context)
    manager.start(_depend)
    with manager, Progress(*columns, TimeElapsedColumn()) as bar:
        pool = ProcessPoolExecutor(jobs, context, initializer=_depend)
        try:
            _follow(pool, todo, manager.Queue(), bar)
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


def _depend() -> None:
    """Leave it to the parent to be interrupted, and end with it, however it ends."""
    # At the keyboard the parent ends the others: they would only print where they were.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _follow(pool: ProcessPoolExecutor, todo: list[dict[str, Any]], queue: Any, bar: Any) -> None:
    """Show how far the runs are, and each result as it comes."""
    line = bar.add_task("training", total=len(todo))
    shares: dict[tuple[str, int], float] = {}
    running: set[Future] = {pool.submit(train_one, task, queue) for task in todo}
    while running:
        done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        shares.update(_news(queue))
        for future in done:
            result = future.result()
            shares[result["encoding"], result["seed"]] = 1.0
            bar.console.print(_line(result), highlight=False)
        bar.update(line, completed=sum(shares.values()))


def _news(queue: Any) -> dict[tuple[str, int], float]:
    shares = {}
    while True:
        try:
            name, seed, share = queue.get_nowait()
        except Empty:
            return shares
        shares[name, seed] = share


def _line(result: dict[str, Any]) -> str:
    accuracies = ", ".join(f"{100 * a:.1f} % at {s} px" for s, a in result["accuracy"].items())
    return f"{result['encoding']}, seed {result['seed']}: {accuracies} ({result['seconds']:.0f} s)"


def _report(tasks: list[dict[str, Any]], out: Path, name: str, command: str) -> None:
    import pandas as pd

    from vision import report

    results = [json.loads(Path(task["path"]).read_text(encoding="utf-8")) for task in tasks]
    frame = pd.DataFrame(
        {"encoding": r["encoding"], "seed": r["seed"], "size": int(size), "accuracy": accuracy,
         "seconds": round(r["seconds"], 2), "parameters": r["parameters"]}
        for r in results
        for size, accuracy in r["accuracy"].items()
    )  # fmt: skip
    summary = report.summarise(frame)
    size, images = results[0]["train_size"], results[0]["test_images"]
    seeds = int(summary["seeds"].min())
    title = f"{name}: test accuracy by image size, {seeds} seed{'s' if seeds > 1 else ''}"
    verdict = report.sentence(summary, size, images)
    frame.to_csv(out / "results.csv", index=False)
    text = f"# {title}\n\n{report.markdown(summary)}\n\n{verdict}\n\nMade by `{command}`.\n"
    (out / "results.md").write_text(text, encoding="utf-8")
    report.picture(summary, size, title, out / "accuracy.png")
    report.show(summary, title)
    print(f"{verdict}\n")
    for file in ("results.csv", "results.md", "accuracy.png"):
        print(out / file)
