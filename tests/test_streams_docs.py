"""``docs/streams.md`` says what the code does: its blocks run, its table has every preset."""

import inspect
import re
from dataclasses import fields

import pytest

from posenc_mm import streams
from posenc_mm.streams import diffusion, presets


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "streams.md").read_text(encoding="utf-8")


def names_after(page, heading):
    part = page.split(heading, 1)[1].split("\n## ", 1)[0]
    firsts = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    return {name for first in firsts for name in re.findall(r"`(\w+)", first)}


def test_the_blocks_run_one_after_the_other(page, capsys):
    namespace = {"__name__": "docs/streams.md"}
    for body in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        exec(compile(body, "docs/streams.md", "exec"), namespace)
    said = capsys.readouterr().out
    assert "inside the" in said and "cursor" not in said


def test_the_table_has_every_preset(page):
    made = {
        name
        for module in (presets, diffusion)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    }
    assert names_after(page, "## Published designs") == made
    assert made <= set(streams.__all__)


def test_the_table_has_every_rule(page):
    rules = {field.name for field in fields(streams.Layout)} - {"axes", "dtype"}
    assert names_after(page, "## Rules") == rules
