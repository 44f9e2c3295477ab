"""``python -m posenc_mm``: what there is, what it does, how it looks, and what suits your data."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from posenc_mm.catalogue import command as catalogue
from posenc_mm.choosing import command as choosing
from posenc_mm.plots import command as plots


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line, with the subcommands of every part that has any."""
    made = argparse.ArgumentParser(
        prog="python -m posenc_mm",
        description="Positional encodings: what there is, what each does, which suits your data.",
        epilog="Begin with: python -m posenc_mm list",
    )
    commands = made.add_subparsers(title="commands", metavar="COMMAND")
    for part in (catalogue, choosing, plots):
        part.register(commands)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: as typed after ``python -m posenc_mm``; those of the process unless given.

    Returns:
        The exit code: 0, 2 for what cannot be done as asked, or 130 if interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may know no Greek
    made = parser()
    parsed = made.parse_args(arguments)
    if not hasattr(parsed, "run"):
        made.print_help()
        return 0
    try:
        code: int | None = parsed.run(parsed)
        sys.stdout.flush()
    except ValueError as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who reads, such as head, has enough; Python would complain of it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
