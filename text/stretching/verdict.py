"""What the measurements say in words, and no more than they can tell apart."""

from math import inf
from typing import Any

import numpy as np

from text.stretching.asking import SHORT

Result = dict[str, Any]
# Standard errors that hold 95 % of Student's t, by windows: two are enough for many windows only.
ERRORS = {1: inf, 2: 12.71, 3: 4.31, 4: 3.19, 5: 2.78, 6: 2.58, 7: 2.45, 8: 2.37, 9: 2.31, 10: 2.27,
          11: 2.23, 12: 2.21, 13: 2.18, 14: 2.17, 15: 2.15, 16: 2.14}  # fmt: skip


def difference(first: Result, second: Result) -> tuple[float, float]:
    """Compare two ways on the same tokens.

    Args:
        first: a result.
        second: another one.

    Returns:
        The mean difference of their losses over windows and its standard error, which one window
        alone does not tell.
    """
    apart = np.array(first["tails"]) - np.array(second["tails"])
    error = float(apart.std(ddof=1)) / len(apart) ** 0.5 if len(apart) > 1 else inf
    return float(apart.mean()), error


def is_close(first: Result, second: Result) -> bool:
    """Whether a paired difference may be chance, at 95 %."""
    mean, error = difference(first, second)
    return abs(mean) <= ERRORS.get(len(first["tails"]), 2.1) * error


def kept(result: Result, untouched: Result, native: Result) -> float:
    """The share of what the untouched model loses at a length that a way wins back."""
    lost = untouched["loss"] - native["loss"]
    return (untouched["loss"] - result["loss"]) / lost if lost > 0 else float("nan")


def verdict(results: list[Result], trained: int) -> list[str]:
    """Say what stretches best, whether it is worth it, and what training brings.

    Args:
        results: of all measurements.
        trained: length that the model was trained on.

    Returns:
        Sentences.
    """
    plain = [r for r in results if r["kind"] == "untrained"]
    native = next(r for r in plain if r["method"] == "none" and r["length"] == trained)
    lengths = sorted({r["length"] for r in plain if r["length"] > trained})
    said = [_at(plain, native, length) for length in lengths]
    longest = lengths[-1]
    there = [r for r in plain if r["length"] == longest]
    best = min(there, key=lambda r: r["loss"])
    said.append(_worth(best, native))
    said += _trained(results, plain, native)
    said.append(_advice(plain, native, best))
    return said


def _at(plain: list[Result], native: Result, length: int) -> str:
    there = sorted((r for r in plain if r["length"] == length), key=lambda r: r["loss"])
    best, untouched = there[0], next(r for r in there if r["method"] == "none")
    same = [r["method"] for r in there[1:] if is_close(best, r)]
    tail = f", not to be told from {_listed(same)}" if same else ""
    back = kept(best, untouched, native)
    won = "" if not 0 < back <= 2 else f", {100 * back:.0f} % of what is lost there"
    return (
        f"At {length:,} tokens, untrained, {best['method']} is first with "
        f"{best['loss']:.2f}{tail}; untouched {untouched['loss']:.2f}{won}."
    )


def _worth(best: Result, native: Result) -> str:
    apart, _ = difference(best, native)
    head = (
        f"On the same tokens, {best['method']} with {best['length']:,} tokens of context is at "
        f"{best['loss']:.2f}, the untouched model with {native['length']:,} at {native['loss']:.2f}"
    )
    if is_close(best, native):
        return f"{head}: nothing is won or lost that could be told by what was said earlier."
    if apart < 0:
        return f"{head}: the longer context is made use of."
    return f"{head}: no longer context is worth its price here, cut texts at {native['length']:,}."


def _trained(results: list[Result], plain: list[Result], native: Result) -> list[str]:
    rows = [r for r in results if r["kind"] == "tuned"]
    said = []
    for length in sorted({round(r["factor"] * native["length"]) for r in rows}):
        there = [r for r in rows if r["length"] == length]
        there.sort(key=lambda r: r["loss"])
        untouched = [r for r in plain if r["length"] == length and r["method"] == "none"]
        if not there or not untouched:
            continue
        best = there[0]
        same = [r["method"] for r in there[1:] if is_close(best, r)]
        tail = f", not to be told from {_listed(same)}" if same else ""
        seconds = max(r["training_seconds"] for r in there)
        said.append(
            f"Trained for up to {seconds:.0f} s, at {length:,} tokens: "
            + ", ".join(f"{r['method']} {r['loss']:.2f}" for r in there)
            + (f"; {best['method']} is first{tail}." if len(there) > 1 else ".")
        )
        said += _against_short(there, native["length"])
    return said


def _against_short(there: list[Result], trained: int) -> list[str]:
    short = next((r for r in there if r["method"] == SHORT), None)
    others = [r for r in there if r["method"] != SHORT]
    if short is None or not others:
        return []
    best = others[0]
    if is_close(best, short):
        said = "cannot be told from"
    else:
        said = "is better than" if best["loss"] < short["loss"] else "is worse than"
    return [
        f"Training at {best['length']:,} tokens ({best['method']}, {best['tokens_seen']:,} tokens "
        f"seen) {said} training for the same time or steps at {trained:,} "
        f"({short['tokens_seen']:,} seen) and reading with a window."
    ]


def _advice(plain: list[Result], native: Result, best: Result) -> str:
    # Of ways that cannot be told apart, one that sees everything is worth more than a window.
    there = [r for r in plain if r["length"] == best["length"] and is_close(best, r)] + [best]
    seeing = [r for r in there if r["method"] != "window"]
    chosen = min(seeing or there, key=lambda r: r["loss"])
    cost = next(
        (r for r in plain if r["method"] == chosen["method"] and r["length"] == native["length"]
         and r["factor"] > 1), None,
    )  # fmt: skip
    price = ""
    if cost is not None and not is_close(cost, native):
        price = (
            f" On short texts it is at {cost['loss']:.2f} instead of {native['loss']:.2f}: leave "
            f"those as they are."
        )
    return f"Recommended without training: {chosen['method']} ({chosen['reading']}).{price}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
