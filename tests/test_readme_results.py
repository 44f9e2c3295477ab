"""The numbers of the README's table of results are those that the package ships."""

import re
from pathlib import Path

import pytest

from posenc_mm.choosing.measured import load
from posenc_mm.choosing.ranking import number

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[(\w+)\]\([^)]+\): [^|]+\|([^|]+)\|([^|]+)\|$", re.M)
EVIDENCE = load()


def cells():
    for study, *both in ROW.findall(README):
        for cell in both:
            condition, _, numbers = cell.strip().partition(": ")
            yield pytest.param(study, condition, numbers, id=f"{study}, {condition}")


def test_the_table_has_several_studies():
    assert len({cell.values[0] for cell in cells()}) >= 5


@pytest.mark.parametrize(("study", "condition", "numbers"), list(cells()))
def test_numbers_are_measured_and_in_order(study, condition, numbers):
    rows = {
        row.encoding: row
        for row in EVIDENCE.rows
        if (row.study, row.condition) == (study, condition) and row.metric != "MAE"
    }
    shown = re.findall(r"`([\w+]+)` ([\d.]+)", numbers)
    assert len(shown) >= 3
    for name, value in shown:
        assert value == number(rows[name].mean)
    means = [rows[name].mean for name, _ in shown]
    higher = rows[shown[0][0]].better == "higher"
    assert means == sorted(means, reverse=higher), "the best first"
