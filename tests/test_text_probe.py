"""The probe: what is planted, what counts as found, and what is said of it."""

import json
import math
import sys

import pandas as pd
import pytest
import torch

pytest.importorskip("lightning")

from text import cli, probe
from text.data.needles import ALPHABET, VALUES
from text.module import LanguageModel
from text.probing import report, task
from text.vocabulary import Bytes, decode

LEAST = [
    "--model.dim=16",
    "--model.depth=1",
    "--model.heads=2",
    "--data.length=16",
    "--data.train_windows=16",
    "--data.batch_size=8",
    "--trainer.max_epochs=1",
]
ASKED = ["--depths", "3", "--samples", "20", "--factors", "1", "2"]


class Recalling(torch.nn.Module):
    """Stands for a model of letters that finds a key if it is among the last ``reach`` tokens."""

    device, alphabet = torch.device("cpu"), ALPHABET

    def __init__(self, reach):
        super().__init__()
        self.reach = reach

    def forward(self, tokens, positions):
        logits = torch.zeros(*tokens.shape, len(ALPHABET))
        logits[..., ALPHABET.index("a")] = 1.0  # never the answer
        for row, said in enumerate(tokens.tolist()):
            for at in range(len(said) - self.reach, len(said) - 1):
                if at >= 0 and said[at] == said[-1]:
                    logits[row, -1, said[at + 1]] = 9.0
        return logits


class Copying(torch.nn.Module):
    """Stands for a language model of bytes that goes on as it went on in the last ``reach``."""

    device, vocabulary = torch.device("cpu"), Bytes()

    def __init__(self, reach):
        super().__init__()
        self.reach = reach

    def forward(self, tokens, positions):
        logits = torch.zeros(*tokens.shape, 256)
        for row, said in enumerate(tokens.tolist()):
            for end in range(len(said) - 5, len(said) + 1):
                for at in range(max(6, end - self.reach), end):
                    if said[at - 6 : at] == said[end - 6 : end]:
                        logits[row, end - 1, said[at]] += 5.0
        return logits


@pytest.mark.parametrize("keys", [1, 4])
def test_a_key_is_found_as_far_as_a_model_reaches(keys):
    found = [
        task.letters_accuracy(Recalling(20), 40, depth, keys=keys, samples=60, seed=0)
        for depth in (0.0, 0.4, 0.6, 1.0)
    ]
    assert found == [0.0, 0.0, 1.0, 1.0]


def test_a_pass_key_is_found_as_far_as_a_model_reaches():
    filler = Bytes().encode("Nothing of note is said here, again and again. " * 40)
    found = [
        task.text_accuracy(Copying(120), filler, 200, depth, samples=30, seed=0)
        for depth in (0.0, 0.9)
    ]
    assert found[1] == 1.0
    # Ten numbers that it knows nothing of are alike: the first is as good as any, seldom chosen.
    knowing_nothing = found[0]
    assert knowing_nothing in (0.0, 1.0) or knowing_nothing < 0.4


def test_windows_of_a_text_hold_the_pass_key_at_its_depth():
    model = Copying(1)
    filler = Bytes().encode("".join(chr(97 + k % 26) for k in range(500)))
    numbers = list(range(10_000, 10_010))
    for depth, before in ((0.0, 0), (0.5, 35), (1.0, 70)):
        windows = task._asked_in_text(model, filler, 120, depth, numbers, 0.5)
        assert windows.shape == (10, 120)
        texts = [decode(model.vocabulary, window) for window in windows]
        assert all(
            said.endswith(f"\n# The pass key is {n}")
            for said, n in zip(texts, numbers, strict=True)
        )
        assert all(said.index("\n# The pass key is 10000.\n") == before for said in texts)
        rest = texts[0][:before] + texts[0][before + 26 : -24]
        assert rest in decode(model.vocabulary, filler)
    with pytest.raises(ValueError, match="length must be at least 51.*got length=40"):
        task._asked_in_text(model, filler, 40, 0.0, numbers, 0.5)
    with pytest.raises(ValueError, match="at most 550, for which the text lasts"):
        task._asked_in_text(model, filler, 600, 0.0, numbers, 0.5)


def test_the_loss_of_a_number_is_that_of_its_five_digits():
    model = LanguageModel(dim=16, depth=1, heads=2).eval()
    windows = torch.randint(256, (3, 30))
    found = task._losses_of_numbers(model, windows)
    with torch.no_grad():
        logs = model(windows, torch.arange(30)[:, None]).log_softmax(-1)
    wanted = [
        -sum(logs[k, at - 1, windows[k, at]].item() for at in range(25, 30)) for k in range(3)
    ]
    assert found.tolist() == pytest.approx(wanted, rel=1e-4)


def runs(**found):
    """A result per encoding: its shares by length; a text stands for a refusal."""
    return report.frame(
        [{"encoding": name, "seed": 0, "depths": [0.0, 0.5, 1.0], "accuracy": shares}
         for name, shares in found.items()]
    )  # fmt: skip


def test_sentences_say_what_was_found_and_no_more():
    frame = runs(
        good={"16": [1.0, 1.0, 1.0], "64": [1.0, 0.9, 1.0]},
        middle={"16": [1.0, 1.0, 1.0], "64": [0.9, 0.2, 0.9]},
        short={"16": [1.0, 1.0, 1.0], "64": "the table ends"},
        never={"16": [0.1, 0.12, 0.1], "64": [0.9, 0.1, 0.9]},
    )
    said = report.sentences(frame, 16, samples=100, chance=0.1)
    assert "keys are found by good 100 %, middle 100 % and short 100 %" in said
    assert "never found no more than guessing would (10 %) even at 16 tokens" in said
    assert "At 64 tokens: good 97 %, middle 67 % and short cannot read them." in said
    assert "at either end at 64 tokens: good and middle." in said  # 0.9 of 100 is below 1
    assert "half" not in said
    few = report.sentences(frame, 16, samples=10, chance=0.1)
    assert "at either end at 64 tokens: middle." in few
    assert "certain to about 10 points" in said and "certain to about 32 points" in few


def test_an_encoding_that_has_not_learnt_the_task_is_not_said_to_lose_the_middle():
    frame = runs(
        good={"16": [1.0, 1.0, 1.0], "64": [1.0, 1.0, 1.0]},
        poor={"16": [0.4, 0.3, 0.4], "64": [0.4, 0.0, 0.4]},
    )
    said = report.sentences(frame, 16, samples=100, chance=0.1)
    assert "poor 37 %: less than half at 16 tokens, where guessing finds 10 %" in said
    assert "At 64 tokens: good 100 %." in said and "Lost in the middle" not in said


def test_encodings_are_ranked_by_all_that_they_find():
    """What cannot be read is not found."""
    results = [
        {"encoding": name, "seed": seed, "depths": [0.0, 1.0], "accuracy": found}
        for seed, name, found in [
            (0, "ends", {"16": [1.0, 1.0], "64": "the table ends"}),
            (0, "far", {"16": [0.9, 0.7], "64": [0.5, 0.5]}),
            (1, "ends", {"16": [1.0, 1.0], "64": "the table ends"}),
            (1, "far", {"16": [0.8, 0.8], "64": [0.4, 0.2]}),
        ]
    ]
    frame = report.ranked(report.frame(results))
    assert list(report.maps(frame)) == ["far", "ends"] and len(frame) == 16
    assert report.ranking(frame).splitlines() == [
        "| # | encoding | 16 | 64 | all |",
        "| ---: | --- | ---: | ---: | ---: |",
        "| 1 | far | 80 ± 0 | 40 ± 14 | 60 |",
        "| 2 | ends | 100 ± 0 | - | 50 |",
    ]


def test_the_table_is_of_lengths_and_depths():
    lines = report.markdown(runs(a={"16": [1.0, 0.5, 0.25], "64": "the table ends"})).splitlines()
    assert lines[0] == "| encoding | length | 0 % | 50 % | 100 % |"
    assert lines[2:] == ["| a | 16 | 100 | 50 | 25 |", "| a | 64 | - | - | - |"]


@pytest.fixture
def in_process(monkeypatch):
    trained = []

    def train(run, todo, jobs, line):
        for each in todo:
            trained.append((each["encoding"], each["seed"]))
            print(line(json.loads(json.dumps(run(each)))))

    monkeypatch.setattr(probe, "work", train)
    return trained


def test_encodings_are_trained_and_probed(in_process, tmp_path, capsys):
    words = ["--encodings", "learned", "rope", "--seeds", "1", *ASKED, *LEAST]
    words += ["--out", str(tmp_path)]
    probe.main(words)
    assert in_process == [("learned", 0), ("rope", 0)]
    printed = capsys.readouterr().out
    for file in ("results.csv", "results.md", "found.png"):
        assert (tmp_path / file).stat().st_size > 100 and str(tmp_path / file) in printed
    assert "ranked by what is found" in printed
    assert "| # | encoding | 16 | 32 | all |" in (tmp_path / "results.md").read_text()
    found = pd.read_csv(tmp_path / "results.csv")
    assert len(found) == 2 * 2 * 3
    beyond = (found["encoding"] == "learned") & (found["length"] == 32)
    assert found.loc[beyond, "accuracy"].isna().all() and "- at 32" in printed
    assert found.loc[~beyond, "accuracy"].between(0, 1).all()
    in_process.clear()
    probe.main(words)
    assert in_process == []


def test_a_key_is_learnt_and_found_where_it_was_trained_to():
    """The task can be learnt within seconds: what the probe says of encodings is not of luck."""
    torch.manual_seed(0)
    arguments = ["--model.dim=32", "--data.length=12", "--data.keys=1"]
    arguments += ["--optimizer.init_args.lr=1e-2", "--trainer.max_epochs=6"]
    from text.runs import train

    base, overlay = (probe.CONFIGS / name for name in ("needles.yaml", "encodings/rope.yaml"))
    model, data, _ = train(
        {"encoding": "rope", "seed": 0, "configs": [base, overlay], "overrides": arguments}
    )
    found = [
        task.letters_accuracy(model.eval(), 12, depth, keys=1, samples=100, seed=3)
        for depth in (0.0, 0.5, 1.0)
    ]
    assert min(found) > 0.9, found


def checkpoint(tmp_path, monkeypatch, base, *words):
    monkeypatch.chdir(tmp_path)
    quiet = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    quiet += ["--trainer.log_every_n_steps=1"]
    cli.main(["fit", "-c", str(probe.CONFIGS / base), *LEAST, *quiet, *words])
    return tmp_path / "runs" / "text" / base[:-5] / "version_0" / "checkpoints" / "last.ckpt"


def test_a_checkpoint_of_letters_and_one_of_text_are_probed(tmp_path, monkeypatch, capsys):
    letters = checkpoint(tmp_path, monkeypatch, "needles.yaml")
    probe.main([str(letters), *ASKED, "--out", "letters"])
    assert len(pd.read_csv("letters/results.csv")) == 2 * 3
    assert "| # |" not in (tmp_path / "letters" / "results.md").read_text()  # alone, it has no rank
    file = tmp_path / "text.txt"
    file.write_text("What was said, was it? It was; so it is said.\n" * 40)
    text = checkpoint(tmp_path, monkeypatch, "file.yaml", f"--data.path={file}", "--data.length=64")
    probe.main([str(text), "--text", str(file), *ASKED, "--out", "text"])
    found = pd.read_csv("text/results.csv")
    assert set(found["length"]) == {64, 128} and found["accuracy"].between(0, 1).all()
    capsys.readouterr()
    probe.main([str(text), "--text", str(file), *ASKED, "--out", "text"])
    assert "0 runs to do, 1 kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [["--seeds", "0"], ["--depths", "1"], ["--text", "x"], ["x.ckpt", "--data.keys=1"], ["--x"]],
)
def test_wrong_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as end:
        probe.parse(argv)
    assert end.value.code == 2 and "error" in capsys.readouterr().err


def test_a_missing_or_foreign_checkpoint_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="got nowhere.ckpt"):
        probe.main(["nowhere.ckpt"])
    (tmp_path / "other.bin").write_bytes(b"weights of another program")
    with pytest.raises(SystemExit, match="text fit` wrote, got other.bin, which is of another"):
        probe.main(["other.bin"])


def test_guessing_finds_one_in_ten():
    """What chance is said to be is what it is: of ten values, and of ten numbers."""
    assert len(VALUES) == task.CHOICES == 10 and math.isclose(1 / task.CHOICES, 0.1)
    assert sys.modules["text.probing.running"]
