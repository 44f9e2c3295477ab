"""``python -m benchmarks``: ours and the peers, side by side."""

import argparse
import json
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.reporting import README, document, environment, markdown, rewritten

# Commands, and the files that do them.
SUBJECTS = {
    "rotary": "rotary",
    "attention": "attention",
    "additive": "additive",
    "timm": "attached",
    "import": "importing",
    "time": "civil",
}
OUT = Path("results") / "benchmarks"
DESCRIPTION = """Run ours and the peers in turns in one process, and print ratios. A peer that is
not installed is a row that says so."""


def parsed(argv: list[str]) -> argparse.Namespace:
    """Read a command line; ``--small`` changes what is taken where nothing is said."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="subject", required=True)
    for name in (*SUBJECTS, "all"):
        module = None if name == "all" else import_module(f"benchmarks.{SUBJECTS[name]}")
        said = "every subject, each in a process of its own"
        text = said if module is None else (module.__doc__ or "").split("\n")[0]
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--small", action="store_true", help="the least to do, in seconds")
        sub.add_argument("--rounds", type=int, help="how often each way is timed")
        sub.add_argument("--threads", type=int, default=1)
        sub.add_argument("--device", default="cpu", help="cpu, or cuda")
        sub.add_argument("--json", action="store_true", help="print JSON in place of tables")
        sub.add_argument("--out", type=Path, default=OUT, help="folder of the results")
        sub.add_argument("--write", action="store_true", help="put tables into the README here")
        if module is not None:
            module.add_options(sub)
            if "--small" in argv:
                sub.set_defaults(**module.SMALL)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Run one subject, or all."""
    argv = sys.argv[1:] if argv is None else argv
    options = parsed(argv)
    if options.subject == "all":
        _all(argv)
    else:
        _one(options, argv)


def _all(argv: list[str]) -> None:
    """Run each subject in a fresh process, so that none meets what another imported."""
    rest = [word for word in argv if word != "all"]
    failed = []
    for name in SUBJECTS:
        done = subprocess.run([sys.executable, "-m", "benchmarks", name, *rest], check=False)
        failed += [name] * (done.returncode != 0)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _one(options: argparse.Namespace, argv: list[str]) -> None:
    torch.set_num_threads(options.threads)
    where = environment(options.device)
    module = import_module(f"benchmarks.{SUBJECTS[options.subject]}")

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    tables, growth = module.run(options, say)
    asked = {k: v for k, v in vars(options).items() if k not in ("out", "write")}
    found = document(options.subject, _command(argv), where, asked, tables, growth)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.subject}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found) if options.json else markdown(found))
    if options.write:
        text = README.read_text(encoding="utf-8")
        README.write_text(rewritten(text, found), encoding="utf-8")
        say(f"written into: {README.name}")
    # With --json the output is JSON and nothing else.
    print(f"results: {path}", file=sys.stderr if options.json else sys.stdout)


def _command(argv: list[str]) -> str:
    """Give the command that makes the same numbers, wherever they are kept."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--json", "--write"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--out")
    return shlex.join(["python", "-m", "benchmarks", *parser.parse_known_args(argv)[1]])


if __name__ == "__main__":
    main()
