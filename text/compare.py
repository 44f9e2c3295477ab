"""Which encoding? The same model, text and seeds with each, at the length trained and beyond."""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from text.runs import is_finished, key_of, train_one
from text.working import jobs_at_a_time, work

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "text"
ENCODINGS = ["none", "sinusoidal", "learned", "rope", "alibi", "t5", "rope_alibi"]
FACTORS = [1, 2, 4, 8]
DESCRIPTION = """Train the same model with each encoding on the same seeds, read a test text in
windows of the length trained at and of longer ones, and print a ranked table. Finished runs are
kept: interrupted, the same command goes on where it stopped. Further options go to every run as
they would to `fit`, for example --trainer.max_epochs=5 or --data.length=256."""


def main(argv: list[str]) -> None:
    """Run the comparison.

    Args:
        argv: arguments, as on the command line.
    """
    options, overrides = _parse(argv)
    base, overlays = _configs(options)
    out = options.out or Path("runs") / "text" / f"compare-{base.stem}"
    (out / "runs").mkdir(parents=True, exist_ok=True)
    tasks = [
        {"encoding": name, "seed": seed, "path": str(out / "runs" / f"{name}-{seed}.json"),
         "configs": [str(base), str(overlay)], "overrides": overrides,
         "factors": sorted({1, *options.factors})}
        for seed in range(options.seeds)
        for name, overlay in overlays.items()
    ]  # fmt: skip
    for task in tasks:
        task["key"] = key_of(task)
    todo = [task for task in tasks if not is_finished(task)]
    jobs = min(options.jobs or jobs_at_a_time(), max(len(todo), 1))
    print(
        f"{len(overlays)} encodings x {options.seeds} seeds on {base.name}: {len(todo)} runs to "
        f"train, {len(tasks) - len(todo)} kept from before, {jobs} at a time",
        flush=True,
    )
    try:
        work(train_one, todo, jobs, _line)
    except KeyboardInterrupt:
        print(f"\ninterrupted; finished runs are kept in {out / 'runs'}: the same command goes on")
        sys.exit(130)
    _report(tasks, out, base.stem, shlex.join(["python", "-m", "text", "compare", *argv]))


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        "python -m text compare", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "-c", "--config", type=Path, default=CONFIGS / "stdlib.yaml", metavar="BASE",
        help="text, model and budget; default: the embedded text of Python's standard library",
    )  # fmt: skip
    parser.add_argument(
        "--encodings", nargs="+", default=ENCODINGS, metavar="NAME",
        help=f"overlays of configs/text/encodings, or YAML files; default: {' '.join(ENCODINGS)}",
    )  # fmt: skip
    parser.add_argument(
        "--factors", nargs="+", type=int, default=FACTORS, metavar="K",
        help="lengths to read, as multiples of the one trained at; default: 1 2 4 8",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=2, help="runs per encoding; default: 2")
    parser.add_argument("--jobs", type=int, help="runs at a time; default: one per core, or GPU")
    parser.add_argument("--out", type=Path, help="default: runs/text/compare-BASE")
    options, overrides = parser.parse_known_args(argv)
    if min(options.seeds, *options.factors, 1 if options.jobs is None else options.jobs) < 1:
        parser.error("--seeds, --jobs and --factors must be at least 1")
    stray = [word for word in overrides if word.startswith("-") and "." not in word]
    if stray:
        parser.error(f"unknown options {' '.join(stray)}")
    return options, overrides


def _configs(options: argparse.Namespace) -> tuple[Path, dict[str, Path]]:
    if not options.config.is_file():
        sys.exit(f"--config: no file {options.config}")
    return options.config, overlays_of(options.encodings)


def overlays_of(names: list[str]) -> dict[str, Path]:
    """Find overlays by their names in ``configs/text/encodings``, or their paths."""
    known = {path.stem: path for path in sorted((CONFIGS / "encodings").glob("*.yaml"))}
    overlays = {}
    for name in names:
        path = known.get(name, Path(name))
        if not path.is_file():
            sys.exit(f"--encodings: no {name!r}; there are {', '.join(known)}, or give a YAML file")
        overlays[path.stem] = path
    return overlays


def _line(result: dict[str, Any]) -> str:
    scores = ", ".join(
        f"{score['perplexity']:.3f} at {length}" if "loss" in score else f"- at {length}"
        for length, score in result["scores"].items()
    )
    return (
        f"{result['encoding']}, seed {result['seed']}: perplexity {scores} "
        f"({result['seconds']:.0f} s)"
    )


def _report(tasks: list[dict[str, Any]], out: Path, name: str, command: str) -> None:
    from text import report, verdict

    results = [json.loads(Path(task["path"]).read_text(encoding="utf-8")) for task in tasks]
    frame = report.frame(results)
    summary = report.summarise(frame)
    seeds = int(summary["seeds"].min())
    title = f"{name}: perplexity by length, {seeds} seed{'s' if seeds > 1 else ''}"
    said = verdict.sentences(summary, results[0]["train_length"])
    why = report.refusals(frame)
    frame.drop(columns=["curve", "stretches"]).to_csv(out / "results.csv", index=False)
    report.curves(frame).to_csv(out / "curves.csv", index=False)
    page = f"# {title}\n\n{report.markdown(summary)}\n\n{why}{said}\n\nMade by `{command}`.\n"
    (out / "results.md").write_text(page, encoding="utf-8")
    report.picture(frame, summary, results[0]["train_length"], title, out / "perplexity.png")
    report.show(summary, title)
    print(f"{why}{said}\n")
    for file in ("results.csv", "curves.csv", "results.md", "perplexity.png"):
        print(out / file)
