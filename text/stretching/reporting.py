"""What ``text extend`` leaves: a table on the terminal, CSV, JSON, Markdown and a picture."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from text.stretching.drawing import draw
from text.stretching.verdict import verdict


def report(
    results: list[dict[str, Any]], study: Any, options: Any, out: Path, command: str, console: Any
) -> None:
    """Write and print everything.

    Args:
        results: of all measurements.
        study: the decoder and the text.
        options: as parsed.
        out: folder to write to.
        command: that was run.
        console: to print on.
    """
    trained = study.opened.length
    unlisted = ("tails", "curve", "key")
    frame = pd.DataFrame([{k: v for k, v in r.items() if k not in unlisted} for r in results])
    frame.to_csv(out / "results.csv", index=False)
    said = verdict(results, trained)
    windows = len(results[0]["tails"])
    title = (
        f"{options.checkpoint.name}, trained on {trained:,} tokens: loss in nats of the last "
        f"{options.tail} tokens by length"
    )
    draw(results, trained, title, out / "picture.png")
    told = {
        "command": command, "checkpoint": str(options.checkpoint), "data": str(options.data),
        "trained_length": trained, "spans": study.spans, "windows": windows, "tail": options.tail,
        "verdict": said, "rows": [{k: v for k, v in r.items() if k != "key"} for r in results],
    }  # fmt: skip
    (out / "report.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    table = table_of(results, trained)
    text = [f"# {title}", markdown(table), *said, _how(study, options, windows, results)]
    text += [f"Made by `{command}`.", "![picture](picture.png)"]
    (out / "report.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    show(table, title, console)
    for sentence in said:
        console.print(sentence)
    for file in ("results.csv", "report.json", "report.md", "picture.png"):
        console.print(out / file)
    for folder in ("search", "trained"):
        if (out / folder).is_dir():
            console.print(out / folder)


def table_of(results: list[dict[str, Any]], trained: int) -> pd.DataFrame:
    """A row per way and a column per length, best first at the longest.

    Args:
        results: of all measurements.
        trained: length that the model was trained on.

    Returns:
        Columns ``row``, one per length with the loss of what is made for it, ``perplexity`` at the
        longest, and ``short``, what is made for the longest at the trained length.
    """
    lengths = sorted({r["length"] for r in results})
    largest = max(r["factor"] for r in results)
    native = next(r for r in results if r["method"] == "none" and r["length"] == trained)
    cells: dict[str, dict[str, Any]] = {}
    for r in results:
        name = r["method"] if r["kind"] == "untrained" else f"{r['method']}, trained"
        row = cells.setdefault(name, {"row": name, "rank": r["kind"]})
        made = r["kind"] == "tuned" or r["length"] > trained
        if made:
            row[str(r["length"])] = r["loss"]
        else:
            row[str(trained)] = native["loss"]
        if r["length"] == lengths[-1]:
            row["perplexity"] = r["perplexity"]
        if r["length"] == trained and (made or r["factor"] == largest or r is native):
            row["short"] = r["loss"]
    frame = pd.DataFrame(list(cells.values()))
    frame["rank"] = frame["rank"] == "tuned"
    frame = frame.sort_values(["rank", str(lengths[-1])], kind="stable").reset_index(drop=True)
    return frame[["row", *map(str, lengths), "perplexity", "short"]]


def markdown(table: pd.DataFrame) -> str:
    """The table in Markdown."""
    header, rows = _cells(table)
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def show(table: pd.DataFrame, title: str, console: Any) -> None:
    """Print the table on the terminal."""
    header, rows = _cells(table)
    drawn = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in header:
        drawn.add_column(name, justify="left" if name == header[0] else "right")
    for row in rows:
        drawn.add_row(*row)
    console.print(drawn)


def _cells(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    lengths = [name for name in table.columns if name.isdecimal()]
    longest = f"{int(lengths[-1]):,}"
    header = [
        "", *[f"{int(name):,}" for name in lengths], f"perplexity at {longest}",
        f"{int(lengths[0]):,}, made for {longest}",
    ]  # fmt: skip
    rows = []
    for _, row in table.iterrows():
        values = [_written(row[name], 3) for name in lengths]
        rows.append(
            [row["row"], *values, _written(row["perplexity"], 2), _written(row["short"], 3)]
        )
    return header, rows


def _written(value: float, digits: int) -> str:
    return "-" if pd.isna(value) else f"{value:.{digits}f}"


def _how(study: Any, options: Any, windows: int, results: list[dict[str, Any]]) -> str:
    lines = [
        f"- part to {name} on: tokens {a:,} to {b - 1:,}" for name, (a, b) in study.spans.items()
    ]
    lines.append(
        f"- {windows} windows of each length, which end at the same tokens; the loss is that of "
        f"their last {options.tail} tokens"
    )
    searched = {r["factor"]: r for r in results if r["method"] == "search"}
    lines += [f"- searched for x{factor:g}: {r['reading']}" for factor, r in searched.items()]
    tuned = {r["method"]: r for r in results if r["kind"] == "tuned"}
    lines += [
        f"- {method}, trained: {r['steps']} steps, {r['tokens_seen']:,} tokens, "
        f"{r['training_seconds']:.0f} s on {study.device}"
        for method, r in tuned.items()
    ]
    return "\n".join(lines)
