"""The command ``choose``."""

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from posenc_mm.choosing.advising import choose
from posenc_mm.choosing.asking import ask
from posenc_mm.choosing.measured import load
from posenc_mm.choosing.situation import QUESTIONS, Situation
from posenc_mm.choosing.telling import studies, text

EXAMPLE = "python -m posenc_mm choose --modality text --length growing --kv-cache yes"
DESCRIPTION = """Name one or two encodings for what you have, say why, and show the lines of Python
and YAML, what is usually advised, and what was measured. Without options it asks, at a terminal."""


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add ``choose``.

    Args:
        commands: of the parser of the command line.
    """
    parser = commands.add_parser(
        "choose", help="which encoding suits your data, why, and what was measured",
        description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"Example: {EXAMPLE}",
    )  # fmt: skip
    for question in QUESTIONS:
        answers = [answer for answer, _ in question.answers]
        default = f" default: {answers[0]}" if question.field != "modality" else ""
        if question.field == "causal":
            default = " default: yes for text, else no"
        of = "" if len(question.of) == 5 else f" ({', '.join(question.of)})"
        parser.add_argument(
            f"--{question.field.replace('_', '-')}", choices=answers,
            help=f"{question.words}{of}{default}",
        )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON in place of text")
    parser.add_argument(
        "--evidence", action="store_true", help="list all that was measured, and how"
    )
    parser.set_defaults(run=partial(run, parser))


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Answer.

    Args:
        parser: of the command, for its help.
        arguments: as parsed.

    Returns:
        The exit code, 0.

    Raises:
        ValueError: an option is missing, or does not go with another.
    """
    if arguments.evidence:
        evidence = load()
        _print(json.dumps(asdict(evidence), indent=1) if arguments.json else studies(evidence))
        return 0
    given = {q.field: getattr(arguments, q.field) for q in QUESTIONS}
    given = {field: answer for field, answer in given.items() if answer is not None}
    if not given:
        if not sys.stdin.isatty():
            parser.print_help()
            return 0
        # What is asked goes where it is read, so that JSON can still be piped.
        situation = ask(_prompted, partial(print, file=sys.stderr))
    else:
        situation = _situation(given)
    advice = choose(situation)
    _print(json.dumps(asdict(advice), indent=1) if arguments.json else text(advice))
    return 0


def _print(said: str) -> None:
    print(said.rstrip("\n"))


def _prompted(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()


def _situation(given: dict[str, str]) -> Situation:
    modality = given.get("modality")
    if modality is None:
        raise ValueError(f"--modality must be given, one of what --help lists. Such as: {EXAMPLE}")
    whole = {
        q.field: q.value(given.get(q.field, q.default(modality)))
        for q in QUESTIONS
        if q.field in given or modality in q.of
    }
    return Situation(**whole)  # type: ignore[arg-type]
