"""What is told: findings, decisions and tables, on the terminal and for machines."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Telling:
    """Prints as things are found out, and remembers them.

    Attributes:
        told: everything, for ``report.json``.
    """

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"warnings": [], "findings": [], "decisions": [], "tables": {}}

    def heading(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def warn(self, text: str) -> None:
        """Tell what may spoil the forecasts."""
        self.told["warnings"].append(text)
        print(f"! {text}", flush=True)

    def find(self, text: str) -> None:
        """Tell what is so."""
        self.told["findings"].append(text)
        print(f"  {text}", flush=True)

    def decide(self, name: str, value: str, why: str, option: str = "") -> None:
        """Tell what was decided, why, and how to decide otherwise."""
        self.told["decisions"].append({"what": name, "is": value, "why": why, "option": option})
        reasons = "; ".join(one for one in (why, option) if one)
        print(f"  {name}: {value} ({reasons})", flush=True)

    def keep(self, name: str, value: Any) -> None:
        """Remember something for machines alone."""
        self.told[name] = value

    def table(
        self, name: str, rows: Sequence[dict[str, Any]], shown: dict[str, Callable[[Any], str]]
    ) -> None:
        """Tell rows under the names of their columns.

        Args:
            name: for machines.
            rows: with the same keys; ``None`` is shown as a dash.
            shown: how to write each column; the first is text.
        """
        self.told["tables"][name] = [dict(row) for row in rows]
        columns = [
            [key, *(("-" if row[key] is None else write(row[key])) for row in rows)]
            for key, write in shown.items()
            if any(row[key] is not None for row in rows)
        ]
        widths = [max(map(len, column)) for column in columns]
        for cells in zip(*columns, strict=True):
            first, *rest = (
                cell.ljust(width) if not number else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            print("  " + "  ".join([first, *rest]), flush=True)


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal, and nothing elsewhere.

    Args:
        text: beside it.

    Yields:
        What takes the share done, from 0 to 1.
    """
    parts = TextColumn(f"  {text}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    console = Console(file=sys.stderr)
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def counted(number: int, noun: str) -> str:
    """Say how many of something."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(words: Sequence[str], most: int = 6) -> str:
    """Say the first of several names, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def lasting(seconds: float) -> str:
    """Say a duration in the largest unit that fits."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            number = seconds / length
            return f"{number:.3g} {unit}{'' if number == 1 else 's'}"
    return f"{seconds:.3g} seconds"
