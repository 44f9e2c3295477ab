"""What the READMEs say is executed, so that it cannot drift from what the code does."""

import csv
import os
import re
import runpy
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import posenc_mm
from posenc_mm import (
    AdditiveEncoding,
    AttentionBias,
    ConditionalEncoding,
    ContextualBias,
    RotaryEncoding,
)

ROOT = Path(__file__).resolve().parents[1]
TRAIN = 'pip install -e ".[train]" && python -m vision compare'
TESTS = 'pip install -e ".[dev]" && pytest'
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)

READMES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/README.md"))
READMES = ["README.md", *READMES]


def blocks(readme, language):
    text = (ROOT / readme).read_text(encoding="utf-8")
    return [body for name, body in BLOCK.findall(text) if name == language]


def commands(readme):
    """The commands of the bash blocks, one a line, continued lines joined."""
    lines = "".join(blocks(readme, "bash")).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def application_commands():
    """Each ``python -m <application> ...`` that any README shows, with where it stands."""
    for readme in READMES:
        for command in commands(readme):
            for part in command.split("&&"):
                words = shlex.split(part, comments=True)
                while words and re.fullmatch(r"\w+=.*", words[0]):
                    words = words[1:]  # a variable set for this command alone
                if words[:2] == ["python", "-m"] and (ROOT / words[2]).is_dir():
                    yield pytest.param(words[2:], id=f"{readme}: {' '.join(words[2:])}")


def run(words, cwd=ROOT):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def stand_ins(words, folder):
    """Series to read where the data of a command are not on this machine."""
    named = " ".join(words)
    if "table.yaml" in named:
        rows = [
            f"2024-01-{day:02d}T{hour:02d}:00,{hour}" for day in range(1, 32) for hour in range(24)
        ]
        (folder / "data.csv").write_text("\n".join(["time,load", *rows]))
        return [f"--data.path={folder / 'data.csv'}"]
    published = re.findall(r"configs/timeseries/(\w+)\.yaml", named)
    if published and published[0] != "seattle" and not os.environ.get("POSENC_MM_DATA"):
        pytest.skip(f"POSENC_MM_DATA is not set: {published[0]} is not here")
    return []


def test_two_commands_do_all_the_set_up():
    set_up = [line for line in commands("README.md") if line.startswith("pip install")]
    assert set_up == [TRAIN, TESTS]


def test_ci_runs_the_command_of_the_readme():
    install, test = TESTS.split(" && ")
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert any(install.replace("pip install", "pip install --quiet") in line for line in lines)
    (line,) = [line for line in lines if line.startswith(f"check {test}")]
    extra = shlex.split(line)[2:]
    # Reports only: nothing that would select, split or configure the tests otherwise.
    assert all(word.startswith(("--cov", "--durations")) for word in extra)


def test_the_train_command_runs(tmp_path):
    """The command itself takes minutes; this is the same one with the least to do."""
    words = shlex.split(TRAIN.split(" && ")[1])[2:]
    least = ["--encodings", "none", "axial_rope", "--seeds", "1", "--trainer.max_epochs=1"]
    done = run([*words, *least, "--out", str(tmp_path)])
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "results.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["encoding"] for row in rows} == {"none", "axial_rope"}
    assert len({row["size"] for row in rows}) == 3
    assert all(0 < float(row["accuracy"]) < 1 for row in rows)
    assert "axial_rope" in (tmp_path / "results.md").read_text()
    assert list(tmp_path.rglob("*.png"))
    assert str(tmp_path) in done.stdout, "a command ends by saying where its results are"


@pytest.mark.parametrize("words", list(application_commands()))
def test_application_commands_are_understood(words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    if words[:2] in (["text", "generate"], ["text", "probe"]):
        import_module(f"text.{words[1]}").parse(words[2:])
        return
    if words[0] == "posenc_mm":
        # These take seconds: they are run.
        out = ["--out", str(tmp_path / "x.png")] if words[1] == "plot" else []
        assert import_module("posenc_mm.__main__").main([*words[1:], *out]) in (0, None)
        assert capsys.readouterr().out.strip()
        return
    if words[0] == "multimodal":
        import_module("multimodal.compare").parse(words[2:])
        return
    if words[0] == "benchmarks":
        import_module("benchmarks.__main__").parsed(words[1:])
        return
    if words[1] == "forecast":
        import_module("timeseries.forecasting.asking").parse(words[2:])
        return
    if words[0] == "timeseries":
        words = [*words, *stand_ins(words, tmp_path)]
    if words[1] == "compare":
        compare = import_module(f"{words[0]}.compare")
        options, overrides = compare._parse(words[2:])
        *bases, overlays = compare._configs(options)
        last = list(overlays.values())[-1]
        configs = [f"-c={path}" for path in (*bases, *(last if isinstance(last, list) else [last]))]
        words = [words[0], "fit", *configs, *overrides]
    monkeypatch.setattr(sys, "argv", [*words, "--print_config"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module(words[0], run_name="__main__")
    assert not stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize("readme", READMES)
def test_python_blocks_run(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": readme}
    for number, body in enumerate(blocks(readme, "python"), 1):
        exec(compile(body, f"{readme}, block {number}", "exec"), namespace)


def test_the_example_is_ten_lines_at_most():
    first = blocks("README.md", "python")[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("readme", READMES)
def test_links_inside_the_repository_lead_somewhere(readme):
    text = (ROOT / readme).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    inside = [target for target in targets if "://" not in target]
    missing = [target for target in inside if not ((ROOT / readme).parent / target).exists()]
    assert not missing


def test_the_table_lists_every_encoding_where_it_is():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|(.*)\[`([\w/]+\.py)`\]", text, re.M)
    kinds = {
        "tokens": AdditiveEncoding,
        "rotation": RotaryEncoding,
        "logits": AttentionBias,
        "weights": AttentionBias,
        "contents": ContextualBias,
        "neighbours": ConditionalEncoding,
    }
    for name, kind, papers, file in rows:
        encoding = getattr(posenc_mm, name)
        for address in re.findall(r"\((https://[^)]+)\)", papers):
            assert address in encoding.__doc__, f"{name} does not refer to {address}"
        assert issubclass(encoding, kinds[kind])
        assert encoding.__module__ == import_module(file[:-3].replace("/", ".")).__name__
    public = [getattr(posenc_mm, name) for name in posenc_mm.__all__]
    encodings = [c for c in public if isinstance(c, type) and issubclass(c, tuple(kinds.values()))]
    assert {name for name, *_ in rows} == {c.__name__ for c in encodings} - {
        kind.__name__ for kind in kinds.values()
    }
