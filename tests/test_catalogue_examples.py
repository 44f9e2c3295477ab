"""One call of each class, as Python and as YAML: both make the same."""

import builtins
import shlex
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
import torch
import yaml

from posenc_mm.catalogue import EXAMPLES, Example, entries, explain
from posenc_mm.catalogue.explaining import BASES, usage
from posenc_mm.rotary import Rotary
from posenc_mm.scaling import Linear

ROOT = Path(__file__).resolve().parents[1]
EVERY = entries()
TRAINED = [each for each in EVERY if usage(each).application]


def state(module):
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


@pytest.mark.parametrize("entry", EVERY, ids=lambda each: each.full_name)
def test_the_line_of_python_makes_the_example(entry):
    used = usage(entry)
    names = {"__builtins__": builtins}
    for line in used.imports():
        exec(line, names)
    torch.manual_seed(3)
    made = eval(used.python(), names)
    torch.manual_seed(3)
    wanted = used.make()
    if entry.encoding is None and entry.group == "design":
        assert made == wanted
        return
    if entry.group == "preset":
        made, wanted = made.encoding, wanted.encoding
    assert type(made) is type(wanted) and repr(made) == repr(wanted)
    theirs = wanted.state_dict()
    assert made.state_dict().keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in made.state_dict().items())


@pytest.mark.parametrize("entry", EVERY, ids=lambda each: each.full_name)
def test_what_explain_prints_can_be_copied(entry):
    _, _, rest = explain(entry).partition("\nPython\n")
    python, _, rest = rest.partition("\n\nYAML\n")
    names, used = {"__builtins__": builtins}, usage(entry)
    *imports, call = textwrap.dedent(python).replace("\n    ", " ").splitlines()
    broken = [each for each in python.splitlines() if not each.strip().startswith("from ")]
    assert all(each.endswith(",") for each in broken[:-1]), "lines break after commas"
    exec("\n".join(imports), names)
    made, wanted = eval(call, names), used.make()
    if entry.group == "preset":
        made, wanted = made.encoding, wanted.encoding
    assert repr(made) == repr(wanted)
    if used.application:
        slot = "rotary" if entry.group == "scaling" else entry.slot
        line, _, command = rest.partition("\n\n")
        assert all(each.endswith(",") for each in line.splitlines()[:-1])
        assert yaml.safe_load(line) == yaml.safe_load(used.yaml(slot))
        typed = command.partition("\n\n")[0].partition(":\n")[2]
        assert all(each.endswith("\\") for each in typed.splitlines()[:-1])
        words = shlex.split(typed)
        configs = [word for word in words if word.endswith(".yaml")]
        assert words[:4] == ["python", "-m", used.application, "fit"] and words[-1] == "FILE"
        assert configs and all((ROOT / config).is_file() for config in configs)


def test_the_applications_train_all_that_their_slots_take():
    alone = {each.name for each in EVERY if each.group in ("additive", "rotary", "bias")}
    alone -= {each.name for each in TRAINED}
    contextual = {"ContextualIRPE", "DecomposedBias", "ShawBias", "TransformerXLBias"}
    assert alone == {*contextual, "DeBERTaBias", "WindowedLearned", "AnyVariateBias"}


@pytest.mark.parametrize("entry", TRAINED, ids=lambda each: each.name)
def test_the_line_of_yaml_builds_the_same_in_its_application(entry, tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(ROOT)
    used = usage(entry)
    slot = "rotary" if entry.group == "scaling" else entry.slot
    file = tmp_path / "line.yaml"
    file.write_text(used.yaml(slot))
    words = [word for base in (*BASES[used.application], file) for word in ("-c", str(base))]
    build = import_module(f"{used.application}.cli").build
    model = build([*words, "--trainer.logger=false", "--trainer.callbacks=null"]).model
    wanted = used.make()
    found = [part for part in model.modules() if type(part) is type(wanted)]
    assert repr(wanted) in map(repr, found)
    assert state(wanted) in [state(part) for part in found]


@pytest.mark.parametrize("entry", TRAINED, ids=lambda each: each.name)
def test_the_line_of_yaml_says_what_was_chosen(entry):
    used = usage(entry)
    slot = "rotary" if entry.group == "scaling" else entry.slot
    read = yaml.safe_load(used.yaml(slot))["model"][slot]
    assert read["class_path"].rpartition(".")[2] == used.target.__name__
    assert read.get("init_args", {}).keys() == used.chosen.keys()
    for name, value in used.chosen.items():
        if not isinstance(value, Example) and not any(
            isinstance(each, Example) for each in (value if isinstance(value, list) else [])
        ):
            assert read["init_args"][name] == value
            assert type(read["init_args"][name]) is type(value)


def test_what_yaml_would_read_otherwise_is_in_quotation_marks():
    chosen = {"a": "yes", "b": "2024-12-25", "c": "24h", "d": 1e-7, "e": None, "f": (1, 2)}
    chosen |= {"g": {"x y": [True, "half"]}, "h": "1e3", "i": "null"}
    made = yaml.safe_load(Example(Linear, {}, chosen, "text").yaml("rotary"))
    args = made["model"]["rotary"]["init_args"]
    assert float(args.pop("d")) == 1e-7
    assert args == {**{k: v for k, v in chosen.items() if k != "d"}, "f": [1, 2]}


def test_what_no_application_trains_has_no_yaml():
    with pytest.raises(ValueError, match="ShawBias"):
        EXAMPLES["ShawBias"].yaml("bias")


def test_parts_are_written_and_made_inside():
    stretched = Example(Rotary, {"head_dim": 8}, {"scaling": Example(Linear, {}, {"factor": 2.0})})
    assert stretched.python() == "Rotary(head_dim=8, scaling=Linear(factor=2.0))"
    lines = ("from posenc_mm import Rotary", "from posenc_mm.scaling import Linear")
    assert stretched.imports() == lines
    assert stretched.make().frequencies[0][0] == 0.5
    assert stretched.make(scaling=None).frequencies[0][0] == 1.0
    assert stretched.parts == (stretched.chosen["scaling"],)
