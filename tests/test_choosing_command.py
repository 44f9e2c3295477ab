"""``python -m posenc_mm choose``: options, questions, and YAML that applications take."""

import builtins
import json
import sys

import pytest
import yaml

from posenc_mm.__main__ import main
from posenc_mm.choosing import QUESTIONS, Situation, candidates, choose
from posenc_mm.choosing.asking import ask
from posenc_mm.choosing.snippets import yaml as as_yaml


class Terminal:
    def isatty(self):
        return True


class Pipe:
    def isatty(self):
        return False


def answers(*words):
    left = iter(words)

    def read(prompt=""):
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return read


def test_numbers_words_and_returns_answer_the_questions():
    said = []
    situation = ask(answers("series", "2", "", "1", "yes", "2", "flex"), said.append)
    assert situation == Situation(
        "series", length="growing", kernel="flex", causal=True, kv_cache=True
    )
    asked = [question.words for question in QUESTIONS if "series" in question.of]
    assert [line.strip() for line in said if line.strip() in asked] == asked


def test_what_is_not_of_a_modality_is_not_asked_and_a_cache_of_causal_models_only():
    assert ask(answers("images", "2", "", "no", "1"), lambda line: None) == Situation(
        "images", grid="changes"
    )
    # Text is written forwards unless said otherwise.
    assert ask(answers("1", "", "", "", "", ""), lambda line: None) == Situation(
        "text", causal=True
    )


def test_other_answers_are_asked_again():
    said = []
    # A raised two is a digit, and no number.
    situation = ask(answers("sound", "9", "0", "²", "TEXT ", "", "", "no", ""), said.append)
    assert situation == Situation("text")
    assert sum("got " in line for line in said) == 4


def test_answers_that_end_are_an_error():
    with pytest.raises(ValueError, match="answers ended at 'Do you start from trained weights"):
        ask(answers("text", "1"), lambda line: None)


def test_at_a_terminal_without_options_it_asks(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(builtins, "input", answers("2", "1", "1", "1", "1"))
    assert main(["choose", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["situation"]["modality"] == "images"
    assert "What are your tokens?" in err


def test_yes_and_no_answer_questions_that_ask_for_them():
    assert ask(answers("text", "yes", "no", "", "", "any"), lambda line: None) == Situation(
        "text", length="growing", causal=True
    )


def test_who_interrupts_the_questions_sees_no_traceback(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(builtins, "input", interrupted)
    assert main(["choose"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_terminal_and_options_it_shows_help_and_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Pipe())
    assert main(["choose"]) == 0
    out = capsys.readouterr().out
    assert "--modality" in out and "Example: python -m posenc_mm choose --modality" in out


def test_options_answer_too_and_json_holds_all_of_the_advice(capsys):
    words = ["choose", "--modality", "text", "--length", "growing", "--kv-cache", "yes"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("For text: length growing, pretrained no, causal yes, kv_cache yes")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    advice = choose(Situation("text", length="growing", causal=True, kv_cache=True))
    assert [one["name"] for one in found["recommended"]] == [o.name for o in advice.recommended]
    assert set(found) == {
        "situation", "recommended", "classic", "measured", "left_out", "thin", "next"
    }  # fmt: skip
    assert found["measured"][0]["standings"][0]["rows"][0]["mean"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--length", "growing"], "--modality must be given"),
        (["--modality", "images", "--times", "irregular"], "times is asked of"),
        (["--modality", "series", "--kv-cache", "yes"], "kv_cache needs a causal model"),
    ],
)
def test_what_cannot_be_answered_is_said_with_code_2(words, message, capsys):
    assert main(["choose", *words]) == 2
    assert message in capsys.readouterr().err


def test_all_that_was_measured_can_be_listed(capsys):
    assert main(["choose", "--evidence"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "python -m vision compare" in out and "digits" in out
    assert main(["choose", "--evidence", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) > 100


BASES = {
    "text": ("text", ["-c", "configs/text/stdlib.yaml"]),
    "images": ("vision", ["-c", "configs/vision/digits.yaml"]),
    "series": (
        "timeseries",
        ["-c", "configs/timeseries/seattle.yaml", "-c", "configs/timeseries/networks/patches.yaml"],
    ),
}
TRAINABLE = [
    pytest.param(modality, one, id=f"{modality} {one.name}")
    for modality in BASES
    for one in candidates.OF[modality]
]


@pytest.mark.parametrize(("modality", "one"), TRAINABLE)
def test_an_application_builds_what_the_yaml_says(modality, one, tmp_path, monkeypatch, root):
    pytest.importorskip("lightning")
    from importlib import import_module

    monkeypatch.chdir(root)
    situation = Situation(modality, causal=modality == "text")
    app, base = BASES[modality]
    written = tmp_path / "encoding.yaml"
    written.write_text(as_yaml(one, situation))
    # Whose clocks a series goes by, the data say.
    assert ("zone: auto" in written.read_text()) == ("calendar" in one.name)
    quiet = ["--trainer.logger=false", "--trainer.callbacks=null"]
    built = import_module(f"{app}.cli").build([*base, "-c", str(written), *quiet]).model
    parts = one.parts(situation)
    for slot in ("additive", "rotary", "bias"):
        said = built.encodings[slot].partition("(")[0]
        assert said == (parts[slot].name if slot in parts else "none"), slot


@pytest.mark.parametrize(
    "situation",
    [
        Situation("video"),
        Situation("stream"),
        Situation("text", length="growing", pretrained="rotary"),
        Situation("images", grid="changes", pretrained="learned"),
        Situation("images", grid="changes", pretrained="bias"),
        Situation("video", length="growing", pretrained="rotary"),
        Situation("series", length="growing", pretrained="learned"),
    ],
)
def test_yaml_is_yaml_and_names_classes_that_take_its_arguments(situation):
    from importlib import import_module
    from inspect import signature

    def check(node):
        if isinstance(node, list):
            for each in node:
                check(each)
        elif isinstance(node, dict):
            if "class_path" in node:
                module, _, name = node["class_path"].rpartition(".")
                cls = getattr(import_module(module), name)
                assert set(node.get("init_args", {})) <= set(signature(cls).parameters)
            for each in node.values():
                check(each)

    for one in choose(situation).recommended:
        found = yaml.safe_load(one.yaml)
        assert set(found) == {"model"} and found["model"]
        check(found)
