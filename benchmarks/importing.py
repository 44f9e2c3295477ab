"""What importing costs: seconds, modules and memory beyond torch's, each in a fresh process."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.comparing import Row, Table, fastest
from benchmarks.measuring import ratios, spread
from benchmarks.reporting import Growth, version

UNIT = "torch"
SMALL = {"rounds": 2, "only": ["posenc_mm", "positional-encodings", "timm"]}
# Printed by a fresh process: what one import adds to those before it.
PROBE = """
import json, os, sys, time
def resident():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
if {after!r}:
    __import__({after!r})
held = resident()
modules = len(sys.modules)
start = time.perf_counter()
__import__({module!r})
seconds = time.perf_counter() - start
print(json.dumps([seconds, len(sys.modules) - modules, resident() - held]))
"""


class Import(NamedTuple):
    """A module to import, by what name, and the package that brings it."""

    name: str
    module: str
    package: str
    kind: str = "peer"


IMPORTS = (
    Import("torch", "torch", "torch", "base"),
    Import("posenc_mm", "posenc_mm", "", "ours"),
    Import("rotary-embedding-torch", "rotary_embedding_torch", "rotary-embedding-torch"),
    Import("x-transformers", "x_transformers", "x-transformers"),
    Import("positional-encodings", "positional_encodings.torch_encodings", "positional-encodings"),
    Import("timm", "timm.layers", "timm"),
    Import("transformers", "transformers.models.llama.modeling_llama", "transformers"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    names = [one.name for one in IMPORTS[1:]]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.set_defaults(rounds=9)


def run(
    options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Table], list[Growth]]:
    """Import each in turns."""
    chosen = [one for one in IMPORTS if one.name == UNIT or one.name in options.only]
    here = [one for one in chosen if not one.package or version(one.package)]
    found: dict[str, list[tuple[float, int, int]]] = {one.name: [] for one in here}
    for round_ in range(options.rounds + 1):
        for one in here:
            took = imported(one.module, "" if one.name == UNIT else UNIT)
            if round_:  # the first reads files from the disk
                found[one.name].append(took)
        say(f"imports: round {round_} of {options.rounds}")
    seconds = {name: [took[0] for took in all_] for name, all_ in found.items()}
    rows = []
    for one in chosen:
        row = Row(one.name, one.kind, "")
        rows.append(row)
        if one.name not in found:
            row.status = "missing"
            row.note = f"not installed: pip install {one.package}"
            continue
        row.note = one.module if one.module != one.name else ""
        row.seconds = spread(seconds[one.name])
        row.ratio = ratios(seconds[one.name], seconds[UNIT])
        if one.kind == "peer" and "posenc_mm" in seconds:
            row.to_ours = ratios(seconds[one.name], seconds["posenc_mm"])
        row.modules = int(spread([took[1] for took in found[one.name]]).median)
        row.peak_bytes = int(spread([took[2] for took in found[one.name]]).median)
    unit = "torch, from nothing; the others after it"
    return [Table("import", unit, rows, fastest(rows), rows[0].peak_bytes)], []


def imported(module: str, after: str) -> tuple[float, int, int]:
    """Import in a fresh process.

    Returns:
        Seconds, modules, and bytes by which the process grew.

    Raises:
        RuntimeError: the import failed.
    """
    code = PROBE.format(module=module, after=after)
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"importing {module} failed: {done.stderr.strip()[-300:]}")
    seconds, modules, grew = json.loads(done.stdout.splitlines()[-1])
    return seconds, modules, grew
