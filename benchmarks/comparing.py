"""One table: the ways to do a thing, each checked, measured in turns, and told as ratios."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.correctness import Checked
from benchmarks.measuring import Call, Spread, in_turns, peak_bytes, ratios, spread


@dataclass(frozen=True)
class Way:
    """One way to do a thing.

    Attributes:
        name: as the table shows it.
        kind: ``"base"``, the unit of the ratios; ``"ours"``; ``"peer"``; ``"other"``, a yardstick.
        make: imports what it needs, prepares its tables, returns the call to be timed.
        group: ways of one group do the same; a peer is compared with ours of its group.
        package: what to install where it is missing.
        cuda: whether it runs on CUDA devices only.
        note: what a reader must know.
    """

    name: str
    kind: str
    make: Callable[[], Call]
    group: str = ""
    package: str = ""
    cuda: bool = False
    note: str = ""


@dataclass
class Row:
    """What was found for one way: the stable form of the results."""

    name: str
    kind: str
    group: str
    status: str = "measured"
    note: str = ""
    seconds: Spread | None = None
    ratio: Spread | None = None
    to_ours: Spread | None = None
    peak_bytes: int | None = None
    error: float | None = None
    verdict: str | None = None
    modules: int | None = None


@dataclass
class Table:
    """Rows in one unit, and for each group the fastest peer that computes the same."""

    title: str
    unit: str
    rows: list[Row]
    fastest: list[dict[str, object]] = dataclasses.field(default_factory=list)
    unit_bytes: int | None = None


def why_not(way: Way, device: str) -> str | None:
    """Say what is missing before a way is tried at all."""
    if way.cuda and torch.device(device).type != "cuda":
        return "not measured: runs on a CUDA device only"
    return None


def prepared(
    way: Way, device: str, check: Callable[[Way, Any], Checked] | None
) -> tuple[Row, Call | None]:
    """Make a way and call it once; a peer that is missing or fails is a row that says so."""
    row = Row(way.name, way.kind, way.group, note=way.note)
    missing = why_not(way, device)
    if missing:
        row.status, row.note = "missing", missing
        return row, None
    try:
        call = way.make()
        out = call()
    except ModuleNotFoundError as error:
        if not way.package:
            raise
        row.status = "missing"
        row.note = f"not installed: pip install {way.package} (no module named {error.name})"
        return row, None
    except Exception as error:
        if way.kind in ("base", "ours"):
            raise
        first = (str(error).strip().splitlines() or [""])[0][:100]
        row.status, row.note = "failed", f"{type(error).__name__}: {first}"
        return row, None
    if check is not None:
        found = check(way, out)
        row.error, row.verdict = found.error, found.verdict
        row.note = "; ".join(part for part in (way.note, found.note) if part)
    return row, call


def compare(
    title: str,
    ways: Sequence[Way],
    *,
    rounds: int,
    device: str = "cpu",
    check: Callable[[Way, Any], Checked] | None = None,
    memory: Callable[[Call], int] | None = None,
    unit_bytes: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Table:
    """Prepare, check and measure all ways; the first is the unit.

    Args:
        title: what is done, in which dtype.
        ways: the base first.
        rounds: how often each is timed.
        device: where.
        check: compares the output of a way with what is right.
        memory: measures the most bytes held in a call; by default those of tensors.
        unit_bytes: what the table's memory is a ratio of; the base's peak unless given.
        say: takes lines of progress.

    Returns:
        The table.
    """
    base = ways[0].name
    rows, calls = [], {}
    for way in ways:
        row, call = prepared(way, device, check)
        rows.append(row)
        if call is not None:
            calls[way.name] = call
            row.peak_bytes = memory(call) if memory else peak_bytes(call, device)
        say(f"{title}: {way.name}: {row.note if call is None else 'ready'}")
    times = in_turns(calls, rounds, device)
    say(f"{title}: {rounds} rounds in turns")
    ours = {row.group: times[row.name] for row in rows if row.kind == "ours"}
    for row in rows:
        if row.name in times:
            row.seconds = spread(times[row.name])
            row.ratio = ratios(times[row.name], times[base]) if base in times else None
            if row.kind == "peer" and row.group in ours:
                row.to_ours = ratios(times[row.name], ours[row.group])
    if unit_bytes is None:
        unit_bytes = rows[0].peak_bytes
    return Table(title, base, rows, fastest(rows), unit_bytes)


def fastest(rows: Sequence[Row]) -> list[dict[str, object]]:
    """For each group, the fastest peer among those that compute the same."""
    found: list[dict[str, object]] = []
    for group in dict.fromkeys(row.group for row in rows if row.kind == "ours"):
        fair = [
            row
            for row in rows
            if row.kind == "peer" and row.group == group and row.seconds and row.verdict != "other"
        ]
        if fair:
            best = min(fair, key=lambda row: row.seconds.median if row.seconds else 0.0)
            found.append({"group": group, "peer": best.name, "to_ours": best.to_ours})
    return found
