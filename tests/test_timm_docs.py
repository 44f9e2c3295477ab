"""``docs/timm.md`` says what the code does: its tables are made from the code, row by row."""

import importlib

from timm.models._registry import _model_to_module
from timm_families import FAMILIES

from posenc_mm.timm.families import _FAMILIES, names, refused

SLOTS = ("additive", "rotary", "bias")


def rows_of_families():
    fronts = {name: front for _, name, front in _FAMILIES}
    for name in names():
        why = fronts[name].refused
        cells = [f"refused: {why[slot]}" if slot in why else "works" for slot in SLOTS]
        yield f"| `{name}` | " + " | ".join(cells) + " |"


def rows_of_others():
    for name, why in sorted(refused().items()):
        yield f"| `{name}` | {why} |"


def table_after(text, heading):
    lines = text.split(heading, 1)[1].splitlines()
    found = [line for line in lines if line.startswith("|")]
    end = next((i for i, line in enumerate(lines) if line.startswith("## ")), len(lines))
    return [line for line in lines[:end] if line in found][2:]


def test_the_tables_are_those_of_the_code(root):
    text = (root / "docs" / "timm.md").read_text(encoding="utf-8")
    assert table_after(text, "## Families and slots") == list(rows_of_families())
    assert table_after(text, "## Refused families") == list(rows_of_others())


def test_every_slot_that_works_is_run_by_a_test_and_no_other():
    fronts = {name: front for _, name, front in _FAMILIES}
    tried = {(member.kind, slot) for member in FAMILIES.values() for slot in member.works.split()}
    wanted = {(n, slot) for n in names() for slot in SLOTS if slot not in fronts[n].refused}
    assert tried == wanted


def test_families_that_are_refused_by_name_exist():
    """A name that no class has would refuse nothing."""
    files = [
        importlib.import_module(f"timm.models.{file}") for file in set(_model_to_module.values())
    ]
    known = {
        name for file in files for name, value in vars(file).items() if isinstance(value, type)
    }
    assert set(refused()) <= known
