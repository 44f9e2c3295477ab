"""The picture of ``text extend``: loss against position, and against length."""

from pathlib import Path
from typing import Any

# Okabe and Ito's colours, told apart by colour-blind readers too; lines differ as well.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999", "#000000"]
LINES = ["-", "--", "-.", ":"]


def draw(results: list[dict[str, Any]], trained: int, title: str, path: Path) -> None:
    """Draw both.

    Args:
        results: of all measurements.
        trained: length that the model was trained on.
        title: of the picture.
        path: of the file to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    longest = max(r["length"] for r in results)
    rows = list(dict.fromkeys((r["kind"], r["method"]) for r in results))
    for index, row in enumerate(rows):
        own = [r for r in results if (r["kind"], r["method"]) == row]
        name = row[1] if row[0] == "untrained" else f"{row[1]}, trained"
        style = {
            "color": COLOURS[index % 8], "linestyle": LINES[index // 8 % 4],
            "linewidth": 2.2 if row[0] == "tuned" else 1.4,
        }  # fmt: skip
        at = next((r for r in own if r["length"] == longest), None)
        if at is not None:
            left.plot(*zip(*at["curve"], strict=True), label=name, **style)
        made = [r for r in own if r["kind"] == "tuned" or r["length"] > trained or r["factor"] == 1]
        made.sort(key=lambda r: r["length"])
        right.plot([r["length"] for r in made], [r["loss"] for r in made], marker="o", **style)
    native = next(r for r in results if r["method"] == "none" and r["length"] == trained)
    for axes in (left, right):
        axes.axvline(trained, color="#777777", linestyle=":", linewidth=1)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    # The untouched model at its own length is what all others are compared with.
    right.axhline(native["loss"], color="#777777", linestyle=":", linewidth=1)
    left.set(
        xlabel="position", ylabel="loss in nats per token", title=f"texts of {longest:,} tokens"
    )
    right.set(xlabel="tokens of context", title="last tokens of each text", xscale="log")
    right.set_xticks(sorted({r["length"] for r in results}))
    right.set_xticks([], minor=True)
    right.xaxis.set_major_formatter(pyplot.FuncFormatter(lambda x, _: f"{x:,.0f}"))
    figure.legend(loc="outside right center", frameon=False)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)
