"""Every YAML of the text application is parsed and built; each overlay fits each base."""

import shlex
import sys
from pathlib import Path

import pytest
import torch
import yaml

pytest.importorskip("lightning")
from posenc_mm import sequence
from text.cli import build, main

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs" / "text"
BASES = sorted(CONFIGS.glob("*.yaml"))
OVERLAYS = sorted((CONFIGS / "encodings").glob("*.yaml"))
SLOTS = {
    path.stem: tuple(k for k, v in yaml.safe_load(path.read_text())["model"].items() if v)
    for path in OVERLAYS
}
QUIET = ["--trainer.logger=false", "--trainer.callbacks=null"]


def stem(path):
    return path.stem


@pytest.fixture(autouse=True)
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("What was said, was it?\n" * 400)
    return path


def module(*words):
    return build([str(word) for word in [*words, *QUIET]]).model


def words_of(base, file):
    return ["-c", base, *([f"--data.path={file}"] if base.stem == "file" else [])]


@pytest.mark.parametrize("overlay", OVERLAYS, ids=stem)
@pytest.mark.parametrize("base", BASES, ids=stem)
def test_every_overlay_fits_every_base(base, overlay, file):
    model = module(*words_of(base, file), "-c", overlay).eval()
    filled = {slot for slot in ("additive", "rotary", "bias") if model.encodings[slot] != "none"}
    assert filled == set(SLOTS[overlay.stem])
    for length in (model.length, 2 * model.length):
        refused = model.network.refusal(length) is not None
        assert refused == (overlay.stem == "learned" and length > model.length)
        if not refused:
            tokens = torch.zeros(1, length, dtype=torch.int64)
            with torch.no_grad():
                logits = model(tokens, sequence(length))
            assert logits.shape == (1, length, model.vocabulary.size)


@pytest.mark.parametrize("path", BASES + OVERLAYS, ids=stem)
def test_the_first_line_is_a_command_that_runs_it(path, monkeypatch, file, capsys):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    prefix, _, command = first.partition("python -m text ")
    assert prefix == "# "
    words = shlex.split(command.replace("FILE", str(file)))
    assert path.relative_to(ROOT).as_posix() in words
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["text", *words, "--print_config"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, capsys.readouterr().err


def test_an_overlay_over_another_of_its_slot_is_as_if_alone():
    stdlib = CONFIGS / "stdlib.yaml"
    for below, above in (("learned", "sinusoidal"), ("relative", "t5"), ("alibi", "learned_alibi")):
        names = [CONFIGS / "encodings" / f"{name}.yaml" for name in (below, above)]
        stacked = module("-c", stdlib, "-c", names[0], "-c", names[1])
        assert stacked.encodings == module("-c", stdlib, "-c", names[1]).encodings


def test_short_class_names_do():
    words = ["--data=Needles", "--model.rotary=Rotary", "--model.rotary.base=1e4"]
    model = module(*words, "--model.dim=32", "--model.heads=2")
    assert model.encodings["rotary"].startswith("Rotary(head_dim=16, axes=1")
    assert model.length == 32 and model.vocabulary.size == 35


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model.rotary.axis=2"], "'axis' is not accepted"),
        (["--model.rotary.head_dim=8"], "head_dim of posenc_mm.Rotary must be the 16"),
        (["--model.bias=RelativeBias", "--model.bias.heads=3"], "must be the 4 of the model"),
        (["--model.alphabet=abc"], 'must be given via "data.alphabet"'),
        (["--model.dim=30"], "heads must divide dim"),
        (["--model.nonsense=1"], "nonsense"),
        (["--data.vocabulary=words"], "vocabulary must be one of"),
    ],
)
def test_wrong_keys_and_wrong_values_are_refused(words, said, capsys):
    with pytest.raises((SystemExit, ValueError)) as end:
        module("-c", CONFIGS / "stdlib.yaml", "--model.rotary=Rotary", *words)
    assert said in capsys.readouterr().err + str(end.value)
