"""``python -m text probe``: is what was said long ago, or in the middle, found again?"""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from text.compare import CONFIGS, ENCODINGS, FACTORS, overlays_of
from text.probing.running import probe_checkpoint, probe_trained
from text.runs import is_finished, key_of
from text.working import jobs_at_a_time, work

DESCRIPTION = """Plant a key at a depth of the context and ask for it at the end, for every depth
and length: a heat map of how often it is found. Of a CHECKPOINT that `fit` wrote, with a pass key
in a text, or without one of encodings that are first trained on a task made of letters (about a
minute each), and ranked. Further options go to those trainings as they would to `fit`, for example
--data.keys=8. Finished runs are kept: interrupted, the same command goes on where it stopped."""


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the arguments.

    Args:
        argv: as on the command line.

    Returns:
        The options, and what goes to the trainings.
    """
    parser = argparse.ArgumentParser(
        "python -m text probe", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "checkpoint", nargs="?", type=Path, help="of a trained model; default: none"
    )
    parser.add_argument(
        "--text", type=Path,
        help="file or folder to plant pass keys in; default: the test part of the standard library",
    )  # fmt: skip
    parser.add_argument(
        "--encodings", nargs="+", default=ENCODINGS, metavar="NAME",
        help=f"to train without a checkpoint; default: {' '.join(ENCODINGS)}",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=2, help="trainings per encoding; default: 2")
    parser.add_argument(
        "--factors", nargs="+", type=int, default=FACTORS, metavar="K",
        help="lengths to ask at, as multiples of the one trained at; default: 1 2 4 8",
    )  # fmt: skip
    parser.add_argument("--depths", type=int, default=9, help="from first to last; default: 9")
    parser.add_argument("--samples", type=int, default=100, help="per cell; default: 100")
    parser.add_argument(
        "--jobs", type=int, help="trainings at a time; default: one per core, or GPU"
    )
    parser.add_argument(
        "--keys", type=int, default=4,
        help="among which a checkpoint that was trained on letters has to choose; default: 4",
    )  # fmt: skip
    parser.add_argument("--device", default="cpu", help="for a checkpoint; default: cpu")
    parser.add_argument("--out", type=Path, help="default: runs/text/probe, or probe-CHECKPOINT")
    options, overrides = parser.parse_known_args(argv)
    counts = [options.seeds, options.samples, options.keys, *options.factors, options.jobs or 1]
    if min(counts) < 1 or options.depths < 2:
        parser.error("--seeds, --samples, --factors, --jobs must be at least 1, --depths 2")
    stray = [word for word in overrides if word.startswith("-") and "." not in word]
    if stray or (overrides and options.checkpoint):
        parser.error(f"unknown options {' '.join(stray or overrides)}")
    if options.text is not None and options.checkpoint is None:
        parser.error("--text is for a checkpoint: what is trained here reads letters")
    return options, overrides


def main(argv: list[str]) -> None:
    """Run the probe.

    Args:
        argv: arguments, as on the command line.
    """
    options, overrides = parse(argv)
    name = "probe" if options.checkpoint is None else f"probe-{options.checkpoint.stem}"
    out = options.out or Path("runs") / "text" / name
    (out / "runs").mkdir(parents=True, exist_ok=True)
    depths = [k / (options.depths - 1) for k in range(options.depths)]
    shared = {"factors": sorted(set(options.factors)), "depths": depths, "samples": options.samples}
    tasks = _trainings(options, overrides) if options.checkpoint is None else [_asking(options)]
    for task in tasks:
        task.update(shared, path=str(out / "runs" / f"{task['encoding']}-{task['seed']}.json"))
        task["key"] = key_of(task)
    todo = [task for task in tasks if not is_finished(task)]
    print(f"{len(todo)} runs to do, {len(tasks) - len(todo)} kept from before", flush=True)
    try:
        if options.checkpoint is None:
            jobs = min(options.jobs or jobs_at_a_time(), max(len(todo), 1))
            work(probe_trained, todo, jobs, _line)
        else:
            for task in todo:
                print(_line(probe_checkpoint(task)))
    except KeyboardInterrupt:
        print(f"\ninterrupted; finished runs are kept in {out / 'runs'}: the same command goes on")
        sys.exit(130)
    except ValueError as error:
        sys.exit(f"probe: {error}")
    _report(tasks, out, shlex.join(["python", "-m", "text", "probe", *argv]))


def _trainings(options: argparse.Namespace, overrides: list[str]) -> list[dict[str, Any]]:
    base = CONFIGS / "needles.yaml"
    return [
        {"encoding": name, "seed": seed, "configs": [str(base), str(overlay)],
         "overrides": overrides}
        for seed in range(options.seeds)
        for name, overlay in overlays_of(options.encodings).items()
    ]  # fmt: skip


def _asking(options: argparse.Namespace) -> dict[str, Any]:
    path = options.checkpoint
    if not path.is_file():
        sys.exit(f"probe: checkpoint must be a file that `python -m text fit` wrote, got {path}")
    text = None if options.text is None else str(options.text)
    # What has to stay as it was for a result to be kept: the files named here.
    named = [str(path), *([] if text is None else [text])]
    return {
        "encoding": path.stem, "seed": 0, "checkpoint": str(path), "device": options.device,
        "text": text, "keys": options.keys, "configs": [], "overrides": named,
    }  # fmt: skip


def _line(result: dict[str, Any]) -> str:
    found = ", ".join(
        f"- at {length}" if isinstance(shares, str)
        else f"{100 * sum(shares) / len(shares):.0f} % at {length}"
        for length, shares in result["accuracy"].items()
    )  # fmt: skip
    return f"{result['encoding']}, seed {result['seed']}: found {found} ({result['seconds']:.0f} s)"


def _report(tasks: list[dict[str, Any]], out: Path, command: str) -> None:
    from text.probing import report

    results = [json.loads(Path(task["path"]).read_text(encoding="utf-8")) for task in tasks]
    frame = report.ranked(report.frame(results))
    trained, samples, chance = (results[0][k] for k in ("train_length", "samples", "chance"))
    seeds = frame["seed"].nunique()
    title = f"keys found by length and depth, trained at {trained} tokens"
    said = report.sentences(frame, trained, samples * seeds, chance)
    ranks = f"{report.ranking(frame)}\n\n" if frame["encoding"].nunique() > 1 else ""
    table = f"{ranks}{report.markdown(frame)}"
    frame.to_csv(out / "results.csv", index=False)
    page = f"# {title}, in %\n\n{table}\n\n{said}\n\nMade by `{command}`.\n"
    (out / "results.md").write_text(page, encoding="utf-8")
    report.picture(frame, title, chance, out / "found.png")
    report.show(frame, title)
    print(f"{said}\n")
    for file in ("results.csv", "results.md", "found.png"):
        print(out / file)
