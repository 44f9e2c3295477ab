"""What a comparison found: a ranked table, two files, a picture and a few sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Okabe and Ito's colours, told apart by colour-blind readers too; markers differ as well.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
# Of what is not trained step by step.
GREYS = ["#000000", "#666666", "#999999", "#444444", "#BBBBBB"]
THIN_MARKERS = ["*", "x", "+", "1", "2"]


def frame(results: list[dict[str, Any]]) -> pd.DataFrame:
    """Tabulate results of :func:`timeseries.runs.run`: a row per run and lookback."""
    return pd.DataFrame(
        {"forecast": one["forecast"], "trained": one["trained"], "seed": one["seed"],
         "lookback": int(lookback), **scores, "seconds": round(one["seconds"], 2),
         "parameters": one["parameters"]}
        for one in results
        for lookback, scores in one["scores"].items()
    )  # fmt: skip


def reasons(results: list[dict[str, Any]]) -> str:
    """Say why what cannot run at a lookback cannot, a paragraph per encoding."""
    where: dict[str, list[str]] = {}
    for one in results:
        if one["why"]:
            where.setdefault(one["forecast"], [*one["why"], next(iter(one["why"].values()))])
    return "".join(
        f"{name} cannot run at a lookback of {' or '.join(lookbacks)}: {reason}.\n\n"
        for name, (*lookbacks, reason) in where.items()
    )


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over seeds and rank.

    Args:
        runs: a row per run and lookback, see :func:`frame`: ``forecast`` (the name of an encoding
            or a baseline), ``trained`` (whether step by step, from a seed), ``seed, lookback``, the
            fields of :class:`timeseries.scores.Scores`, ``seconds`` and ``parameters``.

    Returns:
        A row per forecast, best first by mean squared error at the lookback trained at, the
        smallest: per lookback the means over seeds of ``mse`` and ``mae``, their standard
        deviations (NaN for a single seed) and the mean ``stretches``, all of them NaN or None where
        it cannot run, then errors across changes of the clocks, seconds and parameters.
    """
    lookbacks = sorted(runs["lookback"].unique())
    rows = []
    for name, own in runs.groupby("forecast", sort=False):
        first = own[own["lookback"] == lookbacks[0]]
        row = {"forecast": name, "trained": bool(first["trained"].iloc[0])}
        row["seeds"] = first["seed"].nunique()
        for lookback in lookbacks:
            there = own[own["lookback"] == lookback]
            for error in ("mse", "mae"):
                row[f"{lookback} {error}"] = there[error].mean()
                row[f"{lookback} {error} std"] = there[error].std()
            row[f"{lookback} stretches"] = _stretches(there)
        for error in ("mae_change", "mae_rest"):
            row[error] = first[error].astype(float).mean()
        row |= {name: int(first[name].iloc[0]) for name in ("changes", "windows")}
        row["seconds"], row["parameters"] = first["seconds"].mean(), first["parameters"].iloc[0]
        rows.append(row)
    return pd.DataFrame(rows).sort_values(f"{lookbacks[0]} mse", ignore_index=True)


def _stretches(runs: pd.DataFrame) -> np.ndarray | None:
    return np.mean(runs["stretches"].tolist(), axis=0) if len(runs) else None


def lookbacks_of(summary: pd.DataFrame) -> list[int]:
    """The lookbacks that a summary has columns for; the first is the one trained at."""
    return [int(name.split()[0]) for name in summary.columns if name.endswith(" mse")]


def _cells(summary: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    lookbacks = lookbacks_of(summary)
    header = ["#", "forecast", *(f"MSE L={lookback}" for lookback in lookbacks)]
    single = {f"MAE L={lookbacks[0]}": f"{lookbacks[0]} mae"}
    if summary["changes"].max() > 0:
        single |= {"MAE change": "mae_change", "MAE rest": "mae_rest"}
    header += [*single, "s/run", "params"]
    rows = []
    for rank, row in summary.iterrows():
        errors = [_spread(row[f"{lookback} mse"], row[f"{lookback} mse std"])
                  for lookback in lookbacks]  # fmt: skip
        errors += ["n/a" if pd.isna(row[name]) else shown(row[name]) for name in single.values()]
        size = row["parameters"]
        size = f"{size / 1000:,.0f}k" if size else "0"
        rows.append([str(int(rank) + 1), row["forecast"], *errors, f"{row['seconds']:.1f}", size])
    return header, rows


def shown(value: float, like: float | None = None) -> str:
    """Write three digits of an error, and three decimals at least.

    Args:
        value: to write.
        like: with as many decimals as this one has, unless None.
    """
    like = value if like is None else like
    digits = 3 if not like > 0 else int(np.clip(2 - np.floor(np.log10(like)), 3, 8))
    return f"{value:.{digits}f}"


def _spread(mean: float, spread: float) -> str:
    if pd.isna(mean):
        return "n/a"
    return shown(mean) if pd.isna(spread) else f"{shown(mean)} ± {shown(spread, mean)}"


def show(summary: pd.DataFrame, title: str) -> None:
    """Print the ranked table on the terminal."""
    header, rows = _cells(summary)
    caption = (
        "errors of scaled columns, mean ± standard deviation over the seeds; L: rows seen;\n"
        "n/a: cannot run there; ranked by the MSE at the lookback trained at;\n"
        "ridge: linear, solved for, without encodings and with that of the base"
    )
    if summary["changes"].max() > 0:
        caption += "\nchange: windows in which the clocks are set; rest: the others"
    table = Table(
        title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False
    )
    for name in header:
        table.add_column(name, justify="left" if name == "forecast" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    # Rather lines too long than numbers cut short.
    Console(width=max(Console().width, 120)).print(table)


def markdown(summary: pd.DataFrame) -> str:
    """The ranked table in Markdown."""
    header, rows = _cells(summary)
    rule = ["---" if name == "forecast" else "---:" for name in header]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def picture(summary: pd.DataFrame, title: str, path: Path) -> None:
    """Draw the error against the lookback: a line per encoding, baselines dashed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lookbacks = lookbacks_of(summary)
    figure, axes = pyplot.subplots(figsize=(8.5, 5), layout="constrained")
    span = (max(lookbacks) - min(lookbacks)) or 1
    count = {True: 0, False: 0}
    for index, row in summary.iterrows():
        shift = (int(index) - (len(summary) - 1) / 2) * 0.004 * span
        means = np.array([row[f"{lookback} mse"] for lookback in lookbacks])
        spread = np.nan_to_num([row[f"{lookback} mse std"] for lookback in lookbacks])
        trained = row["trained"]
        colours, markers = (COLOURS, MARKERS) if trained else (GREYS, THIN_MARKERS)
        style = {"color": colours[count[trained] % len(colours)],
                 "marker": markers[count[trained] % len(markers)],
                 "linestyle": "-" if trained else "--"}  # fmt: skip
        count[trained] += 1
        axes.errorbar(
            np.array(lookbacks) + shift, means, yerr=spread if trained else None, capsize=2,
            label=row["forecast"], linewidth=1.8 if trained else 1.0, markersize=6, elinewidth=0.9,
            **style,
        )  # fmt: skip
    axes.axvline(lookbacks[0], color="#777777", linestyle=":", linewidth=1)
    axes.annotate(
        "trained at this lookback", (lookbacks[0], 0.02), xycoords=("data", "axes fraction"),
        xytext=(6, 0), textcoords="offset points", color="#555555", fontsize=9,
    )  # fmt: skip
    axes.set(xlabel="lookback in rows", ylabel="test MSE (log scale)", title=title)
    axes.set(xticks=lookbacks, yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="best first", frameon=False, loc="center left",
                bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
