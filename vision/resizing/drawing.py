"""The picture of ``vision resize``: ways down, sizes across, and what each keeps."""

from pathlib import Path

import numpy as np
import pandas as pd


def draw(table: pd.DataFrame, title: str, labelled: bool, path: Path) -> None:
    """Draw the table as coloured cells with their numbers.

    Args:
        table: rows and sizes.
        title: of the picture.
        labelled: whether numbers are of accuracy, else of cosines.
        path: of the file to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = [name for name in table.columns if name not in ("row", "kind", "mean")]
    values = table[sizes].to_numpy(dtype=float) * (100 if labelled else 1)
    height, width = 1.3 + 0.36 * len(table), 4.2 + 0.85 * len(sizes)
    figure, axes = pyplot.subplots(figsize=(max(width, 8), height), layout="constrained")
    shown = np.ma.masked_invalid(values)
    low, high = float(shown.min()), float(shown.max())
    image = axes.imshow(shown, aspect="auto", cmap="cividis", vmin=low, vmax=high)
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            axes.text(column, row, "-", ha="center", va="center", color="#777777")
            continue
        bright = value > low + 0.55 * (high - low)
        text = f"{value:.1f}" if labelled else f"{value:.3f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=9,
                  color="black" if bright else "white")  # fmt: skip
    axes.set_xticks(range(len(sizes)), [f"{size} px" for size in sizes])
    axes.set_yticks(range(len(table)), table["row"])
    kinds = table["kind"].tolist()
    for row in range(1, len(kinds)):
        if kinds[row] != kinds[row - 1]:
            axes.axhline(row - 0.5, color="white", linewidth=4)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.8, label="accuracy in %" if labelled else "cosine")
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
