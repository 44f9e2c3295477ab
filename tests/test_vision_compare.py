"""The comparison: it ranks what was measured, keeps what is finished, and says no more."""

import json

import pandas as pd
import pytest

pytest.importorskip("lightning")

from vision import compare, report
from vision.runs import train_one

RUN = ["--encodings", "none", "axial_rope", "--seeds", "2", "--trainer.max_epochs=1"]


def frame(accuracies: dict[str, dict[int, list[float]]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"encoding": name, "seed": seed, "size": size, "accuracy": accuracy, "seconds": 2.0 + seed,
         "parameters": 1000}
        for name, sizes in accuracies.items()
        for size, values in sizes.items()
        for seed, accuracy in enumerate(values)
    )  # fmt: skip


@pytest.fixture
def in_process(monkeypatch):
    """Train in this process, and note what was trained."""
    trained = []

    def train(todo, jobs):
        for task in todo:
            trained.append((task["encoding"], task["seed"]))
            train_one(task)

    monkeypatch.setattr(compare, "_train", train)
    return trained


def test_results_are_kept_until_what_they_depend_on_changes(in_process, tmp_path, capsys):
    compare.main([*RUN, "--out", str(tmp_path)])
    everything = [(name, seed) for seed in (0, 1) for name in ("none", "axial_rope")]
    assert in_process == everything
    printed = capsys.readouterr().out
    for file in ("results.csv", "results.md", "accuracy.png"):
        assert (tmp_path / file).stat().st_size > 100
        assert str(tmp_path / file) in printed

    first = pd.read_csv(tmp_path / "results.csv")
    assert len(first) == 2 * 2 * 3
    assert sorted(first["size"].unique()) == [8, 12, 16]
    assert first["accuracy"].between(0, 1).all() and first["seconds"].gt(0).all()
    per_seed = first.groupby("seed")["accuracy"].apply(list)
    assert per_seed[0] != per_seed[1]

    (tmp_path / "runs" / "none-1.json").unlink()
    in_process.clear()
    compare.main([*RUN, "--out", str(tmp_path)])
    assert in_process == [("none", 1)]
    again = pd.read_csv(tmp_path / "results.csv")
    assert again["accuracy"].tolist() == first["accuracy"].tolist()

    in_process.clear()
    compare.main([*RUN, "--data.batch_size=64", "--out", str(tmp_path)])
    assert in_process == everything


def test_a_half_written_result_is_not_a_result(in_process, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "none-0.part").write_text('{"key": "cut off')
    arguments = ["--encodings", "none", "--seeds", "1", "--trainer.max_epochs=1"]
    compare.main([*arguments, "--out", str(tmp_path)])
    assert in_process == [("none", 0)]
    written = json.loads((runs / "none-0.json").read_text())
    assert written["slots"]["rotary"] == "none"
    assert not (runs / "none-0.part").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--encodings", "axial"], "axial_rope"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_unknown_names_are_refused_with_what_there_is(argv, message):
    with pytest.raises(SystemExit, match=message):
        compare.main(argv)


@pytest.mark.parametrize("argv", [["--seeds", "0"], ["--jobs", "0"], ["--seed", "3"], ["--x"]])
def test_unknown_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as error:
        compare.main(argv)
    assert error.value.code == 2
    assert "error" in capsys.readouterr().err


def test_ranking_is_by_mean_accuracy_over_sizes_and_seeds():
    summary = report.summarise(
        frame({"a": {8: [0.9, 0.8], 12: [0.4, 0.4]}, "b": {8: [0.8, 0.8], 12: [0.7, 0.9]}})
    )
    assert summary["encoding"].tolist() == ["b", "a"]
    assert summary["mean"].tolist() == pytest.approx([0.8, 0.625])
    assert summary["8 px"].tolist() == pytest.approx([0.8, 0.85])
    assert summary["12 px std"].tolist() == pytest.approx([0.02**0.5, 0.0])
    assert summary["seconds"].tolist() == pytest.approx([2.5, 2.5])
    table = report.markdown(summary).splitlines()
    assert table[2].startswith("| 1 | b | 80.0 ± 0.0 | 80.0 ± 14.1 | 80.0 | 2.5 |")


def test_the_sentence_calls_no_difference_that_the_spread_explains():
    close = {"a": {8: [0.95, 0.97], 16: [0.60, 0.62]}, "b": {8: [0.96, 0.95], 16: [0.30, 0.31]}}
    text = report.sentence(report.summarise(frame(close)), 8, test_images=360)
    assert "At 8 px, the size trained at, all encodings lie from 96.0 to 95.5 %, too close" in text
    assert "at 16 px a leads (accuracies from 61.0 to 30.5 %)" in text
    assert "2 seeds" in text and "360 test images" in text
    often = {"a": {8: [0.93, 0.87] * 9}, "b": {8: [0.88, 0.82] * 9}}
    assert "a leads" in report.sentence(report.summarise(frame(often)), 8, 100_000)
    seldom = {"a": {8: [0.93, 0.87]}, "b": {8: [0.88, 0.82]}}
    assert "all encodings" in report.sentence(report.summarise(frame(seldom)), 8, 100_000)
    many = report.sentence(report.summarise(frame(close)), 8, test_images=10)
    assert "at 16 px all encodings" in many
