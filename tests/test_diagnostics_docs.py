"""``docs/diagnostics.md`` says what the code does: its blocks run, its callbacks exist."""

import re

import pytest

import posenc_mm.diagnostics as diagnostics


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "diagnostics.md").read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


def test_the_blocks_run_one_after_the_other(page, tmp_path, monkeypatch):
    for needed in ("timm", "transformers", "matplotlib", "lightning"):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "docs/diagnostics.md"}
    for body in blocks(page, "python"):
        exec(compile(body, "docs/diagnostics.md", "exec"), namespace)
    assert {path.name for path in tmp_path.iterdir()} == {
        "distance.png",
        "context.png",
        "shift.png",
    }
    module, x = namespace["Mine"](), namespace["tokens"]
    assert isinstance(module.subject(x, 1), diagnostics.Subject)


def test_every_function_and_callback_is_named(page):
    functions = [name for name in diagnostics.__all__ if name[0].islower()]
    assert len(functions) == 5 and all(name in page for name in functions)
    lightning = pytest.importorskip("posenc_mm.lightning")
    (yaml,) = blocks(page, "yaml")
    shown = set(re.findall(r"posenc_mm\.lightning\.(\w+)", yaml))
    assert shown == set(lightning.__all__) - {"Diagnostic"}
