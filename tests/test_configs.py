"""Every YAML that is shipped is parsed and built; values mean the same however they are given."""

import shlex
import sys
from itertools import permutations
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

pytest.importorskip("lightning")
from posenc_mm import Rotary
from vision.cli import build, main

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs" / "vision"
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
def data(tmp_path, monkeypatch):
    """A folder of images for the base that needs one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (64, 64)).save(tmp_path / "images" / name / "0.png")
    return tmp_path / "images"


def module(*words):
    return build([str(word) for word in [*words, *QUIET]]).model


def words_of(base, data):
    return ["-c", base, *([f"--data.path={data}"] if base.stem == "folder" else [])]


@pytest.mark.parametrize("overlay", OVERLAYS, ids=stem)
@pytest.mark.parametrize("base", BASES, ids=stem)
def test_every_overlay_fits_every_base(base, overlay, data):
    model = module(*words_of(base, data), "-c", overlay).eval()
    filled = {slot for slot in ("additive", "rotary", "bias") if model.encodings[slot] != "none"}
    assert filled == set(SLOTS[overlay.stem])
    channels = model.hparams.channels
    for factor in (1, 2):
        size = [side * factor for side in model.image_size]
        with torch.no_grad():
            assert model(torch.randn(1, channels, *size)).shape == (1, model.classes)


@pytest.mark.parametrize("path", BASES + OVERLAYS, ids=stem)
def test_the_first_line_is_a_command_that_runs_it(path, monkeypatch, data, capsys):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    prefix, _, command = first.partition("python -m vision ")
    assert prefix == "# "
    words = shlex.split(command.replace("FOLDER", str(data)))
    assert path.relative_to(ROOT).as_posix() in words
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["vision", *words, "--print_config"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("below", "above"), [p for p in permutations(SLOTS, 2) if SLOTS[p[0]] == SLOTS[p[1]]]
)
def test_an_overlay_over_another_of_its_slot_is_as_if_alone(below, above):
    alone, stacked = (
        module("-c", CONFIGS / "digits.yaml", *(w for n in names for w in ("-c", overlay(n))))
        for names in ((above,), (below, above))
    )
    assert stacked.encodings == alone.encodings


def overlay(name):
    return CONFIGS / "encodings" / f"{name}.yaml"


def test_overlays_of_different_slots_add_up_in_any_order():
    names = ["learned", "axial_rope", "alibi_2d"]
    digits = CONFIGS / "digits.yaml"
    forth = module("-c", digits, *(w for name in names for w in ("-c", overlay(name))))
    back = module(*(w for name in names[::-1] for w in ("-c", overlay(name))), "-c", digits)
    assert forth.encodings == back.encodings
    assert [v.partition("(")[0] for v in forth.encodings.values()][:3] == [
        "Learned",
        "Rotary",
        "ALiBi",
    ]
    emptied = module("-c", digits, "-c", overlay("axial_rope"), "-c", overlay("none"))
    assert emptied.encodings["rotary"] == "none"


def test_short_class_names_do():
    words = ["--data=Digits", "--model.network_args.patch_size=2", "--model.network_args.depth=1"]
    model = module(*words, "--model.rotary=Rotary", "--model.rotary.axes=2")
    assert model.encodings["rotary"].startswith("Rotary(head_dim=64, axes=2")
    assert model.image_size == (8, 8) and model.classes == 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model.rotary.axis=2"], "'axis' is not accepted"),
        (["--model.rotary.axes=two"], "Got value: two"),
        (["--model.rotary.head_dim=8"], "head_dim of posenc_mm.Rotary must be the 16"),
        (["--model.rotary=ALiBi"], "ALiBi"),
        (["--model.bias=RelativeBias", "--model.bias.heads=3"], "must be the 4 of"),
        (["--model.classes=3"], 'must be given via "data.classes"'),
        (["--model.nonsense=1"], "nonsense"),
        (["--model.network=vit_nope"], "network must be a name that timm.create_model knows"),
        (["--model.network=resnet18", "--model.network_args=null"], "one grid of patches"),
    ],
)
def test_wrong_keys_and_wrong_values_are_refused(words, said, capsys):
    with pytest.raises(SystemExit) as end:
        module(
            "-c", CONFIGS / "digits.yaml", "--model.rotary=Rotary", "--model.rotary.axes=2", *words
        )
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def rotary_of(model):
    (rotary,) = (part for part in model.modules() if isinstance(part, Rotary))
    return rotary


EXPONENTS = {
    "a YAML file": ("{file}", "--model.label_smoothing=4e-1"),
    "the command line": (
        "--model.rotary=Rotary",
        "--model.rotary.axes=2",
        "--model.rotary.base=1e4",
    ),
    "a nested block": (
        '--model.rotary={{"class_path": "Rotary", "init_args": {{"axes": 2, "base": 1e4}}}}',
    ),
    "a dict-valued option": (
        "{file}",
        '--model.network_args={{"patch_size": 2, "embed_dim": 64, "depth": 1, "num_heads": 4, '
        '"class_token": false, "global_pool": "avg", "init_values": 4e0}}',
    ),
}


@pytest.mark.parametrize("words", EXPONENTS.values(), ids=EXPONENTS)
def test_a_number_with_an_exponent_is_a_number(words, tmp_path):
    """YAML 1.1 does not call 1e4 a number; a program that reads it as text fails far from here."""
    file = tmp_path / "base.yaml"
    file.write_text(
        "model:\n  label_smoothing: 4e-1\n"
        "  rotary:\n    class_path: Rotary\n    init_args:\n      axes: 2\n      base: 1e4\n"
        "  network_args:\n    init_values: 4e0\n    patch_size: 2\n    embed_dim: 64\n"
        "    depth: 1\n    num_heads: 4\n    class_token: false\n    global_pool: avg\n"
    )
    words = [part for w in words for part in (["-c", str(file)] if w == "{file}" else [w.format()])]
    model = module("-c", CONFIGS / "digits.yaml", *words)
    rotary = rotary_of(model)
    assert rotary._arguments["base"] == 1e4 and type(rotary._arguments["base"]) is float
    # Four pairs per axis: the second of the first axis turns at 1e4 ** (-1/4).
    assert rotary.frequencies[0][1] == pytest.approx(10_000 ** (-1 / 4))
    if str(file) in words:
        assert type(model.label_smoothing) is float and model.label_smoothing == 0.4
        scale = model.network.blocks[0].ls1.gamma
        assert scale.dtype == torch.float32 and (scale == 4.0).all()
