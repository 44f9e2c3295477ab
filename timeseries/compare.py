"""Which encoding of time? The same network, data and seeds with each, and what learns nothing."""

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

from timeseries.runs import REFERENCES, is_finished, key_of, run

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "timeseries"
ENCODINGS = [
    "none",
    "sinusoidal",
    "learned",
    "rope_rows",
    "rope_time",
    "calendar",
    "calendar+rope_time",
]
DESCRIPTION = """Train the same network with each encoding on the same seeds, test it on every
window at the lookback trained at and at longer ones, and print a ranked table beside naive
forecasts and ridge regression. Finished runs are kept: interrupted, the same command goes on where
it stopped. Further options go to every run as they would to `fit`, for example
--trainer.max_epochs=5 or --data.lookback=96."""


def main(argv: list[str]) -> None:
    """Run the comparison.

    Args:
        argv: arguments, as on the command line.
    """
    options, overrides = _parse(argv)
    base, network, overlays = _configs(options)
    out = options.out or Path("runs") / "timeseries" / f"compare-{base.stem}"
    (out / "runs").mkdir(parents=True, exist_ok=True)
    references = {"forecast": REFERENCES, "seed": 0, "configs": [str(base)],
                  "overrides": _of_data(overrides)}  # fmt: skip
    tasks = [references] + [
        {"forecast": name, "seed": seed, "configs": [str(base), str(network), *map(str, paths)],
         "overrides": overrides}
        for seed in range(options.seeds)
        for name, paths in overlays.items()
    ]  # fmt: skip
    for task in tasks:
        task["path"] = str(out / "runs" / f"{task['forecast']}-{task['seed']}.json")
        task["key"] = key_of(task)
    todo = [task for task in tasks if not is_finished(task)]
    jobs = min(options.jobs or _jobs(), max(len(todo), 1))
    print(
        f"{len(overlays)} encodings x {options.seeds} seeds and baselines on {base.name}: "
        f"{len(todo)} runs to do, {len(tasks) - len(todo)} kept from before, {jobs} at a time",
        flush=True,
    )
    try:
        _work(todo, jobs)
    except KeyboardInterrupt:
        print(f"\ninterrupted; finished runs are kept in {out / 'runs'}: the same command goes on")
        sys.exit(130)
    _report(tasks, out, base.stem, shlex.join(["python", "-m", "timeseries", "compare", *argv]))


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        "python -m timeseries compare", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "-c", "--config", type=Path, default=CONFIGS / "seattle.yaml", metavar="BASE",
        help="data set and horizon; default: the embedded temperatures of Seattle",
    )  # fmt: skip
    parser.add_argument(
        "--encodings", nargs="+", default=ENCODINGS, metavar="NAME",
        help="overlays of configs/timeseries/encodings, or YAML files; A+B is both in different "
        f"slots; default: {' '.join(ENCODINGS)}",
    )  # fmt: skip
    parser.add_argument(
        "--network", default="small", metavar="NAME",
        help="overlay of configs/timeseries/networks, or a YAML file: network and budget; default: "
        "small, which is patches with a budget of seconds",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, help="runs per encoding; default: 3")
    parser.add_argument("--jobs", type=int, help="runs at a time; default: one per core, or GPU")
    parser.add_argument("--out", type=Path, help="default: runs/timeseries/compare-BASE")
    options, overrides = parser.parse_known_args(argv)
    if options.seeds < 1 or (options.jobs is not None and options.jobs < 1):
        parser.error("--seeds and --jobs must be at least 1")
    stray = [word for word in overrides if word.startswith("-") and "." not in word]
    if stray:
        parser.error(f"unknown options {' '.join(stray)}")
    return options, overrides


def _configs(options: argparse.Namespace) -> tuple[Path, Path, dict[str, list[Path]]]:
    if not options.config.is_file():
        sys.exit(f"--config: no file {options.config}")
    overlays = {}
    for name in options.encodings:
        parts = [name] if Path(name).is_file() else name.split("+")
        paths = [_overlay("encodings", part) for part in parts]
        # The base has encodings of its own: an overlay replaces all of them.
        overlays["+".join(path.stem for path in paths)] = [_overlay("encodings", "none"), *paths]
    return options.config, _overlay("networks", options.network, "network"), overlays


def _overlay(folder: str, name: str, option: str = "encodings") -> Path:
    known = {path.stem: path for path in sorted((CONFIGS / folder).glob("*.yaml"))}
    path = known.get(name, Path(name))
    if not path.is_file():
        sys.exit(f"--{option}: no {name!r}; there are {', '.join(known)}, or give a YAML file")
    return path


def _of_data(overrides: list[str]) -> list[str]:
    """Those options that say which data: baselines have no network to set anything of."""
    kept, ours = [], False
    for word in overrides:
        ours = word.startswith("--data") if word.startswith("-") else ours
        kept += [word] if ours else []
    return kept


def _jobs() -> int:
    import torch

    if torch.cuda.is_available():
        return 1
    # What this process may use, where the system tells.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(todo: list[dict[str, Any]], jobs: int) -> None:
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
    running: dict[Future, dict[str, Any]] = {pool.submit(run, task, queue): task for task in todo}
    while running:
        done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        shares.update(_news(queue))
        for future in done:
            task = running.pop(future)
            shares[task["forecast"], task["seed"]] = 1.0
            for result in future.result():
                bar.console.print(_line(result), highlight=False, soft_wrap=True)
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
    seed = f", seed {result['seed']}" if result["trained"] else ""
    errors = ", ".join(f"{s['mse']:.4g} at L={at}" for at, s in result["scores"].items())
    return f"{result['forecast']}{seed}: MSE {errors} ({result['seconds']:.0f} s)"


def _report(tasks: list[dict[str, Any]], out: Path, name: str, command: str) -> None:
    from timeseries import report, verdict

    files = [json.loads(Path(task["path"]).read_text(encoding="utf-8")) for task in tasks]
    results = [result for file in files for result in file["results"]]
    frame = report.frame(results)
    summary = report.summarise(frame)
    seeds = int(summary["seeds"].max())
    title = f"{name}: test errors by lookback, {seeds} seed{'s' if seeds > 1 else ''}"
    said = verdict.sentences(summary)
    why = report.reasons(results)
    frame.drop(columns="stretches").to_csv(out / "results.csv", index=False)
    text = f"# {title}\n\n{report.markdown(summary)}\n\n{why}{said}\n\nMade by `{command}`.\n"
    (out / "results.md").write_text(text, encoding="utf-8")
    report.picture(summary, title, out / "errors.png")
    report.show(summary, title)
    print(f"{why}{said}\n")
    for file in ("results.csv", "results.md", "errors.png"):
        print(out / file)
