"""Which positions? The same model, rows and seeds with each design, as trained and otherwise."""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from multimodal.designs import DESIGNS
from multimodal.runs import is_finished, key_of, run
from multimodal.working import work

DESCRIPTION = """Train the same transformer with each position design on the same rows of spoken
digits, pictures of digits and questions, ask it under conditions that it was not trained with, and
print a table. Finished runs are kept: interrupted, the same command goes on where it stopped."""


def main(argv: list[str]) -> None:
    """Run the comparison.

    Args:
        argv: arguments, as on the command line.
    """
    options = parse(argv)
    out: Path = options.out
    try:
        prepare(options.data)
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    (out / "runs").mkdir(parents=True, exist_ok=True)
    tasks = tasks_of(options)
    todo = [task for task in tasks if not is_finished(task)]
    jobs = min(options.jobs or _cores(), max(len(todo), 1))
    print(
        f"{len(options.designs)} designs x {options.seeds} seeds: {len(todo)} runs to train, "
        f"{len(tasks) - len(todo)} kept from before, {jobs} at a time",
        flush=True,
    )
    try:
        work(run, todo, jobs, _line)
    except KeyboardInterrupt:
        print(f"\ninterrupted; finished runs are kept in {out / 'runs'}: the same command goes on")
        sys.exit(130)
    _report(tasks, out, shlex.join(["python", "-m", "multimodal", "compare", *argv]))


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line.

    Args:
        argv: arguments behind ``python -m multimodal compare``.

    Returns:
        What was asked for.
    """
    parser = argparse.ArgumentParser(
        "python -m multimodal compare", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS), metavar="NAME",
        help=f"default: {' '.join(DESIGNS)}",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, help="runs per design; default: 3")
    parser.add_argument("--jobs", type=int, help="runs at a time; default: one per core")
    parser.add_argument(
        "--data", metavar="PATH",
        help="recordings, an archive or a folder; default: $POSENC_MM_DATA, then data, where they "
        "are downloaded to",
    )  # fmt: skip
    parser.add_argument(
        "--validate", action="store_true", help="ask about recordings and pictures kept for tuning"
    )
    for name, value, said in (
        ("steps", 400, "of the training"), ("batch", 32, "rows of a step"),
        ("rows", 1536, "to train on"), ("test-rows", 150, "of each condition"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{said}; default: {value}")
    parser.add_argument("--out", type=Path, default=Path("runs") / "multimodal" / "compare")
    options = parser.parse_args(argv)
    counts = ("seeds", "steps", "batch", "rows", "test_rows")
    if min(*(getattr(options, name) for name in counts), options.jobs or 1) < 1:
        parser.error("numbers must be at least 1")
    return options


def prepare(path: str | None) -> None:
    """See to it that recordings are here before any run needs them."""
    from multimodal import data

    if data.find(path) is None:
        data.download(path)


def tasks_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """List the runs: each design with each seed."""
    tasks: list[dict[str, Any]] = [
        {"design": name, "seed": seed, "data": options.data,
         "part": "validation" if options.validate else "test", "steps": options.steps,
         "batch": options.batch, "rows": options.rows, "test_rows": options.test_rows,
         "path": str(options.out / "runs" / f"{name}-{seed}.json")}
        for seed in range(options.seeds)
        for name in options.designs
    ]  # fmt: skip
    for task in tasks:
        task["key"] = key_of(task)
    return tasks


def _cores() -> int:
    # What this process may use, where the system tells.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _line(result: dict[str, Any]) -> str:
    asked = result["scores"]["as trained"]
    shares = ", ".join(f"{100 * n['right'] / n['asked']:.0f} % {kind}" for kind, n in asked.items())
    return f"{result['design']}, seed {result['seed']}: {shares} ({result['seconds']:.0f} s)"


def _report(tasks: list[dict[str, Any]], out: Path, command: str) -> None:
    from multimodal import report

    results = [json.loads(Path(task["path"]).read_text(encoding="utf-8")) for task in tasks]
    frame = report.frame(results)
    table, said = report.markdown(frame), report.sentences(frame)
    frame.to_csv(out / "results.csv", index=False)
    page = f"# Which positions?\n\n{table}\n\n{said}\n\nMade by `{command}`.\n"
    (out / "results.md").write_text(page, encoding="utf-8")
    report.picture(frame, out / "accuracy.png")
    print(f"\n{table}\n\n{said}\n")
    for file in ("results.csv", "results.md", "accuracy.png"):
        print(f"results: {out / file}")
