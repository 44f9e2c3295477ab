"""What was measured: the comparisons that are shipped, as values."""

import csv
from dataclasses import dataclass
from pathlib import Path

STUDIES = "studies.csv"


@dataclass(frozen=True)
class Measurement:
    """What an encoding came to under one condition, over its runs.

    Attributes:
        study: the comparison.
        data: that it was learnt on.
        encoding: its name in the application.
        condition: under which it was tested.
        setting: what kind of condition: as ``"trained"``, ``"longer"``, ``"larger"``, other
            ``"rates"``, more ``"lost"``.
        metric: what was measured.
        better: ``"higher"`` or ``"lower"``.
        mean: over the runs; None where it cannot be tested.
        std: standard deviation over the runs; None where there is one run, or nothing is random.
        resolution: standard error for lack of test examples; None where it is not known.
        seeds: runs; 0 if nothing is random.
        parameters: of the model; None where it is not known.
    """

    study: str
    data: str
    encoding: str
    condition: str
    setting: str
    metric: str
    better: str
    mean: float | None
    std: float | None
    resolution: float | None
    seeds: int
    parameters: int | None


@dataclass(frozen=True)
class Study:
    """A comparison.

    Attributes:
        study: its name.
        modality: of its data.
        subject: what was compared: ``"encodings"``, ``"designs"`` of positions, ``"scalings"``,
            ``"sizes"`` (ways to another image size) or ``"clocks"``.
        times: of series: ``"regular"`` or ``"irregular"``; empty for others.
        file: the table with its rows.
        command: that made it, in a clone.
        date: on which it was made, or its page last changed.
        machine: that made it.
        versions: of Python and torch.
        baselines: names in its rows that are no encodings.
        what: it is.
        limits: what it does not say.
    """

    study: str
    modality: str
    subject: str
    times: str
    file: str
    command: str
    date: str
    machine: str
    versions: str
    baselines: tuple[str, ...]
    what: str
    limits: str


@dataclass(frozen=True)
class Evidence:
    """Comparisons and what they measured.

    Attributes:
        studies: the comparisons.
        rows: of all of them.
    """

    studies: tuple[Study, ...]
    rows: tuple[Measurement, ...]

    def of(self, study: Study) -> tuple[Measurement, ...]:
        """Give the rows of a study."""
        return tuple(row for row in self.rows if row.study == study.study)


def load(folder: Path | None = None) -> Evidence:
    """Read evidence.

    Args:
        folder: with ``studies.csv`` and the tables that it names; what is shipped, unless given.

    Returns:
        All of it.

    Raises:
        ValueError: a table is not of the form that ``python -m benchmarks.evidence`` writes.

    Example:
        >>> {study.modality for study in load().studies} >= {"text", "images", "series"}
        True
    """
    place = Path(__file__).with_name("evidence") if folder is None else folder
    studies = tuple(_study(line) for line in _read(place / STUDIES))
    tables = dict.fromkeys(study.file for study in studies)
    rows = tuple(_measurement(line) for name in tables for line in _read(place / name))
    known = {study.study for study in studies}
    for row in rows:
        if row.study not in known:
            raise ValueError(f"every row must be of a study in {STUDIES}, got {row.study!r}")
    return Evidence(studies, rows)


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _study(line: dict[str, str]) -> Study:
    names = tuple(name for name in line["baselines"].split(";") if name)
    return Study(**{**line, "baselines": names})  # type: ignore[arg-type]


def _measurement(line: dict[str, str]) -> Measurement:
    if line["better"] not in ("higher", "lower"):
        raise ValueError(f"better must be higher or lower, got {line['better']!r}")
    numbers = {name: _number(line[name]) for name in ("mean", "std", "resolution")}
    size = int(line["parameters"]) if line["parameters"] else None
    kept = {name: line[name] for name in line.keys() - numbers.keys() - {"seeds", "parameters"}}
    return Measurement(**kept, **numbers, seeds=int(line["seeds"]), parameters=size)  # type: ignore[arg-type]


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
