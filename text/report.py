"""What a comparison found: a ranked table, files and a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Okabe and Ito's colours, told apart by colour-blind readers too; markers differ as well.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
CAPTION = (
    "perplexity per token, mean ± standard deviation over the seeds; lowest at the length trained "
    "at first; -: cannot be read"
)


def frame(results: list[dict[str, Any]]) -> pd.DataFrame:
    """List what was measured: a row per run and length, empty where it cannot be read."""
    return pd.DataFrame(
        {
            "encoding": r["encoding"], "seed": r["seed"], "length": int(length),
            "loss": score.get("loss", np.nan), "perplexity": score.get("perplexity", np.nan),
            "bits_per_byte": score.get("bits_per_byte", np.nan),
            "tokens": score.get("tokens", 0), "seconds": round(r["seconds"], 2),
            "parameters": r["parameters"], "refusal": score.get("refusal", ""),
            "curve": score.get("curve", []), "stretches": score.get("stretches", []),
        }
        for r in results
        for length, score in r["scores"].items()
    )  # fmt: skip


def curves(runs: pd.DataFrame) -> pd.DataFrame:
    """List the loss by context: a row per run, length and point of the curve."""
    rows = [
        (run["encoding"], run["seed"], run["length"], seen, loss)
        for _, run in runs.iterrows()
        for seen, loss in run["curve"]
    ]
    return pd.DataFrame(rows, columns=["encoding", "seed", "length", "context", "loss"])


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over seeds and rank by the loss at the shortest length, the one trained at.

    Args:
        runs: of :func:`frame`.

    Returns:
        A row per encoding, best first: ``seeds``, mean ``seconds`` and ``parameters``; per length
        ``"128 loss"`` and ``"128 perplexity"`` with their deviations over the seeds (``std``),
        ``"128 bits"`` per byte, ``"128 change std"``, the deviation over the seeds of what the loss
        is more than at the shortest length, and ``"128 stretches"``, the losses of parts of the
        text.
    """
    rows = []
    for encoding, own in runs.groupby("encoding", sort=False):
        row = {"encoding": encoding, "seeds": own["seed"].nunique()}
        row["seconds"] = own.drop_duplicates("seed")["seconds"].mean()
        row["parameters"] = int(own["parameters"].iloc[0])
        losses = own.pivot(index="seed", columns="length", values="loss")
        for length, at in own.groupby("length"):
            row[f"{length} change std"] = (losses[length] - losses[losses.columns[0]]).std()
            for name in ("loss", "perplexity"):
                row[f"{length} {name}"], row[f"{length} {name} std"] = (
                    at[name].mean(),
                    at[name].std(),
                )
            row[f"{length} bits"] = at["bits_per_byte"].mean()
            row[f"{length} stretches"] = np.array(at["stretches"].tolist()).mean(axis=0)
        rows.append(row)
    summary = pd.DataFrame(rows)
    return summary.sort_values(f"{lengths_of(summary)[0]} loss", ignore_index=True)


def lengths_of(summary: pd.DataFrame) -> list[int]:
    """The lengths that a summary tells of, in increasing order."""
    return sorted(int(name.split()[0]) for name in summary.columns if name.endswith(" bits"))


def refusals(runs: pd.DataFrame) -> str:
    """Say what could not be read, and why, in the words of the encoding."""
    refused = runs[runs["refusal"] != ""].drop_duplicates(["encoding", "length"])
    lines = []
    for encoding, own in refused.groupby("encoding", sort=False):
        lengths = ", ".join(map(str, own["length"]))
        lines.append(f"`{encoding}` cannot read {lengths} tokens: {own['refusal'].iloc[0]}.\n")
    return "".join(lines) + ("\n" if lines else "")


def _cells(summary: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    lengths = lengths_of(summary)
    header = ["#", "encoding", *map(str, lengths), "bits/byte", "s/run", "params"]
    rows = []
    for rank, row in summary.iterrows():
        means = [_shown(row[f"{n} perplexity"], row[f"{n} perplexity std"]) for n in lengths]
        rest = [f"{row['seconds']:.1f}", f"{row['parameters'] / 1000:,.0f}k"]
        bits = f"{row[f'{lengths[0]} bits']:.3f}"
        rows.append([str(int(rank) + 1), row["encoding"], *means, bits, *rest])
    return header, rows


def _shown(mean: float, spread: float) -> str:
    if pd.isna(mean):
        return "-"
    digits = 2 if mean < 100 else 0
    text = f"{mean:,.{digits}f}"
    return text if pd.isna(spread) else f"{text} ± {spread:,.{digits}f}"


def show(summary: pd.DataFrame, title: str) -> None:
    """Print the ranked table on the terminal."""
    header, rows = _cells(summary)
    table = Table(
        title=title, caption=CAPTION, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False
    )
    for name in header:
        table.add_column(name, justify="left" if name == "encoding" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    # Written to a file, there is no window whose width would matter.
    (console if console.is_terminal else Console(width=110)).print(table)


def markdown(summary: pd.DataFrame) -> str:
    """The ranked table in Markdown."""
    header, rows = _cells(summary)
    rule = ["---" if name == "encoding" else "---:" for name in header]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def picture(
    runs: pd.DataFrame, summary: pd.DataFrame, trained: int, title: str, path: Path
) -> None:
    """Draw perplexity against length, and loss against context."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, ScalarFormatter

    lengths = lengths_of(summary)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    every = curves(runs)
    for rank, row in summary.iterrows():
        style = {"color": COLOURS[int(rank) % 8], "linewidth": 1.8}
        read = [n for n in lengths if not pd.isna(row[f"{n} perplexity"])]
        means = [row[f"{n} perplexity"] for n in read]
        spread = [np.nan_to_num(row[f"{n} perplexity std"]) for n in read]
        left.errorbar(
            read, means, yerr=spread, capsize=2, marker=MARKERS[int(rank) % 8],
            label=row["encoding"], **style,
        )  # fmt: skip
        own = every[every["encoding"] == row["encoding"]]
        # Short windows are many: what they have of context is known best from them.
        beyond = own["length"].map(dict(zip(lengths, [0, *lengths], strict=False)))
        curve = own[own["context"] > beyond].groupby("context")["loss"].mean()
        right.plot(curve.index, curve, **style)
    left.set(xlabel="tokens of a window", ylabel="perplexity", xscale="log")
    left.set_xticks(lengths, labels=map(str, lengths))
    left.minorticks_off()
    low, high = left.get_ylim()
    if low > 0 and high > 5 * low:
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        left.yaxis.set_major_formatter(ScalarFormatter())
    right.set(xlabel="tokens of context", ylabel="loss in nats", xscale="log")
    for axes in (left, right):
        axes.axvline(trained, color="#777777", linestyle=":", linewidth=1)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    right.annotate(
        "trained up to here", (trained, 0.97), xycoords=("data", "axes fraction"), xytext=(4, 0),
        textcoords="offset points", color="#555555", fontsize=9,
    )  # fmt: skip
    figure.suptitle(title)
    figure.legend(title="lowest first", frameon=False, loc="outside right center")
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
