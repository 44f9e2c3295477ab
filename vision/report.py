"""What a comparison found: a ranked table, two files, a picture and a sentence."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Okabe and Ito's colours, told apart by colour-blind readers too; markers differ as well.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over seeds and rank.

    Args:
        runs: a row per run and image size: ``encoding, seed, size, accuracy, seconds, parameters``.

    Returns:
        A row per encoding, best first by mean accuracy over all sizes: ``mean`` of that, then per
        size its mean and its standard deviation over the seeds (``NaN`` for a single seed), then
        mean seconds and parameters.
    """
    sizes = sorted(runs["size"].unique())
    rows = []
    for encoding, own in runs.groupby("encoding", sort=False):
        row = {"encoding": encoding, "seeds": own["seed"].nunique()}
        row["mean"] = own["accuracy"].mean()
        for size in sizes:
            accuracy = own.loc[own["size"] == size, "accuracy"]
            row[f"{size} px"], row[f"{size} px std"] = accuracy.mean(), accuracy.std()
        row["seconds"] = own.drop_duplicates("seed")["seconds"].mean()
        row["parameters"] = int(own["parameters"].iloc[0])
        rows.append(row)
    return pd.DataFrame(rows).sort_values("mean", ascending=False, ignore_index=True)


def _cells(summary: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    sizes = [name for name in summary.columns if name.endswith(" px")]
    header = ["#", "encoding", *sizes, "mean", "s/run", "params"]
    rows = []
    for rank, row in summary.iterrows():
        accuracies = [_percent(row[size], row[f"{size} std"]) for size in sizes]
        mean = _percent(row["mean"], float("nan"))
        rest = [mean, f"{row['seconds']:.1f}", f"{row['parameters'] / 1000:,.0f}k"]
        rows.append([str(int(rank) + 1), row["encoding"], *accuracies, *rest])
    return header, rows


def _percent(mean: float, spread: float) -> str:
    text = f"{100 * mean:.1f}"
    return text if pd.isna(spread) else f"{text} ± {100 * spread:.1f}"


def show(summary: pd.DataFrame, title: str) -> None:
    """Print the ranked table on the terminal."""
    header, rows = _cells(summary)
    caption = "accuracy in %, mean ± standard deviation over the seeds; best on average first"
    table = Table(
        title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False
    )
    for name in header:
        table.add_column(name, justify="left" if name == "encoding" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def markdown(summary: pd.DataFrame) -> str:
    """The ranked table in Markdown."""
    header, rows = _cells(summary)
    rule = ["---" if name == "encoding" else "---:" for name in header]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def sentence(summary: pd.DataFrame, train_size: int, test_images: int) -> str:
    """Say plainly what the numbers show, and what they do not.

    Differences within the spread over seeds, or within what the number of test images can resolve
    (two standard errors of a proportion), are not called differences.
    """
    sizes = [int(name[:-3]) for name in summary.columns if name.endswith(" px")]
    parts = []
    for size in (train_size, max(sizes)):
        order = summary.sort_values(f"{size} px", ascending=False)
        accuracy = order[f"{size} px"]
        best, worst = order.iloc[0], order.iloc[-1]
        doubt = _doubt(order, size, test_images)
        close = accuracy.iloc[0] - accuracy <= 2 * (doubt + doubt.iloc[0]) ** 0.5
        tied = order.loc[close, "encoding"].tolist()
        where = f"at {size} px" + (", the size trained at," if size == train_size else "")
        span = f"{100 * best[f'{size} px']:.1f} to {100 * worst[f'{size} px']:.1f} %"
        if len(tied) == len(order):
            parts.append(f"{where} all encodings lie from {span}, too close to tell apart")
        else:
            leads = "leads" if len(tied) == 1 else "lead"
            parts.append(f"{where} {_listed(tied)} {leads} (accuracies from {span})")
        if max(sizes) == train_size:
            break
    seeds = int(summary["seeds"].min())
    limits = (
        f"one small network, this training length and {test_images} test images, {seeds} "
        f"seed{'s' if seeds != 1 else ''}: they do not say how the encodings rank on larger "
        "images, longer training or other data"
    )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}. These numbers are of {limits}."


def _doubt(summary: pd.DataFrame, size: int, test_images: int) -> pd.Series:
    """Variance of each mean accuracy: over seeds, and for lack of test images."""
    accuracy = summary[f"{size} px"].clip(0.01, 0.99)
    over_seeds = summary[f"{size} px std"].fillna(0) ** 2 / summary["seeds"].clip(lower=1)
    return over_seeds + accuracy * (1 - accuracy) / test_images


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def picture(summary: pd.DataFrame, train_size: int, title: str, path: Path) -> None:
    """Draw accuracy against image size, one line per encoding."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = [int(name[:-3]) for name in summary.columns if name.endswith(" px")]
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    span = (max(sizes) - min(sizes)) or 1
    for index, row in summary.iterrows():
        shift = (int(index) - (len(summary) - 1) / 2) * 0.006 * span
        style = {"color": COLOURS[int(index) % 8], "marker": MARKERS[int(index) % 8]}
        means = [100 * row[f"{size} px"] for size in sizes]
        spread = [0 if pd.isna(s) else 100 * s for s in (row[f"{size} px std"] for size in sizes)]
        axes.errorbar(
            [size + shift for size in sizes], means, yerr=spread, capsize=2, label=row["encoding"],
            linewidth=1.8, markersize=6, elinewidth=0.9, **style,
        )  # fmt: skip
    axes.axvline(train_size, color="#777777", linestyle=":", linewidth=1)
    axes.annotate(
        "trained at this size", (train_size, 0.02), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", color="#555555", fontsize=9,
    )  # fmt: skip
    axes.set(xlabel="image size in pixels", ylabel="test accuracy in %", title=title, xticks=sizes)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="best on average first", frameon=False, loc="center left",
                bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
