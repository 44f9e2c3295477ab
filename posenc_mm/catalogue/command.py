"""The commands ``list`` and ``explain``."""

import argparse
import json
from typing import Any

from posenc_mm.catalogue.explaining import explain
from posenc_mm.catalogue.finding import GROUPS, entries, find
from posenc_mm.catalogue.listing import markdown, records, text


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands of the catalogue.

    Args:
        commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    shown = commands.add_parser(
        "list",
        help="everything there is: where it acts, on how many axes, learned or not, its paper",
        epilog="python -m posenc_mm explain NAME says more about one of them.",
    )
    shown.add_argument("--kind", choices=GROUPS, help="these alone")
    shown.add_argument("--learned", action="store_true", help="what training changes, alone")
    form = shown.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--markdown", action="store_true", help="the table of README.md")
    shown.set_defaults(run=_list)
    told = commands.add_parser(
        "explain",
        help="one of them: formula, conventions, traps, paper, a line of Python and one of YAML",
        epilog="For instance: python -m posenc_mm explain rotary",
    )
    told.add_argument("name", help="as in the list; upper and lower case do not matter")
    told.add_argument("--latex", action="store_true", help="formulas in LaTeX")
    told.set_defaults(run=_explain)


def _list(arguments: argparse.Namespace) -> None:
    shown = [
        each
        for each in entries()
        if arguments.kind in (None, each.group)
        and not (arguments.learned and (each.traits is None or each.traits.learned != "yes"))
    ]
    if arguments.json:
        print(json.dumps(records(shown), indent=2, ensure_ascii=False))
    elif arguments.markdown:
        print(markdown(shown))
    else:
        print(text(shown))


def _explain(arguments: argparse.Namespace) -> None:
    found: list[Any] = list(find(arguments.name))
    line = f"\n\n{'-' * 100}\n\n"
    print(line.join(explain(each, latex=arguments.latex) for each in found))
    if len(found) > 1:
        names = ", ".join(each.full_name for each in found)
        print(f"\n{len(found)} have this name. For one of them: {names}")
