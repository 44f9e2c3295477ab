"""The comparison: it ranks what was measured, keeps what is finished, and says no more."""

import json
import math

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("lightning")

from text import compare, report, verdict
from text.runs import train_one

RUN = ["--encodings", "learned", "rope", "--seeds", "2", "--factors", "2"]
LEAST = [
    "--model.dim=16",
    "--model.depth=1",
    "--model.heads=2",
    "--data.length=16",
    "--data.train_windows=16",
    "--data.batch_size=8",
    "--trainer.max_epochs=1",
]


def result(encoding, seed, losses, refused=(), spread=0.0):
    scores = {
        str(length): {
            "loss": loss, "perplexity": math.exp(loss), "bits_per_byte": loss / math.log(2),
            "tokens": 160, "curve": [[1, loss + 1], [length, loss]],
            "stretches": [loss + spread * (-1) ** k for k in range(16)],
        }
        for length, loss in losses.items()
    }  # fmt: skip
    scores |= {str(length): {"refusal": "the table ends"} for length in refused}
    return {"encoding": encoding, "seed": seed, "seconds": 2.0 + seed, "parameters": 1000,
            "train_length": 16, "scores": scores}  # fmt: skip


def summary(*results):
    return report.summarise(report.frame(results))


@pytest.fixture
def in_process(monkeypatch):
    """Train in this process, and note what was trained."""
    trained = []

    def train(run, todo, jobs, line):
        for task in todo:
            trained.append((task["encoding"], task["seed"]))
            print(line(json.loads(json.dumps(run(task)))))

    monkeypatch.setattr(compare, "work", train)
    return trained


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("What was said, was it? It was; so it is said.\n" * 40, encoding="utf-8")
    config = compare.CONFIGS / "file.yaml"
    return [*RUN, "-c", str(config), *LEAST, f"--data.path={path}"]


def test_results_are_kept_until_what_they_depend_on_changes(in_process, words, tmp_path, capsys):
    out = tmp_path / "out"
    compare.main([*words, "--out", str(out)])
    everything = [(name, seed) for seed in (0, 1) for name in ("learned", "rope")]
    assert in_process == everything
    printed = capsys.readouterr().out
    for file in ("results.csv", "curves.csv", "results.md", "perplexity.png"):
        assert (out / file).stat().st_size > 100
        assert str(out / file) in printed
    assert "learned, seed 0: perplexity " in printed and "- at 32" in printed

    first = pd.read_csv(out / "results.csv")
    assert len(first) == 2 * 2 * 2
    beyond = first[(first["encoding"] == "learned") & (first["length"] == 32)]
    assert beyond["loss"].isna().all() and beyond["refusal"].str.contains("larger table").all()
    read = first.drop(beyond.index)
    assert np.allclose(np.exp(read["loss"]), read["perplexity"])
    assert np.allclose(read["loss"] / math.log(2), read["bits_per_byte"])  # tokens are bytes
    assert read["loss"].between(2, 7).all() and read["loss"].nunique() == 6
    assert read["tokens"].nunique() == 1, "every length reads the same text"
    curves = pd.read_csv(out / "curves.csv")
    assert set(curves.loc[curves["length"] == 32, "encoding"]) == {"rope"}

    (out / "runs" / "rope-1.json").unlink()
    in_process.clear()
    compare.main([*words, "--out", str(out)])
    assert in_process == [("rope", 1)]
    again = pd.read_csv(out / "results.csv")
    assert again["loss"].dropna().tolist() == first["loss"].dropna().tolist()

    in_process.clear()
    with (tmp_path / "text.txt").open("a") as file:
        file.write("More is said.")
    compare.main([*words, "--out", str(out)])
    assert in_process == everything


def test_a_half_written_result_is_not_a_result(in_process, words, tmp_path):
    runs = tmp_path / "out" / "runs"
    runs.mkdir(parents=True)
    (runs / "none-0.part").write_text('{"key": "cut off')
    words = [*words, "--encodings", "none", "--seeds", "1", "--out", str(tmp_path / "out")]
    compare.main(words)
    assert in_process == [("none", 0)]
    written = json.loads((runs / "none-0.json").read_text())
    assert written["slots"]["rotary"] == "none"
    assert not (runs / "none-0.part").exists()


def test_a_process_of_its_own_finds_what_this_one_finds(words, tmp_path, capsys):
    words = [*words, "--encodings", "rope"]
    compare.main([*words, "--jobs", "1", "--out", str(tmp_path)])
    assert "rope, seed 1: perplexity" in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "results.csv")
    options, overrides = compare._parse(words)
    base, overlays = compare._configs(options)
    task = {
        "encoding": "rope", "seed": 1, "configs": [str(base), str(overlays["rope"])],
        "overrides": overrides, "factors": [1, 2], "key": "", "path": str(tmp_path / "1.json"),
    }  # fmt: skip
    alone = train_one(task)
    for length, score in alone["scores"].items():
        own = found[(found["seed"] == 1) & (found["length"] == length)]
        assert own["loss"].item() == pytest.approx(score["loss"], rel=1e-6)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--encodings", "rop"], "rope_alibi"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_unknown_names_are_refused_with_what_there_is(argv, message):
    with pytest.raises(SystemExit, match=message):
        compare.main(argv)


@pytest.mark.parametrize(
    "argv", [["--seeds", "0"], ["--jobs", "0"], ["--factors", "0"], ["--seed", "3"], ["--x"]]
)
def test_unknown_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as error:
        compare.main(argv)
    assert error.value.code == 2
    assert "error" in capsys.readouterr().err


def test_ranking_is_by_the_loss_at_the_length_trained_at():
    found = summary(
        result("a", 0, {16: 2.0}, refused=[32]), result("a", 1, {16: 2.2}, refused=[32]),
        result("b", 0, {16: 1.9, 32: 1.7}), result("b", 1, {16: 1.9, 32: 1.8}),
    )  # fmt: skip
    assert found["encoding"].tolist() == ["b", "a"]
    assert found["16 loss"].tolist() == pytest.approx([1.9, 2.1])
    assert found["16 loss std"].tolist() == pytest.approx([0.0, 0.02**0.5])
    table = report.markdown(found).splitlines()
    assert table[2].startswith("| 1 | b | 6.69 ± 0.00 | 5.76 ± 0.41 | 2.741 | 2.5 | 1k |")
    assert table[3].startswith("| 2 | a | 8.21 ± 1.16 | - | 3.030 |")
    said = verdict.sentences(found, 16)
    assert "At 32 tokens only b can read" in said


def four(better, worse, spread=0.0):
    return summary(
        *(result("a", k, {16: loss}, spread=spread) for k, loss in enumerate(better)),
        *(result("b", k, {16: loss}) for k, loss in enumerate(worse)),
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (four([2.0, 2.0], [2.1, 2.1]), "a leads"),
        (four([2.0], [2.1]), "too close to tell apart"),  # one seed says nothing of another
        (four([2.0, 2.2], [2.1, 2.3]), "too close to tell apart"),
        (four([2.0, 2.01], [2.1, 2.11]), "a leads"),
        (four([2.0, 2.0], [2.1, 2.1], spread=0.4), "too close to tell apart"),
        (four([2.0, 2.0], [2.1, 2.1], spread=0.1), "a leads"),
    ],
)
def test_no_difference_is_called_one_that_seeds_or_text_explain(found, said):
    text = verdict.sentences(found, 16)
    assert said in text and "do not say how the encodings rank" in text


def test_longer_windows_help_harm_or_neither():
    found = summary(
        *(result("gains", k, {16: 2.0, 64: 1.9}) for k in range(2)),
        *(result("holds", k, {16: 2.0, 64: 2.0}, spread=0.1) for k in range(2)),
        *(result("moody", k, {16: 2.0, 64: 2.1 - 0.11 * k}) for k in range(2)),
        *(result("loses", k, {16: 2.0, 64: 3.0}) for k in range(2)),
        *(result("ends", k, {16: 2.0}, refused=[64]) for k in range(2)),
    )
    said = verdict.sentences(found, 16)
    told = "Compared to 16 tokens, 64 are read better by gains; worse by loses; no differently, as "
    assert (
        f"{told}far as these runs can tell, by holds and moody." in said
    )  # and not a word of ends
    assert "takes two seeds" in verdict.sentences(summary(result("a", 0, {16: 2.0, 64: 1.0})), 16)


def test_what_cannot_be_read_is_told_in_the_encoding_s_words():
    frame = report.frame([result("a", 0, {16: 2.0}, refused=[32, 64]), result("b", 0, {16: 2.0})])
    assert report.refusals(frame) == "`a` cannot read 32, 64 tokens: the table ends.\n\n"
    assert report.refusals(report.frame([result("b", 0, {16: 2.0})])) == ""
