"""What a comparison found: a table, plain sentences and a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CHANCE = 0.1
# Okabe and Ito's colours, told apart by colour-blind readers too; markers differ as well.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#999999"]
MARKERS = ["o", "s", "^", "D", "X"]
# Student's quantiles at 97.5 %, by degrees of freedom.
_STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 6: 2.45, 8: 2.31, 10: 2.23, 15: 2.13}


def frame(results: list[dict[str, Any]]) -> pd.DataFrame:
    """List what was measured: a row per run, condition and kind of question, and for all kinds."""
    rows = []
    for result in results:
        for condition, kinds in result["scores"].items():
            total = {key: sum(each[key] for each in kinds.values()) for key in ("asked", "right")}
            for kind, counts in {**kinds, "all": total}.items():
                rows.append(
                    {"design": result["design"], "seed": result["seed"], "part": result["part"],
                     "condition": condition, "kind": kind, **counts,
                     "accuracy": counts["right"] / max(counts["asked"], 1),
                     "seconds": round(result["seconds"], 1)}
                )  # fmt: skip
    return pd.DataFrame(rows)


def summarise(runs: pd.DataFrame) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Average over the seeds: mean and deviation by kind, condition and design."""
    by = runs.groupby(["kind", "condition", "design"], sort=False)["accuracy"]
    return {group: (own.mean(), own.std()) for group, own in by}


def markdown(runs: pd.DataFrame) -> str:
    """Tables of accuracy in per cent by condition: of all questions, then of each kind."""
    summary, conditions = summarise(runs), list(runs["condition"].unique())
    tables = []
    for kind in ("all", *(each for each in runs["kind"].unique() if each != "all")):
        lines = [
            f"| {kind} | " + " | ".join(conditions) + " |",
            "| --- |" + " ---: |" * len(conditions),
        ]
        for design in runs["design"].unique():
            cells = [_shown(*summary[kind, condition, design]) for condition in conditions]
            lines.append(f"| {design} | " + " | ".join(cells) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _shown(mean: float, spread: float) -> str:
    text = f"{100 * mean:.1f}"
    return text if pd.isna(spread) else f"{text} ± {100 * spread:.1f}"


def differ(runs: pd.DataFrame, condition: str, kind: str, one: str, other: str) -> bool:
    """Tell whether two designs differ by more than chance explains.

    Seeds are pairs: the same weights at first, rows and batches. The mean difference has to exceed
    what other seeds would change, with 95 % certainty by Student's distribution, and beside it what
    other questions would. From one seed nothing can be told.

    Args:
        runs: of :func:`frame`.
        condition: under which they were asked.
        kind: of the questions.
        one: a design.
        other: another design.

    Returns:
        Whether they do.
    """
    own = runs[(runs["condition"] == condition) & (runs["kind"] == kind)]
    table = own.pivot(index="seed", columns="design", values="accuracy")
    gaps = (table[one] - table[other]).dropna()
    if len(gaps) < 2:
        return False
    student = _STUDENT[max(known for known in _STUDENT if known <= len(gaps) - 1)]
    asked = own["asked"].iloc[0]
    questions = sum(table[each].mean() * (1 - table[each].mean()) / asked for each in (one, other))
    margin = student**2 * gaps.var(ddof=1) / len(gaps) + 1.96**2 * questions
    return bool(abs(gaps.mean()) > np.sqrt(margin))


def sentences(runs: pd.DataFrame) -> str:
    """Say plainly which designs lead, in which questions, and what it does not show."""
    summary = summarise(runs)
    kinds = [kind for kind in runs["kind"].unique() if kind != "all"]
    said = []
    for condition in runs["condition"].unique():
        means = {each: summary["all", condition, each][0] for each in runs["design"].unique()}
        ranked = sorted(means, key=lambda each: -means[each])
        close = [each for each in ranked if not differ(runs, condition, "all", ranked[0], each)]
        span = f"{100 * means[ranked[0]]:.0f} % to {100 * means[ranked[-1]]:.0f} %"
        if len(close) == len(ranked):
            said.append(f"{condition}: too close to tell apart ({span}).")
        else:
            word = "leads" if len(close) == 1 else "lead, too close to tell apart"
            said.append(f"{condition}: {' and '.join(close)} {word} ({span}).")
        if len(close) == 1 < len(ranked):
            apart = [kind for kind in kinds if differ(runs, condition, kind, *ranked[:2])]
            said[-1] += f" Ahead of {ranked[1]} beyond chance where asked for: " + (
                f"{', '.join(apart)}." if apart else "no kind by itself."
            )
    seeds = runs["seed"].nunique()
    said.append(
        f"Guessing is right in {100 * CHANCE:.0f} %. Means over {seeds} "
        f"seed{'s' if seeds > 1 else ''}, of one small model on rows composed of real recordings "
        f"and pictures: not a measure of speech or picture recognition, nor of larger models."
    )
    return "\n".join(said)


def picture(runs: pd.DataFrame, path: Path) -> None:
    """Draw accuracy by condition, a panel for each kind of question."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    summary = summarise(runs)
    conditions = list(runs["condition"].unique())
    kinds = [kind for kind in runs["kind"].unique() if kind != "all"]
    figure, panels = pyplot.subplots(
        1, len(kinds), figsize=(4.2 * len(kinds), 4.6), sharey=True, layout="constrained"
    )
    designs = list(runs["design"].unique())
    for axes, kind in zip(np.atleast_1d(panels), kinds, strict=True):
        for number, design in enumerate(designs):
            cells = [summary[kind, condition, design] for condition in conditions]
            places = np.arange(len(conditions)) + 0.12 * (number - (len(designs) - 1) / 2)
            axes.errorbar(
                places, [100 * mean for mean, _ in cells],
                yerr=[100 * np.nan_to_num(spread) for _, spread in cells],
                color=COLOURS[number % 5], marker=MARKERS[number % 5], linestyle="none", capsize=2,
                label=design if kind == kinds[0] else None,
            )  # fmt: skip
        axes.axhline(100 * CHANCE, color="#777777", linestyle=":", linewidth=1)
        axes.set_title(f"asked: {kind}")
        axes.set_xticks(range(len(conditions)), labels=conditions, rotation=40, ha="right")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    first = np.atleast_1d(panels)[0]
    first.set(ylabel="right answers in %", ylim=(0, 100))
    first.annotate("guessing", (0.01, 100 * CHANCE + 1), xycoords=("axes fraction", "data"),
                   color="#555555", fontsize=9)  # fmt: skip
    figure.legend(frameon=False, loc="outside lower center", ncols=len(designs))
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
