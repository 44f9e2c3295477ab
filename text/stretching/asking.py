"""The options of ``python -m text extend``."""

import argparse
from pathlib import Path

from text.stretching.methods import DEFAULT, METHODS, SEARCH, WHAT

# Trained for the same steps or minutes at the trained length, then read with a window: what
# training alone brings.
SHORT = "short"
DESCRIPTION = """Read further with a trained language model than it was trained: measure its loss
against length for each method on your text, without training and with a short one, and say what
the numbers support. The text is divided in three parts that follow each other: to train on, to
search on and to test on. Windows of every length end at the same tokens, so that lengths can be
compared. Finished measurements are kept: interrupted, the same command goes on where it stopped."""


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the options.

    Args:
        argv: arguments, as on the command line.

    Returns:
        The options.
    """
    parser = argparse.ArgumentParser(
        "python -m text extend", description=DESCRIPTION, allow_abbrev=False,
        epilog="methods: " + "; ".join(f"{name}: {WHAT[name]}" for name in (*METHODS, SEARCH)),
    )  # fmt: skip
    parser.add_argument(
        "checkpoint", type=Path, help="a .bin of llama2.c, a folder of Hugging Face, or a .gguf"
    )
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="a text in UTF-8")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE",
        help="of llama2.c; default: the tok*.bin beside the checkpoint",
    )  # fmt: skip
    parser.add_argument("--trained-length", type=int, help="tokens; default: what the file says")
    parser.add_argument(
        "--factors", type=float, nargs="+", default=[1.0, 2.0, 4.0],
        help="how many times the trained length; default: 1 2 4",
    )  # fmt: skip
    parser.add_argument(
        "--methods", nargs="+", default=DEFAULT, choices=[*METHODS, SEARCH], metavar="NAME",
        help=f"of {', '.join((*METHODS, SEARCH))}; default: {' '.join(DEFAULT)}",
    )  # fmt: skip
    _measuring(parser)
    _searching(parser)
    _tuning(parser)
    parser.add_argument("--device", help="default: cuda where there is one, else cpu")
    parser.add_argument("--out", type=Path, help="default: runs/text/extend-CHECKPOINT")
    options = parser.parse_args(argv)
    _check(parser, options)
    return options


def _measuring(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--shares", type=float, nargs=3, default=[0.7, 0.1, 0.2],
        metavar=("TRAIN", "SEARCH", "TEST"),
        help="parts of the text, in their order; default: 0.7 0.1 0.2",
    )  # fmt: skip
    group.add_argument("--windows", type=int, default=16, help="of each length; default: 16")
    group.add_argument("--tail", type=int, default=128, help="last tokens compared; default: 128")
    group.add_argument("--seed", type=int, default=0)


def _searching(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("searching")
    group.add_argument("--search-budget", type=int, default=60, help="trials; default: 60")
    group.add_argument("--search-windows", type=int, default=4, help="of a trial; default: 4")


def _tuning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training a little at one of the lengths")
    group.add_argument(
        "--tune", nargs="+", default=[], choices=[*METHODS, SEARCH, SHORT], metavar="NAME",
        help=f"methods to train with, and {SHORT}: as long at the trained length, then read with a "
        "window",
    )  # fmt: skip
    group.add_argument("--tune-factor", type=float, help="default: the largest of --factors")
    group.add_argument("--steps", type=int, default=300, help="at most; default: 300")
    group.add_argument("--minutes", type=float, default=5.0, help="at most; default: 5")
    group.add_argument("--lr", type=float, default=5e-4)


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    options.factors = sorted({1.0, *options.factors})
    options.methods = list(dict.fromkeys(["none", *options.methods]))
    options.tune = list(dict.fromkeys(options.tune))
    if options.factors[0] < 1 or len(options.factors) < 2:
        parser.error(f"--factors must be at least 1 and one of them above, got {options.factors}")
    for name in ("windows", "tail", "search_budget", "search_windows", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    for name in ("minutes", "lr"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name} must be above 0")
    if min(options.shares) < 0 or abs(sum(options.shares) - 1) > 1e-6 or not options.shares[2]:
        parser.error(f"--shares must be three shares that make 1, got {options.shares}")
    if options.tune_factor is None:
        options.tune_factor = options.factors[-1]
    if options.tune_factor not in options.factors[1:]:
        parser.error(f"--tune-factor must be one of {options.factors[1:]}")
    if "dynamic" in options.tune:
        parser.error("--tune: dynamic moves with the length, train with ntk")
    if SEARCH in options.tune and SEARCH not in options.methods:
        parser.error("--tune search needs --methods search")
