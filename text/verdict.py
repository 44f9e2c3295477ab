"""A comparison in plain sentences that call nothing a difference that may be chance."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from text.report import lengths_of

# Student's quantiles at 97.5 %, by degrees of freedom.
_STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 6: 2.45, 8: 2.31, 10: 2.23, 15: 2.13}


def sentences(summary: pd.DataFrame, trained: int) -> str:
    """Say plainly what the numbers show, and what they do not.

    Args:
        summary: of :func:`text.report.summarise`.
        trained: tokens of the windows trained at.

    Returns:
        A paragraph.
    """
    lengths = lengths_of(summary)
    said = [_leaders(summary, trained, f"At {trained} tokens, the length trained at,")]
    if lengths[-1] != trained:
        said.append(_leaders(summary, lengths[-1], f"At {lengths[-1]} tokens"))
        said.append(_longer(summary, trained, lengths[-1]))
    seeds = int(summary["seeds"].min())
    said.append(
        f"These numbers are of one small model, this text and training length, {seeds} "
        f"seed{'s' if seeds != 1 else ''}: they do not say how the encodings rank for larger "
        f"models, longer training or other texts."
    )
    return " ".join(said)


def differ(one: pd.Series, other: pd.Series, length: int) -> bool:
    """Tell whether losses differ by more than chance explains.

    Chance is of two kinds: another seed would train another model, and another text would be harder
    for one than for the other. A difference has to exceed both, each with 95 % certainty by
    Student's distribution, added as variances. From one seed nothing is known of the first kind, so
    that nothing can be told.

    Args:
        one: a row of the summary.
        other: another row.
        length: at which both could be read.

    Returns:
        Whether they do.
    """
    if min(one["seeds"], other["seeds"]) < 2:
        return False
    seeds = sum(row[f"{length} loss std"] ** 2 / row["seeds"] for row in (one, other))
    margin = seeds * _student(int(one["seeds"] + other["seeds"] - 2)) ** 2
    between = one[f"{length} stretches"] - other[f"{length} stretches"]
    if len(between) > 1:
        margin += _student(len(between) - 1) ** 2 * between.var(ddof=1) / len(between)
    return bool(abs(one[f"{length} loss"] - other[f"{length} loss"]) > np.sqrt(margin))


def _student(freedom: int) -> float:
    return _STUDENT[max(known for known in _STUDENT if known <= freedom)]


def _leaders(summary: pd.DataFrame, length: int, where: str) -> str:
    read = summary[summary[f"{length} loss"].notna()].sort_values(f"{length} loss")
    if read.empty:
        return f"{where} no encoding can read."
    best = read.iloc[0]
    close = [row["encoding"] for _, row in read.iterrows() if not differ(best, row, length)]
    low, high = read[f"{length} perplexity"].min(), read[f"{length} perplexity"].max()
    span = f"perplexities from {low:,.2f} to {high:,.2f}"
    if len(read) == 1:
        return f"{where} only {best['encoding']} can read (perplexity {low:,.2f})."
    if len(close) == len(read):
        return f"{where} the encodings are too close to tell apart ({span})."
    return f"{where} {listed(close)} {'leads' if len(close) == 1 else 'lead'} ({span})."


def _longer(summary: pd.DataFrame, trained: int, longest: int) -> str:
    """Say what more context than was trained on is worth to each encoding."""
    groups: dict[str, list[str]] = {"gain": [], "lose": [], "hold": []}
    for _, row in summary.iterrows():
        if row["seeds"] < 2 or pd.isna(row[f"{longest} loss"]):
            continue
        # Both lengths are of the same models, and of the same tokens: what differs is the context.
        between = row[f"{longest} stretches"] - row[f"{trained} stretches"]
        seeds = row[f"{longest} change std"] ** 2 / row["seeds"] * _student(row["seeds"] - 1) ** 2
        chance = between.var(ddof=1) / len(between) * _student(max(len(between) - 1, 1)) ** 2
        change = between.mean()
        certain = abs(change) > np.sqrt(seeds + chance)
        groups["hold" if not certain else "gain" if change < 0 else "lose"].append(row["encoding"])
    words = {
        "gain": "better by",
        "lose": "worse by",
        "hold": "no differently, as far as these runs can tell, by",
    }
    said = [f"{word} {listed(groups[key])}" for key, word in words.items() if groups[key]]
    if not said:
        return "What longer windows are worth to an encoding takes two seeds to tell."
    return f"Compared to {trained} tokens, {longest} are read {'; '.join(said)}."


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
