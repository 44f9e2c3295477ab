"""The comparison of position designs: end to end, kept results, and what is said of them."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("sklearn")

from multimodal import compare, report, runs
from multimodal.data import Material
from multimodal.designs import DESIGNS
from multimodal.rows import KINDS, Setting, draw

README = Path(__file__).resolve().parents[1] / "multimodal" / "README.md"
LEAST = ["--seeds", "2", "--steps", "3", "--batch", "4", "--rows", "6", "--test-rows", "2"]
LEAST += ["--designs", "streams", "per_modality"]


def made():
    every = torch.arange(10)
    grey = (every / 10)[:, None, None].expand(10, 8, 8)
    time = torch.arange(3200) / 8000
    sounds = tuple(torch.sin(2 * math.pi * (250 + 300 * digit) * time) for digit in range(10))
    return Material(("",) * 10, sounds, every, grey, every)


@pytest.fixture
def in_process(monkeypatch):
    """Train in this process, and note what was trained."""
    trained = []

    def train(run, todo, jobs, line):
        for task in todo:
            trained.append((task["design"], task["seed"]))
            print(line(json.loads(json.dumps(run(task)))))

    monkeypatch.setattr(compare, "work", train)
    monkeypatch.setattr(compare, "prepare", lambda path: None)
    monkeypatch.setattr(
        runs, "load", lambda path: dict.fromkeys(("train", "validation", "test"), made())
    )
    return trained


def test_results_are_kept_until_what_they_depend_on_changes(in_process, tmp_path, capsys):
    out = tmp_path / "out"
    compare.main([*LEAST, "--out", str(out)])
    everything = [(name, seed) for seed in (0, 1) for name in ("streams", "per_modality")]
    assert in_process == everything
    printed = capsys.readouterr().out
    for file in ("results.csv", "results.md", "accuracy.png"):
        assert (out / file).stat().st_size > 100
        assert f"results: {out / file}" in printed
    assert "4 runs to train, 0 kept" in printed and "streams, seed 1: " in printed
    assert "right in 10 %" in printed and "right in 10 %" in (out / "results.md").read_text()

    found = pd.read_csv(out / "results.csv")
    assert len(found) == 2 * 2 * len(runs.CONDITIONS) * (len(KINDS) + 1)
    assert found["accuracy"].between(0, 1).all()
    total = found[found["kind"] == "all"]
    words = total["condition"].map(lambda name: runs.CONDITIONS[name].words)
    assert (total["asked"] == 2 * 2 * words).all(), "two rows, two questions for each word"
    kinds = found[found["kind"] != "all"].groupby(["design", "seed", "condition"])["asked"].sum()
    assert kinds.sum() == total["asked"].sum()

    (out / "runs" / "streams-1.json").unlink()
    in_process.clear()
    compare.main([*LEAST, "--out", str(out)])
    assert in_process == [("streams", 1)]
    again = pd.read_csv(out / "results.csv")
    assert again["right"].tolist() == found["right"].tolist(), "the same run finds the same"

    in_process.clear()
    compare.main([*LEAST, "--steps", "2", "--out", str(out)])
    assert in_process == everything


def test_a_process_of_its_own_finds_what_this_one_finds(data_dir, tmp_path, capsys):
    words = [*LEAST, "--designs", "streams", "--seeds", "1", "--data", str(data_dir)]
    compare.main([*words, "--jobs", "1", "--out", str(tmp_path)])
    assert "streams, seed 0: " in capsys.readouterr().out
    written = json.loads((tmp_path / "runs" / "streams-0.json").read_text())
    options = compare.parse([*words, "--out", str(tmp_path / "alone")])
    options.out.joinpath("runs").mkdir(parents=True)
    (task,) = compare.tasks_of(options)
    assert runs.run(task)["scores"] == written["scores"]


def test_a_design_is_learnt_where_it_says_enough():
    """A few steps on hums: who knows seconds finds what was said, who knows nothing does not."""
    right = {}
    for design in ("streams", "none"):
        task = {"design": design, "seed": 0, "steps": 80, "batch": 16}
        model = runs.train(task, draw(made(), Setting(words=3), 96, 0))
        scores = runs.test(model, design, draw(made(), Setting(words=3), 40, 1))
        right[design] = scores["said"]["right"] / scores["said"]["asked"]
    assert right["streams"] > 0.7 and right["none"] < 0.6


def test_all_designs_start_from_the_same_weights_and_rows():
    rows = draw(made(), Setting(words=2), 4, 0)
    first = {}
    for design in DESIGNS:
        model = runs.train({"design": design, "seed": 3, "steps": 2, "batch": 4}, rows)
        first[design] = model.readers[0].bias
    other = runs.train({"design": "none", "seed": 4, "steps": 2, "batch": 4}, rows)
    for bias in first.values():
        assert (
            (bias - first["none"]).abs().max() < 1e-2 < (bias - other.readers[0].bias).abs().max()
        )


def test_an_interruption_keeps_what_is_finished(in_process, monkeypatch, tmp_path, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "work", stop)
    with pytest.raises(SystemExit) as stopped:
        compare.main([*LEAST, "--out", str(tmp_path)])
    assert stopped.value.code == 130
    assert "the same command goes on" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["--seeds", "0"], ["--designs", "rope"], ["--step", "3"]])
def test_wrong_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as stopped:
        compare.main(argv)
    assert stopped.value.code == 2
    assert "error" in capsys.readouterr().err


def test_missing_recordings_end_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr("multimodal.data.ARCHIVE", (tmp_path / "nowhere.tar.gz").as_uri())
    with pytest.raises(SystemExit, match=r"spoken_digits\.tar\.xz.*give --data"):
        compare.main(["--data", str(tmp_path / "empty"), "--out", str(tmp_path / "out")])


def results(**accuracies):
    """Runs of designs with so many right answers of a thousand for each seed."""
    return report.frame(
        [
            {"design": design, "seed": seed, "part": "test", "seconds": 1.0,
             "scores": {"as trained": {"said": {"asked": 1000, "right": right}}}}
            for design, rights in accuracies.items()
            for seed, right in enumerate(rights)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (results(a=[900, 905, 895], b=[700, 705, 695]), "as trained: a leads (90 % to 70 %)."),
        (results(a=[900], b=[700]), "too close to tell apart"),  # one seed says nothing of another
        (results(a=[900, 700, 800], b=[700, 790, 700]), "too close to tell apart"),
        (results(a=[900, 905, 895], b=[890, 895, 885]), "too close to tell apart"),  # the questions
        (
            results(a=[901, 906, 896], b=[900, 905, 895], c=[100, 100, 100]),
            "as trained: a and b lead, too close to tell apart (90 % to 10 %).",
        ),
    ],
)
def test_no_difference_is_called_one_that_chance_explains(found, said):
    assert said in report.sentences(found)


def test_a_leader_is_said_to_lead_only_in_what_it_leads():
    """All questions together and each kind are told apart by themselves."""
    scores = {"a": ((900, 500), (905, 505)), "b": ((600, 500), (605, 505))}
    found = report.frame(
        [
            {"design": design, "seed": seed, "part": "test", "seconds": 1.0, "scores": {"now": {
                kind: {"asked": 1000, "right": right}
                for kind, right in zip(("said", "shown"), rights, strict=True)
            }}}
            for design, own in scores.items()
            for seed, rights in enumerate(own)
        ]
    )  # fmt: skip
    said = report.sentences(found)
    assert "now: a leads (70 % to 55 %). Ahead of b beyond chance where asked for: said.\n" in said


def test_the_table_is_of_means_and_spreads():
    table = report.markdown(results(a=[900, 800], b=[100, 100]))
    assert "| a | 85.0 ± 7.1 |" in table and "| b | 10.0 ± 0.0 |" in table


def test_the_readme_shows_the_command_and_what_it_measured():
    text = README.read_text(encoding="utf-8")
    (command, *_) = re.findall(r"^python -m multimodal compare.*$", text, re.M)
    assert command == "python -m multimodal compare"
    rows = re.findall(rf"^\| ({'|'.join(DESIGNS)}) \|(.+)\|$", text, re.M)
    tables = [[name for name, _ in rows[first : first + 5]] for first in range(0, len(rows), 5)]
    assert len(tables) >= 2 and all(sorted(each) == sorted(DESIGNS) for each in tables)
    for _, cells in rows:
        numbers = [
            re.fullmatch(r"(\d+\.\d) ± (\d+\.\d)", cell.strip()) for cell in cells.split("|")
        ]
        assert all(numbers) and all(0 <= float(number[1]) <= 100 for number in numbers)
    assert "10 %" in text, "guessing"
