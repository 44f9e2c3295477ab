"""``python -m text extend``: what it measures is right, what it says follows, and it goes on."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from test_text_extend_checkpoints import write_llama2c

pytest.importorskip("lightning")
from posenc_mm import Rotary, sequence
from posenc_mm.scaling import NTK, RotarySettings, YaRN
from text.checkpoints_llama2c import read_decoder
from text.cli import main
from text.stretching import measuring, searching
from text.stretching.preparing import divide, ends_of

TRAINED, VOCAB = 16, 37
FAST = ["--data", "text.txt", "--windows", "3", "--tail", "4", "--factors", "1", "2", "4",
        "--search-budget", "9", "--search-windows", "2", "--steps", "2"]  # fmt: skip
OUT = "runs/text/extend-model"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_llama2c(tmp_path / "model.bin", dim=24, heads=3, kv_heads=1, vocab=VOCAB)
    pieces = [b"<unk>", b"<s>", b"</s>", b" ", *[bytes([97 + i]) for i in range(VOCAB - 4)]]
    rows = [np.float32(0).tobytes() + np.int32(len(p)).tobytes() + p for p in pieces]
    (tmp_path / "tok.bin").write_bytes(np.int32(9).tobytes() + b"".join(rows))
    letters = np.random.default_rng(2).integers(97, 97 + 26, 700, dtype=np.uint8)
    (tmp_path / "text.txt").write_text(letters.tobytes().decode())
    return tmp_path


def extend(*words):
    main(["extend", "model.bin", *FAST, *map(str, words)])


def told(folder=OUT):
    with open(f"{folder}/report.json") as file:
        return json.load(file)


def test_losses_are_those_of_the_last_tokens_whatever_the_length(here, capsys):
    extend("--methods", "none", "ntk", "yarn")
    printed = capsys.readouterr().out
    frame = pd.read_csv(f"{OUT}/results.csv").set_index(["method", "factor", "length"])
    tokens = [3, *[ord(c) - 97 + 4 for c in (here / "text.txt").read_text()]]
    test = torch.tensor(tokens[round(0.8 * len(tokens)) :])
    room = len(test) - 1 - 4 * TRAINED
    ends = [4 * TRAINED + round(i * room / 2) for i in range(3)]
    decoder, _ = read_decoder(here / "model.bin")
    for name, scaling in (("ntk", NTK(2.0)), ("yarn", YaRN(2.0, TRAINED))):
        decoder.rotary = Rotary(8, layout="interleaved", scaling=scaling)
        found = []
        for end in ends:
            window = test[end - 2 * TRAINED : end + 1]
            with torch.no_grad():
                logits = decoder(window[None, :-1], sequence(2 * TRAINED))[0].double()
            surprise = -logits.log_softmax(-1)[torch.arange(2 * TRAINED), window[1:]]
            found.append(surprise[-4:].mean().item())
        row = frame.loc[(name, 2.0, 2 * TRAINED)]
        assert row["loss"] == pytest.approx(np.mean(found), abs=1e-5)
        assert row["perplexity"] == pytest.approx(math.exp(np.mean(found)), rel=1e-5)
    for file in ("results.csv", "report.json", "report.md", "picture.png"):
        assert f"{OUT}/{file}" in printed and (here / OUT / file).stat().st_size > 0
    assert "Recommended without training:" in printed


def test_parts_follow_each_other_and_windows_stay_within_theirs(here):
    assert divide(101, [0.7, 0.1, 0.2]) == {"train": (0, 71), "search": (71, 81), "test": (81, 101)}
    assert ends_of(torch.zeros(50), 20, 4) == [20, 30, 39, 49]
    assert ends_of(torch.zeros(22), 20, 4) == [20, 21]
    extend("--methods", "none")
    spans = told()["spans"]
    assert spans["train"][1] == spans["search"][0] and spans["search"][1] == spans["test"][0]
    assert spans["test"][1] == 701


def test_it_goes_on_where_it_stopped(here, monkeypatch, capsys):
    whole, counted = measuring.measure, []

    def stopping(decoder, study, reading, part, *rest):
        counted.append(part)
        if len(counted) == 9:
            raise KeyboardInterrupt
        return whole(decoder, study, reading, part, *rest)

    words = ["--methods", "none", "search", "--tune", "ntk"]
    monkeypatch.setattr(measuring, "measure", stopping)
    monkeypatch.setattr(searching, "measure", stopping)
    with pytest.raises(SystemExit, match="130"):
        extend(*words)
    monkeypatch.setattr(measuring, "measure", whole)
    monkeypatch.setattr(searching, "measure", whole)
    extend(*words)
    stopped = told()
    extend(*words, "--out", "whole")
    for one, other in zip(stopped["rows"], told("whole")["rows"], strict=True):
        assert one["tails"] == pytest.approx(other["tails"], abs=1e-6)
        assert one["reading"] == other["reading"]
    capsys.readouterr()
    extend(*words)
    assert ": 0 to do" in capsys.readouterr().out
    extend(*words, "--search-budget", 10)
    # Another budget changes what was searched, and nothing else.
    assert ": 3 to do, 6 kept" in capsys.readouterr().out


def test_windows_that_were_read_are_not_read_again(here, monkeypatch):
    whole, read = measuring.losses, []

    def stopping(decoder, way, windows):
        if len(read) == 6:
            raise KeyboardInterrupt
        read.append(windows)
        return whole(decoder, way, windows)

    # Windows of four times the length are read one by one: the stop falls between two of them.
    monkeypatch.setattr(measuring, "losses", stopping)
    with pytest.raises(SystemExit, match="130"):
        extend("--methods", "none")
    left = list((here / OUT / "runs").glob("*.pt"))
    assert [path.stem for path in left] == ["untrained-none-4-64"]
    before = len(read)
    read.append(None)
    extend("--methods", "none")
    again = len(read) - before - 1
    # Two windows at once of the trained length, then one by one: 2 + 3 + 3.
    assert before + again == 8
    assert not list((here / OUT / "runs").glob("*.pt"))
    monkeypatch.setattr(measuring, "losses", whole)
    extend("--methods", "none", "--out", "whole")
    for one, other in zip(told()["rows"], told("whole")["rows"], strict=True):
        assert one["tails"] == pytest.approx(other["tails"], abs=1e-6)


def test_a_search_never_sees_the_part_to_test_on(here):
    extend("--methods", "none", "search")
    first = {r["factor"]: r["reading"] for r in told()["rows"] if r["method"] == "search"}
    written = (here / "text.txt").read_text()
    (here / "text.txt").write_text(written[:560] + written[560:][::-1])
    extend("--methods", "none", "search", "--out", "other")
    other = {r["factor"]: r["reading"] for r in told("other")["rows"] if r["method"] == "search"}
    assert first == other and len(first) == 2
    losses = [r["loss"] for r in told()["rows"]]
    assert losses != [r["loss"] for r in told("other")["rows"]]


def test_a_refinement_finds_what_the_order_of_an_evolution_forbids():
    def loss(factors):
        return (math.log(factors[0]) - 1) ** 2 + math.log(factors[1]) ** 2

    start = searching.Trial((2.0, 2.0), loss((2.0, 2.0)))
    best = searching.refine(loss, [start], [], 60, 5.0)
    assert best.factors[0] > 2.5 and best.factors[1] == pytest.approx(1.0)
    assert searching.refine(loss, [start], [], 0, 5.0) == start


def test_a_search_starts_from_the_closed_forms():
    settings = RotarySettings(8, 8, 10_000.0)
    found = [searching._factors(each, settings) for each in searching._closed(4.0, 512)]
    np.testing.assert_allclose(found[0], [4] * 4)
    np.testing.assert_allclose(found[1], [4 ** (i / 3) for i in range(4)], rtol=1e-8)
    assert found[3] == (1.0,) * 4


def test_training_lowers_the_loss_of_what_it_is_trained_on(here):
    (here / "text.txt").write_text("ab" * 400)
    extend("--methods", "none", "--tune", "ntk", "short", "--steps", 12, "--lr", 0.02)
    rows = {(r["kind"], r["method"], r["length"]): r for r in told()["rows"]}
    longest = 4 * TRAINED
    for method in ("ntk", "short"):
        trained = rows["tuned", method, longest]
        assert trained["loss"] < rows["untrained", "none", longest]["loss"] - 0.5
        assert trained["tokens_seen"] == 12 * longest
    # What is given is left as it was.
    extend("--methods", "none", "--out", "again")
    assert told("again")["rows"][0]["loss"] == rows["untrained", "none", TRAINED]["loss"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "nothing.txt"], "there is no nothing.txt"),
        (["--factors", "1", "16"], "must be longer"),
        (["--trained-length", "400"], "must be longer"),
    ],
)
def test_what_cannot_be_measured_is_said(here, words, said):
    with pytest.raises(SystemExit, match=said):
        extend(*words)


@pytest.mark.parametrize(
    "words",
    [["--factors", "1"], ["--tune", "dynamic"], ["--tune", "search"], ["--windows", "0"],
     ["--shares", "0.5", "0.4", "0.2"], ["--methods", "sorcery"], ["--tune-factor", "3"]],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(here, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        extend(*words)
    assert "error:" in capsys.readouterr().err
