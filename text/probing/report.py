"""What a probe found: tables, a heat map and sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from text.verdict import listed


def frame(results: list[dict[str, Any]]) -> pd.DataFrame:
    """List what was found: a row per run, length and depth, empty where it cannot be read."""
    return pd.DataFrame(
        {
            "encoding": r["encoding"], "seed": r["seed"], "length": int(length), "depth": depth,
            "accuracy": np.nan if isinstance(shares, str) else shares[k],
            "refusal": shares if isinstance(shares, str) else "",
        }
        for r in results
        for length, shares in r["accuracy"].items()
        for k, depth in enumerate(r["depths"])
    )  # fmt: skip


def maps(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A table per encoding: lengths down, depths across, mean accuracy over the seeds."""
    return {
        encoding: own.pivot_table("accuracy", "length", "depth", dropna=False)
        for encoding, own in runs.groupby("encoding", sort=False)
    }


def ranked(runs: pd.DataFrame) -> pd.DataFrame:
    """Put first the encoding that finds the most over all lengths; what it cannot read is lost."""
    shares = runs["accuracy"].fillna(0.0).groupby(runs["encoding"], sort=False).mean()
    best = shares.sort_values(ascending=False, kind="stable").index
    return runs.set_index("encoding").loc[best].reset_index()


def ranking(runs: pd.DataFrame) -> str:
    """A table in Markdown: the mean over the depths by length, and its spread over the seeds.

    Args:
        runs: of :func:`ranked`.

    Returns:
        A row per encoding, with its rank and its mean over all lengths, by which it is ranked.
    """
    return _markdown(*_ranks(runs))


def _ranks(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    lengths = sorted(runs["length"].unique())
    header = ["#", "encoding", *map(str, lengths), "all"]
    rows = []
    for rank, (encoding, own) in enumerate(runs.groupby("encoding", sort=False), 1):
        cells = []
        for length in lengths:
            found = own[own["length"] == length].groupby("seed")["accuracy"].mean() * 100
            spread = f" ± {found.std():.0f}" if len(found) > 1 else ""
            cells.append("-" if found.isna().any() else f"{found.mean():.0f}{spread}")
        rows.append([str(rank), encoding, *cells, f"{100 * own['accuracy'].fillna(0).mean():.0f}"])
    return header, rows


def _cells(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    depths = sorted(runs["depth"].unique())
    header = ["encoding", "length", *(f"{100 * depth:.0f} %" for depth in depths)]
    rows = []
    for encoding, found in maps(runs).items():
        for length, shares in found.iterrows():
            cells = ["-" if pd.isna(share) else f"{100 * share:.0f}" for share in shares]
            rows.append([encoding, str(length), *cells])
    return header, rows


def show(runs: pd.DataFrame, title: str) -> None:
    """Print on the terminal the ranks of encodings, if there are several, and what was found."""
    if runs["encoding"].nunique() > 1:
        _print(*_ranks(runs), "ranked by what is found at all lengths", "found, in %, by length")
    caption = "found, in %, by the depth of the key: 0 % at the beginning; -: cannot be read"
    _print(*_cells(runs), title, caption)


def _print(header: list[str], rows: list[list[str]], title: str, caption: str) -> None:
    table = Table(
        title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False
    )
    for name in header:
        table.add_column(name, justify="left" if name == "encoding" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def markdown(runs: pd.DataFrame) -> str:
    """The table of lengths and depths in Markdown."""
    return _markdown(*_cells(runs))


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---" if name == "encoding" else "---:" for name in header]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def sentences(runs: pd.DataFrame, trained: int, samples: int, chance: float) -> str:
    """Say plainly where keys are found, and where they are lost.

    A share of keys found is only as certain as the windows are many: two standard errors of a
    proportion are called no difference. What finds fewer than half at the length trained at has
    not learnt to look, so that nothing is said of where it loses them.

    Args:
        runs: of :func:`frame`.
        trained: tokens of the windows trained at.
        samples: windows per cell, over all seeds.
        chance: share that guessing finds.

    Returns:
        A paragraph.
    """
    learnt, longest, middle, unread, half = [], [], [], [], []
    last = int(runs["length"].max())
    for encoding, found in maps(runs).items():
        if trained in found.index:
            own = found.loc[trained].mean()
            if own <= chance + _error(own, samples * found.shape[1]):
                unread.append(encoding)
                continue
            if own < 0.5:
                half.append(f"{encoding} {100 * own:.0f} %")
                continue
            learnt.append(f"{encoding} {100 * own:.0f} %")
        shares = found.loc[last].to_numpy()
        if np.isnan(shares).any():
            longest.append(f"{encoding} cannot read them")
            continue
        longest.append(f"{encoding} {100 * shares.mean():.0f} %")
        ends, inside = min(shares[0], shares[-1]), shares[1:-1]
        if len(inside) and inside.min() < ends - _error(inside.min(), samples) - _error(
            ends, samples
        ):
            middle.append(encoding)
    said = []
    if learnt:
        said.append(
            f"At {trained} tokens, the length trained at, keys are found by {listed(learnt)}."
        )
    if unread:
        said.append(
            f"{listed(unread)} found no more than guessing would ({100 * chance:.0f} %) even at "
            f"{trained} tokens: this says nothing of longer windows."
        )
    if half:
        said.append(
            f"{listed(half)}: less than half at {trained} tokens, where guessing finds "
            f"{100 * chance:.0f} %; longer windows say little of an encoding that has not learnt "
            f"the task."
        )
    if longest and last != trained:
        said.append(f"At {last} tokens: {listed(longest)}.")
    if middle:
        said.append(
            f"Lost in the middle rather than at either end at {last} tokens: {listed(middle)}."
        )
    seeds = runs["seed"].nunique()
    said.append(
        f"A cell is of {samples} windows ({seeds} seed{'s' if seeds != 1 else ''}) and certain to "
        f"about {100 * _error(0.5, samples):.0f} points."
    )
    return " ".join(said)


def _error(share: float, samples: int) -> float:
    """Two standard errors of a share."""
    kept = min(max(share, 0.01), 0.99)
    return 2 * (kept * (1 - kept) / samples) ** 0.5


def picture(runs: pd.DataFrame, title: str, chance: float, path: Path) -> None:
    """Draw a heat map per encoding: depth across, length down; guessing marked on the scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    every = maps(runs)
    columns = min(4, len(every))
    lines = -(-len(every) // columns)
    figure, grid = pyplot.subplots(
        lines, columns, figsize=(3.4 * columns + 1.2, 2.4 * lines + 0.6), squeeze=False,
        layout="constrained", sharex=True, sharey=True,
    )  # fmt: skip
    colours = matplotlib.colormaps["cividis"].with_extremes(bad="#dddddd")
    for axes, (encoding, found) in zip(grid.flat, every.items(), strict=False):
        image = axes.imshow(found.to_numpy(), vmin=0, vmax=1, cmap=colours, aspect="auto")
        refused = found.isna().all(axis=1)
        for row in np.flatnonzero(refused):
            axes.text((found.shape[1] - 1) / 2, row, "cannot be read", ha="center", va="center")
        axes.set_title(encoding, fontsize=10)
        axes.set_yticks(range(len(found)), labels=map(str, found.index))
        ends = [0, found.shape[1] - 1]
        axes.set_xticks(ends, labels=[f"{100 * found.columns[k]:.0f} %" for k in ends])
    for place, axes in enumerate(grid.flat):
        if place >= len(every):
            axes.set_axis_off()
        elif place + columns >= len(every):
            axes.tick_params(labelbottom=True)  # nothing is drawn below that would say it
    bar = figure.colorbar(image, ax=grid, label="keys found", fraction=0.05)
    shares = {0.0: "0 %", chance: f"{100 * chance:.0f} %: guessing", 0.5: "50 %", 1.0: "100 %"}
    bar.set_ticks(list(shares), labels=list(shares.values()))
    bar.ax.axhline(chance, color="white", linewidth=2)
    figure.supxlabel("depth of the key")
    figure.supylabel("tokens of context")
    figure.suptitle(title)
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
