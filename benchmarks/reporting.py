"""What a run leaves: JSON of a stable form, tables to read, and the blocks of the README."""

import dataclasses
import datetime
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from benchmarks.comparing import Table
from benchmarks.measuring import exponent

SCHEMA = 1
PACKAGES = (
    "transformers", "timm", "rotary-embedding-torch", "x-transformers", "positional-encodings",
    "flash-attn", "liger-kernel", "pandas",
)  # fmt: skip
README = Path(__file__).with_name("README.md")
BLOCK = "<!-- results: {0} -->\n{1}<!-- end: {0} -->"


@dataclass
class Growth:
    """Seconds and memory of one way at several sizes, and the fitted exponents."""

    title: str
    name: str
    sizes: list[int]
    seconds: list[float]
    peak_bytes: list[int]
    exponent: float


def grown(title: str, sizes: Sequence[int], tables: Sequence[Table]) -> list[Growth]:
    """Fit growth for each way that was measured at every size, two sizes at least."""
    if len(sizes) < 2:
        return []
    found = []
    for rows in zip(*(table.rows for table in tables), strict=True):
        if all(row.seconds for row in rows):
            seconds = [row.seconds.median for row in rows]
            peaks = [row.peak_bytes or 0 for row in rows]
            fitted = exponent(sizes, seconds)
            found.append(Growth(title, rows[0].name, list(sizes), seconds, peaks, fitted))
    return found


def environment(device: str) -> dict[str, object]:
    """Say where and with what, and how busy the machine was at the start."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if "cuda" in device else "cpu",
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "packages": {name: version(name) for name in PACKAGES},
    }


def cpu_model() -> str:
    """Name the processor."""
    try:
        said = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        said = ""
    found = re.search(r"^model name\s*:\s*(.+)$", said, re.M)
    return found[1].strip() if found else platform.processor() or platform.machine()


def version(package: str) -> str | None:
    """Give the version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def document(
    subject: str,
    command: str,
    where: Mapping[str, object],
    options: Mapping[str, object],
    tables: Sequence[Table],
    growth: Sequence[Growth],
) -> dict[str, Any]:
    """Collect what a run found as plain lists, numbers and words."""
    plain = {
        "schema": SCHEMA,
        "subject": subject,
        "command": command,
        "environment": dict(where),
        "options": dict(options),
        "tables": [_plain(table) for table in tables],
        "growth": [_plain(row) for row in growth],
    }
    return json.loads(json.dumps(plain))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def markdown(found: Mapping[str, Any]) -> str:
    """Write the tables of one document, under the command that made them."""
    where = found["environment"]
    installed = [f"{name} {v}" for name, v in where["packages"].items() if v]
    lines = [
        "```bash",
        found["command"],
        "```",
        "",
        f"{where['date']}, {where['cpu']}, {where['cores']} cores, {where['threads']} threads, "
        f"load {where['load']} at the start, device {where['device']}, Python {where['python']}, "
        f"torch {where['torch']}" + "".join(f", {text}" for text in installed) + ".",
        "",
    ]
    for table in found["tables"]:
        lines += _table(table)
    titles = dict.fromkeys(row["title"] for row in found["growth"])
    for title in titles:
        lines += _growth(title, [row for row in found["growth"] if row["title"] == title])
    return "\n".join(lines)


def _table(table: Mapping[str, Any]) -> list[str]:
    head = "| way | time | × base | middle half | × ours | peak × base | error | note |"
    rule = "|---|" + "---:|" * 6 + "---|"
    lines = [f"**{table['title']}**; base: {table['unit']}", "", head, rule]
    unit = table["unit_bytes"]
    for row in table["rows"]:
        ratio, faster, peak = row["ratio"], row["to_ours"], row["peak_bytes"]
        modules = f"{row['modules']} modules" if row["modules"] is not None else ""
        cells = [
            f"**{row['name']}**" if row["kind"] == "ours" else row["name"],
            _time(row["seconds"]["median"]) if row["seconds"] else "",
            _ratio(ratio["median"]) if ratio else "",
            f"{_ratio(ratio['low'])} to {_ratio(ratio['high'])}" if ratio else "",
            _ratio(faster["median"]) if faster else "",
            _ratio(peak / unit) if peak is not None and unit else "",
            f"{row['error']:.0e}" if row["error"] is not None else "",
            "; ".join(part for part in (modules, row["note"]) if part),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for best in table["fastest"]:
        times = best["to_ours"]
        lines.append(
            f"- {best['group'] or 'All'}: the fastest peer is {best['peer']}, which takes "
            f"{_ratio(times['median'])} times ours ({_ratio(times['low'])} to "
            f"{_ratio(times['high'])})."
        )
    return [*lines, ""] if table["fastest"] else lines


def _growth(title: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    sizes = rows[0]["sizes"]
    head = "| way | " + " | ".join(f"{size:,}" for size in sizes) + " | exponent |"
    lines = [f"**Growth: {title}**", "", head, "|---|" + "---:|" * (len(sizes) + 1)]
    for row in rows:
        times = " | ".join(_time(seconds) for seconds in row["seconds"])
        lines.append(f"| {row['name']} | {times} | {row['exponent']:.2f} |")
    return [*lines, ""]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.1g}"


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def rewritten(text: str, found: Mapping[str, Any]) -> str:
    """Put the tables of a document into its marked block of a README.

    Raises:
        ValueError: the README has no block of that name, or several.
    """
    name = found["subject"]
    pattern = re.compile(re.escape(BLOCK.format(name, "@")).replace("@", "(?:.|\n)*?"))
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the README must have one block between marks '<!-- results: {name} -->'")
    return pattern.sub(lambda _: BLOCK.format(name, f"\n{markdown(found)}\n"), text)
