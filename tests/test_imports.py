"""The rules of the house that a program can check (CONTRIBUTING.md states them)."""

import ast
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
APPLICATIONS = [
    name for name in ("vision", "timeseries", "text", "multimodal") if (ROOT / name).is_dir()
]

# A part of the library imports from earlier rows only; within the first row, without cycles.
ROWS = [
    {
        "positions",
        "timestamps",
        "frequencies",
        "scaling",
        "tables",
        "layouts",
        "converting",
        "fronting",
        "pairs",
        "checks",
        "parts",
        "leakage",
        "placed",
        "schedule",
        "temperature",
        "visibility",
    },
    {"additive", "rotary", "bias"},
    {"cache", "visibility", "weighing", "resizing", "presets"},
    {"attention"},
    {"blocks"},
    {"transformer", "timm", "transformers", "streams"},
    {"diagnostics", "catalogue"},
    {"plots", "choosing"},
    {"lightning"},
    {"__main__"},
]
ROW = {part: row for row, parts in enumerate(ROWS) for part in parts}
# What each part may import beside torch, einops and the standard library.
EXTRAS = {
    "timm": {"timm"},
    "transformers": {"transformers"},
    "plots": {"matplotlib", "numpy"},
    "lightning": {"lightning"},
    "timestamps": {"holidays"},
}

MAX_LINES, MAX_FUNCTION = 250, 60
# These would not read better in two files; 300 is the end, but for the list of all formulas.
LONGER = {"tests/oracles.py": 1000}

LIBRARY = sorted((ROOT / "posenc_mm").rglob("*.py"))
APPS = sorted(path for app in APPLICATIONS for path in (ROOT / app).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), name_of(path))


def imported(path):
    """The absolute dotted names a file imports, wherever in the file it does so."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            # "from posenc_mm import timm" names a part only by its second half
            yield from (f"{module}.{alias.name}" for alias in node.names)


def docstring_lines(function):
    if ast.get_docstring(function) is None:
        return 0
    return function.body[0].end_lineno - function.body[0].lineno + 1


def part_of(path):
    parts = path.relative_to(ROOT / "posenc_mm").with_suffix("").parts
    return parts[0]


def our_parts(path):
    """The parts of the library that a file imports."""
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top == "posenc_mm":
            yield rest.partition(".")[0]


def test_every_part_of_the_library_has_its_row():
    unknown = {part_of(path) for path in LIBRARY} - {"__init__", *ROW}
    assert not unknown, f"give {unknown} a row in ROWS: what may it import, and who may import it?"


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_imports_from_earlier_rows_only(path):
    part = part_of(path)
    if part == "__init__":
        assert not {"timm", "transformers", "plots", "lightning"} & set(our_parts(path)), (
            "these need an extra"
        )
        return
    for other in set(our_parts(path)) - {part}:
        assert other in ROW, f"{other!r} has no row: import names from the file that defines them"
        allowed = ROW[other] < ROW[part] or ROW[other] == ROW[part] == 0
        assert allowed, f"{part} may not import {other}"


def test_the_first_row_has_no_cycles():
    uses = defaultdict(set)
    for path in LIBRARY:
        if ROW.get(part_of(path)) == 0:
            uses[part_of(path)] |= (set(our_parts(path)) & ROWS[0]) - {part_of(path)}
    left = dict(uses)
    while left:
        free = [part for part, used in left.items() if not used & left.keys()]
        assert free, f"these import each other: {left}"
        for part in free:
            del left[part]


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_needs_torch_and_einops_only(path):
    allowed = {"posenc_mm", "torch", "einops", *sys.stdlib_module_names}
    tops = {name.partition(".")[0] for name in imported(path)}
    assert tops - allowed <= EXTRAS.get(part_of(path), set())


@pytest.mark.parametrize("path", APPS, ids=name_of)
def test_applications_do_not_import_each_other(path):
    own = path.relative_to(ROOT).parts[0]
    tops = {name.partition(".")[0] for name in imported(path)}
    assert not tops & (set(APPLICATIONS) - {own})
    assert "tests" not in tops


def test_no_drawer_of_utilities():
    drawers = [p for p in LIBRARY + APPS + TESTS if p.stem in {"utils", "util", "helpers", "misc"}]
    assert not [name_of(path) for path in drawers]


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_no_buffers_no_caches_no_asserts(path):
    for node in ast.walk(tree_of(path)):
        where = f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.Assert), f"{where}: raise ValueError instead"
        word = getattr(node, "attr", None) or getattr(node, "id", None)
        assert word not in {"register_buffer", "lru_cache"}, f"{where}: {word}"
        # Complex numbers neither export nor run everywhere: eager mode on a CPU alone has them.
        only = name_of(path) == "posenc_mm/rotary/eager.py"
        assert only or word != "view_as_complex", where
    assert "functools.cache" not in set(imported(path))


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_a_forward_reads_no_tensor_back(path):
    forwards = {"forward", "attend", "rotate", "angles"}
    for function in ast.walk(tree_of(path)):
        if isinstance(function, FUNCTION) and function.name in forwards:
            for node in ast.walk(function):
                back = isinstance(node, ast.Attribute) and node.attr in {"item", "tolist"}
                assert not back, f"{name_of(path)}:{node.lineno}: .{node.attr}() in {function.name}"


@pytest.mark.parametrize("path", LIBRARY + APPS + TESTS, ids=name_of)
def test_files_and_functions_stay_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    most = LONGER.get(name_of(path), 300 if path in TESTS else MAX_LINES)
    assert lines <= most, f"{name_of(path)} has {lines} lines: where is its seam?"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, FUNCTION):
            length = node.end_lineno - node.lineno + 1 - docstring_lines(node)
            assert length <= MAX_FUNCTION, f"{name_of(path)}: {node.name} has {length} lines"
