"""What ``vision resize`` leaves: a table on the terminal, CSV, JSON, Markdown and a picture."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from vision.resizing.drawing import draw
from vision.resizing.verdict import verdict

Pair = tuple[int, int]
HEADS = {
    "native": "as it is", "rule": "table resized", "baseline": "instead",
    "trained": "and trained a little",
}  # fmt: skip


def report(
    results: list[dict[str, Any]], study: Any, options: Any, out: Path, command: str, console: Any
) -> None:
    """Write and print everything.

    Args:
        results: of all measurements, the native one first.
        study: the model and pictures.
        options: as parsed.
        out: folder to write to.
        command: that was run.
        console: to print on.
    """
    native = study.opened.native
    labelled = study.labels is not None
    frame = pd.DataFrame([_flat(result) for result in results])
    frame.to_csv(out / "results.csv", index=False)
    scores = {
        (result["row"], tuple(result["size"])): result["scores"]
        for result in results
        if "scores" in result
    }
    table = table_of(results, native)
    said = verdict(scores, results, native, labelled)
    name = Path(options.checkpoint).name
    measure = "accuracy in %" if labelled else "mean cosine of features with the native size's"
    title = f"{name}, trained at {_side(native)} px: {measure} by image size"
    draw(table, title, labelled, out / "picture.png")
    told = {
        "command": command, "checkpoint": options.checkpoint, "native": native,
        "measure": "accuracy" if labelled else "cosine", "pictures": len(results[0]["scores"]),
        "notes": study.notes, "verdict": said,
        "rows": [{key: value for key, value in r.items() if key not in ("scores", "key")}
                 for r in results],
    }  # fmt: skip
    (out / "report.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    text = [f"# {title}", markdown(table, labelled), *said, *_how(study, results)]
    text += [f"Made by `{command}`.", "![picture](picture.png)"]
    (out / "report.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    show(table, title, labelled, console)
    for sentence in said:
        console.print(sentence)
    for file in ("results.csv", "report.json", "report.md", "picture.png"):
        console.print(out / file)
    if any(result["kind"] == "trained" for result in results):
        console.print(out / "trained")


def table_of(results: list[dict[str, Any]], native: Pair) -> pd.DataFrame:
    """A row per way and a column per size, best first within each kind.

    Args:
        results: of all measurements, the native one first.
        native: the size trained at, whose column is the same wherever nothing changes there.

    Returns:
        Columns ``row, kind``, one per size from small to large, and ``mean`` over the sizes other
        than the native one (NaN if one of them is missing).
    """
    sizes = sorted({tuple(r["size"]) for r in results}, key=lambda size: (size[0] * size[1], size))
    others = [_side(size) for size in sizes if size != native]
    cells: dict[str, dict[str, Any]] = {}
    whole = _mean(results[0]["scores"])
    for result in results:
        row = cells.setdefault(result["row"], {"row": result["row"], "kind": result["kind"]})
        if result["kind"] in ("rule", "native") or result["what"] in ("shrink", "patches"):
            row.setdefault(_side(native), whole)
        if "scores" in result:
            row[_side(tuple(result["size"]))] = _mean(result["scores"])
    frame = pd.DataFrame(list(cells.values())).reindex(columns=["row", "kind", *map(_side, sizes)])
    frame["mean"] = frame[others].mean(axis=1, skipna=False) if others else float("nan")
    frame["rank"] = frame["kind"].map({kind: place for place, kind in enumerate(HEADS)})
    frame = frame.sort_values(["rank", "mean"], ascending=[True, False], kind="stable")
    return frame[frame["kind"] != "native"].drop(columns="rank").reset_index(drop=True)


def markdown(table: pd.DataFrame, labelled: bool) -> str:
    """The table in Markdown."""
    header, rows = _cells(table, labelled)
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def show(table: pd.DataFrame, title: str, labelled: bool, console: Any) -> None:
    """Print the table on the terminal."""
    header, rows = _cells(table, labelled)
    drawn = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in header:
        drawn.add_column(name, justify="left" if name == header[0] else "right")
    kinds = table["kind"].tolist()
    for index, row in enumerate(rows):
        drawn.add_row(*row, end_section=kinds[index] != kinds[min(index + 1, len(kinds) - 1)])
    console.print(drawn)


def _cells(table: pd.DataFrame, labelled: bool) -> tuple[list[str], list[list[str]]]:
    sizes = [name for name in table.columns if name not in ("row", "kind", "mean")]
    header = ["", *[f"{size} px" for size in sizes], "mean elsewhere"]
    rows = []
    for _, row in table.iterrows():
        values = [written(row[size], labelled) for size in (*sizes, "mean")]
        rows.append([row["row"], *values])
    return header, rows


def written(value: float, labelled: bool) -> str:
    """Accuracy in percent, or a cosine; a dash where there is none."""
    if pd.isna(value):
        return "-"
    return f"{100 * value:.1f}" if labelled else f"{value:.4f}"


def _how(study: Any, results: list[dict[str, Any]]) -> list[str]:
    lines = [f"- {note}" for note in study.notes]
    lines.append(
        f"- pictures are brought to each size by {study.data.interpolation} weights, with "
        f"antialias, until they cover it, and what sticks out is cut on both sides: a small "
        f"picture that is enlarged holds no more detail than it had"
    )
    trained = {r["row"]: r for r in results if r["kind"] == "trained"}
    lines += [
        f"- {row}: {r['pictures']} pictures, {r['numbers']:,} numbers trained, "
        f"{r['training_seconds']:.0f} s on {study.device}; {100 * r['before']:.1f} % right there "
        f"before the training"
        for row, r in trained.items()
    ]
    refused = {r["row"]: r for r in results if "refused" in r}
    lines += [f"- {row}, {_side(tuple(r['size']))} px: {r['refused']}"
              for row, r in refused.items()]  # fmt: skip
    return ["\n".join(lines)]


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    height, width = result["size"]
    rest = {
        key: value
        for key, value in result.items()
        if key not in ("scores", "key", "size", "row", "kind", "what")
    }
    named = {key: result[key] for key in ("row", "kind", "what")}
    return {**named, "height": height, "width": width, **rest}


def _mean(scores: list[float]) -> float:
    return sum(scores) / len(scores)


def _side(size: Pair) -> str:
    return str(size[0]) if size[0] == size[1] else f"{size[0]}x{size[1]}"
