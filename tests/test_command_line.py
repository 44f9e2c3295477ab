"""``python -m posenc_mm`` as people type it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_mm.__main__ import main, parser
from posenc_mm.catalogue import entries, explain, find

ROOT = Path(__file__).resolve().parents[1]


def said(capsys, *words):
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_alone_it_helps_and_names_a_command_to_begin_with(capsys):
    code, out, _ = said(capsys)
    assert code == 0
    assert "python -m posenc_mm list" in out
    for command in ("list", "explain", "choose", "plot"):
        assert f"    {command} " in out


def test_as_a_program():
    """In a process of its own, whose terminal may know no Greek."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-W", "error", "-m", "posenc_mm", "explain", "ALIBI"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ALiBi: Linear penalty on distance")
    assert "https://arxiv.org/abs/2108.12409" in done.stdout


def test_list_shows_everything(capsys):
    code, out, err = said(capsys, "list")
    assert (code, err) == (0, "")
    for name in ("Sinusoidal", "Rotary", "ALiBi", "YaRN", "dinov3", "qwen2_5_omni"):
        assert f"\n  {name} " in out


def test_list_shows_one_kind(capsys):
    _, out, _ = said(capsys, "list", "--kind", "rotary")
    assert "  XPos " in out
    assert "Sinusoidal" not in out and "vjepa2" not in out


def test_list_shows_what_is_learned(capsys):
    _, out, _ = said(capsys, "list", "--learned", "--json")
    names = {row["name"] for row in json.loads(out)}
    assert {"Learned", "MixedRotary", "T5Bias", "mochi"} <= names
    assert not {"Sinusoidal", "Rotary", "ALiBi", "YaRN", "Sum"} & names


def test_list_writes_json_and_markdown(capsys):
    _, out, _ = said(capsys, "list", "--json", "--kind", "bias")
    assert {row["slot"] for row in json.loads(out)} == {"bias"}
    _, out, _ = said(capsys, "list", "--markdown", "--kind", "bias")
    assert out.splitlines()[0] == "| encoding | acts on | paper | year | file |"
    assert "| `T5Bias` | logits | [Raffel et al.](https://arxiv.org/abs/1910.10683) | 2020 |" in out


def test_explain_knows_latex(capsys):
    _, out, _ = said(capsys, "explain", "rotary", "--latex")
    assert r"\theta_{ai} = p_a \, b_a^{-2i / (w / A)}" in out


def test_two_of_one_name_are_both_explained(capsys):
    code, out, _ = said(capsys, "explain", "flux2")
    assert code == 0
    assert "presets.flux2, streams.flux2" in out
    assert out.count("\nPython\n") == 2


@pytest.mark.parametrize("entry", entries(), ids=lambda each: each.full_name)
def test_what_comes_next_is_understood(entry):
    steps = explain(entry).partition("\nNext\n")[2].splitlines()
    assert steps[-1].split() == ["python", "-m", "posenc_mm", "choose"]
    assert (len(steps) == 2) is (entry.name != "Conditional")
    for step in steps:
        words = step.split()
        assert words[:3] == ["python", "-m", "posenc_mm"]
        assert callable(parser().parse_args(words[3:]).run)
        assert words[3] != "plot" or find(words[4]) == (entry,)


def test_a_wrong_name_ends_with_code_2_and_proposes_near_ones(capsys):
    code, out, err = said(capsys, "explain", "sinusoidle")
    assert (code, out) == (2, "")
    assert err.startswith("error: name must be one of those that python -m posenc_mm list shows")
    assert "Sinusoidal" in err and "Traceback" not in err


@pytest.mark.parametrize("words", [["lst"], ["list", "--kind", "rotation"], ["explain"]])
def test_wrong_words_end_with_code_2(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "usage: python -m posenc_mm" in capsys.readouterr().err


def test_the_parser_loads_no_library_of_pictures():
    program = "import sys; from posenc_mm.__main__ import main; main([]); "
    program += "sys.exit('matplotlib' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
