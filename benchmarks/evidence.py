"""Ship what was measured: results of the applications as the small tables that `choose` reads.

    python -m benchmarks.evidence runs

reads ``results.csv`` of every comparison found in a folder of runs, and the tables that pages of
the applications show, and rewrites ``posenc_mm/choosing/evidence``. What is not found in the folder
stays as it is shipped. Run it on the machine that made the runs: it notes the machine and versions.
"""

import argparse
import csv
import datetime
import itertools
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.evidence_studies import PAGES, RUNS, Page, Run
from benchmarks.evidence_values import Value
from benchmarks.reporting import environment

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "posenc_mm" / "choosing" / "evidence"
ROWS = [
    "study", "data", "encoding", "condition", "setting", "metric", "better", "mean", "std",
    "resolution", "seeds", "parameters",
]  # fmt: skip
STUDIES = [
    "study", "modality", "subject", "times", "file", "command", "date", "machine", "versions",
    "baselines", "what", "limits",
]  # fmt: skip
DIGITS = 6


def main(argv: list[str] | None = None) -> None:
    """Rewrite the shipped evidence.

    Args:
        argv: arguments, those of the process unless given.
    """
    parser = argparse.ArgumentParser("python -m benchmarks.evidence", description=__doc__)
    parser.add_argument("runs", type=Path, help="folder of runs, such as runs")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write into")
    options = parser.parse_args(argv)
    found: dict[str, tuple[dict[str, str], list[dict[str, str]]]] = {}
    for run in RUNS:
        folder = options.runs / run.folder
        if (folder / "results.csv").is_file():
            found[run.study] = _of_run(run, folder)
    for page in PAGES:
        found[page.study] = _of_page(page)
    write(found, options.out)


def write(found: dict[str, tuple[dict[str, str], list[dict[str, str]]]], out: Path) -> None:
    """Replace the studies that were found, and keep the others.

    Args:
        found: of each study its line and its rows.
        out: folder to write into.
    """
    out.mkdir(parents=True, exist_ok=True)
    studies = [line for line in _read(out / "studies.csv") if line["study"] not in found]
    rows = [row for line in studies for row in _read(out / line["file"])
            if row["study"] == line["study"]]  # fmt: skip
    studies += [line for line, _ in found.values()]
    rows += [row for _, own in found.values() for row in own]
    order = [each.study for each in (*RUNS, *PAGES)]
    studies.sort(key=lambda line: order.index(line["study"]))
    for file in sorted({line["file"] for line in studies}):
        names = [line["study"] for line in studies if line["file"] == file]
        _write(out / file, ROWS, (row for name in names for row in rows if row["study"] == name))
    _write(out / "studies.csv", STUDIES, studies)
    for name in ("studies.csv", *sorted({line["file"] for line in studies})):
        print(f"results: {out / name} ({(out / name).stat().st_size:,} bytes)")


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, names: list[str], rows: Iterable[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _of_run(run: Run, folder: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    files = {path.stem: path for path in sorted((folder / "runs").glob("*.json"))}
    facts = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items()}
    values = []
    for row in _read(folder / "results.csv"):
        name = next(row[key] for key in ("encoding", "forecast", "design") if key in row)
        # Runs of what is not trained lie in a file of another name.
        one = facts.get(f"{name}-{row['seed']}") or next(iter(facts.values()), {})
        values += run.read(row, one)
    made = re.search(r"^Made by `(.+)`\.$", (folder / "results.md").read_text("utf-8"), re.M)
    if made is None:
        raise ValueError(f"{folder / 'results.md'} must say by which command it was made")
    changed = (folder / "results.csv").stat().st_mtime
    date = datetime.datetime.fromtimestamp(changed, datetime.timezone.utc).date()
    line = _line(run) | {"command": made[1], "date": str(date), **_machine()}
    line["baselines"] = ";".join(dict.fromkeys(v.encoding for v in values if not v.seed))
    return line, _summed(run, values)


def _machine() -> dict[str, str]:
    where = environment("cpu")
    return {
        "machine": f"{where['cpu']}, {where['cores']} cores",
        "versions": f"Python {where['python']}, torch {where['torch']}",
    }


def _line(study: Run | Page) -> dict[str, str]:
    return {name: getattr(study, name) for name in STUDIES if hasattr(study, name)}


def _summed(study: Run | Page, values: list[Value]) -> list[dict[str, str]]:
    """Average each encoding under each condition over its runs."""
    rows = []
    encodings = dict.fromkeys(v.encoding for v in values)
    places = dict.fromkeys((v.condition, v.setting) for v in values)
    for encoding, (condition, setting) in itertools.product(encodings, places):
        of_it = [v for v in values if v.encoding == encoding]
        own = [v for v in of_it if v.condition == condition]
        seeds = list(dict.fromkeys(v.seed for v in own))
        # Not there, or empty: it cannot be tested so.
        whole = bool(own) and all(v.value is not None for v in own)
        numbers = [fmean(v.value for v in own if v.seed == s) for s in seeds] if whole else []
        mean = fmean(numbers) if numbers else None
        asked = own[0].asked if own else None
        blur = (mean * (1 - mean) / asked) ** 0.5 if asked and mean is not None else None
        rows.append(
            {"study": study.study, "data": study.data, "encoding": encoding,
             "condition": condition, "setting": setting, "metric": study.metric,
             "better": study.better, "mean": _shown(mean),
             "std": _shown(stdev(numbers) if len(numbers) > 1 else None),
             "resolution": _shown(blur),
             "seeds": str(len({v.seed for v in of_it if v.seed})),
             "parameters": str(of_it[0].parameters or "")}
        )  # fmt: skip
    return rows


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.{DIGITS}g}"


def _of_page(page: Page) -> tuple[dict[str, str], list[dict[str, str]]]:
    path = ROOT / page.path
    text = path.read_text(encoding="utf-8")
    start = text.find("\n" + page.header)
    if start < 0:
        raise ValueError(f"{page.path} must have the table {page.header!r}")
    block = re.findall(r"```bash\n(.+?)\n```", text[:start], re.S)[-1].replace("\\\n", " ")
    line = next(each for each in block.splitlines() if each.startswith("python"))
    command = " ".join(line.split())
    date = subprocess.run(
        ["git", "log", "-1", "--format=%cs", "--", page.path],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    table = re.match(r"(?:\|.*\n)+", text[start + 1 :] + "\n")
    cells = [_cells(line) for line in table[0].splitlines()] if table else []
    rows = [row for line in cells[2:] for row in _of_line(page, cells[0], line)]
    line = _line(page) | {"command": command, "date": date, "baselines": ";".join(page.baselines)}
    return line | {"machine": f"as {page.path} says", "versions": f"as {page.path} says"}, rows


def _cells(line: str) -> list[str]:
    return [cell.strip(" *`") for cell in line.strip().strip("|").split("|")]


def _of_line(page: Page, header: list[str], cells: list[str]) -> Iterable[dict[str, str]]:
    for number, cell in enumerate(cells):
        place = page.place(header, cells, number)
        said = re.match(r"([\d.,]+)(?: ± ([\d.,]+))?$", cell)
        if place is None or said is None:
            continue
        encoding, condition, setting = place
        numbers = [None if part is None else float(part.replace(",", "")) for part in said.groups()]
        mean, spread = (None if one is None else one * page.factor for one in numbers)
        yield {
            "study": page.study, "data": page.data, "encoding": encoding, "condition": condition,
            "setting": setting, "metric": page.metric, "better": page.better,
            "mean": _shown(mean), "std": _shown(spread), "resolution": "",
            "seeds": str(page.repeats if spread is not None else page.seeds), "parameters": "",
        }  # fmt: skip


if __name__ == "__main__":
    main()
