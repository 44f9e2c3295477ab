"""The command line of the text application, as it is typed."""

import csv
import math
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
from text.cli import main
from text.module import LanguageModel

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "text"
SHORT = [
    "--model.dim=16",
    "--model.depth=1",
    "--model.heads=2",
    "--model.dropout=0",
    "--data.length=16",
    "--data.batch_size=4",
    "--data.train_windows=8",
    "--trainer.max_epochs=1",
    "--trainer.log_every_n_steps=1",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
RUN = Path("runs") / "text" / "file" / "version_0"
LAST = RUN / "checkpoints" / "last.ckpt"


def overlay(name):
    return ["-c", str(CONFIGS / "encodings" / f"{name}.yaml")]


@pytest.fixture
def words(tmp_path):
    """Arguments that say the model, and a text to train it on."""
    path = tmp_path / "text.txt"
    path.write_text("What was said, was it? It was; so it is said.\n" * 40, encoding="utf-8")
    return ["-c", str(CONFIGS / "file.yaml"), f"--data.path={path}", *SHORT]


@pytest.fixture
def text(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; returns what it printed."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*said):
        monkeypatch.setattr(sys, "argv", ["text", *map(str, said)])
        main()
        return capsys.readouterr()

    return run


def table(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def column(run, name):
    return [float(row[name]) for row in table(run / "metrics.csv") if row.get(name)]


def test_fit_test_validate_predict_say_where_their_results_are(text, words):
    printed = text("fit", *words, *overlay("rope")).out
    assert f"results: {RUN}" in printed and f"checkpoint last: {LAST}" in printed
    names = {path.name.partition(".")[0] for path in RUN.iterdir()}
    assert names == {"checkpoints", "config", "events", "hparams", "metrics"}
    assert len(column(RUN, "train/loss")) == 2

    trained = [*words, *overlay("rope"), "--ckpt_path", LAST, "--data.test_length=[16,32]"]
    printed = text("test", *trained).out
    assert f"results: {RUN.with_name('version_1')}" in printed and "DataLoader" not in printed
    (tested,) = table(RUN.with_name("version_1") / "metrics.csv")
    for at in ("", "_32"):
        loss, perplexity = (float(tested[f"test/{name}{at}"]) for name in ("loss", "perplexity"))
        assert math.exp(loss) == pytest.approx(perplexity)
        assert printed.count(f"test/loss{at}: {loss:.4f}\n") == 1
        assert float(tested[f"test/bits_per_byte{at}"]) == pytest.approx(loss / math.log(2))

    text("validate", *trained)
    printed = text("predict", *trained).out
    path = RUN.with_name("version_3") / "predictions.csv"
    assert f"predictions: {path}" in printed
    rows = [row for row in table(path) if row["length"] == "16"]
    assert [int(row["index"]) for row in rows] == list(range(1, len(rows) + 1))
    told = sum(-math.log(float(row["probability"])) for row in rows) / len(rows)
    assert told == pytest.approx(float(tested["test/loss"]), abs=1e-3)
    right = sum(row["token"] == row["predicted"] for row in rows) / len(rows)
    assert right == pytest.approx(float(tested["test/accuracy"]))


@pytest.mark.parametrize("now", ["none", "alibi", "rope --model.rotary.base=1e5"])
def test_a_checkpoint_under_another_encoding_is_refused(text, words, now):
    text("fit", *words, *overlay("rope"))
    name, *rest = now.split()
    with pytest.raises(ValueError, match="another encoding.*trained with Rotary"):
        text("test", *words, *overlay(name), *rest, "--ckpt_path", LAST)


def test_the_model_of_a_checkpoint_is_built_from_it_alone(text, words):
    text("fit", *words, *overlay("learned"), *overlay("t5"), "--data.vocabulary=characters")
    model = LanguageModel.load_from_checkpoint(LAST)
    assert model.encodings["additive"].startswith("Learned(dim=16, sizes=(16,)")
    assert model.encodings["bias"].startswith("T5Bias(heads=2")
    assert set("Wht,?;.\n") < set(model.alphabet)
    saved = torch.load(LAST, weights_only=True)["state_dict"]
    assert saved.keys() == model.state_dict().keys()
    assert all(torch.equal(saved[name], value) for name, value in model.state_dict().items())


def test_a_saved_config_fed_back_builds_the_same_module(text, words):
    text("fit", *words, *overlay("rope"), "--model.rotary.base=1e4", "--model.bias=ALiBi")
    text("fit", "-c", RUN / "config.yaml", "--trainer.max_epochs=2")
    second = RUN.with_name("version_1") / "checkpoints" / "last.ckpt"
    first, again = (LanguageModel.load_from_checkpoint(path) for path in (LAST, second))
    assert first.encodings == again.encodings and "base=10000.0" in first.encodings["rotary"]
    # One setting changed, and the schedule follows it: it is not frozen at the epochs of before.
    assert torch.load(second, weights_only=True)["lr_schedulers"][0]["T_max"] == 2


def test_resume_goes_on_where_it_stopped(text, words):
    words = [*words, *overlay("rope"), "--trainer.max_epochs=3"]
    text("fit", *words)
    text("fit", *words, "--trainer.max_steps=4")
    half = RUN.with_name("version_1") / "checkpoints" / "last.ckpt"
    with pytest.warns(UserWarning, match="dirpath has changed"):
        text("fit", *words, "--ckpt_path", half)
    resumed = RUN.with_name("version_2")
    steps = [row["step"] for row in table(resumed / "metrics.csv") if row["train/loss"]]
    assert steps == ["4", "5"]


def test_packed_documents_and_mixed_precision_train(text, words, tmp_path):
    for k in range(30):
        (tmp_path / f"{k}.md").write_text(f"document {k}\n" * (k + 1))
    more = [f"--data.path={tmp_path}", "--data.pattern=*.md", "--data.packed=true"]
    text("fit", *words, *overlay("alibi"), *more, "--trainer.precision=bf16-mixed")
    assert all(math.isfinite(loss) for loss in column(RUN, "train/loss"))
    assert 4 < column(RUN, "val/loss")[0] < 9


def test_generate_goes_on_with_a_prompt(text, words, tmp_path):
    text("fit", *words, *overlay("rope"))
    out = tmp_path / "made" / "text.txt"
    asked = ["--prompt", "What ", "--tokens", "12", "--top-k", "3", "--out", out]
    first, second = (text("generate", LAST, *asked) for _ in range(2))
    assert first.out == second.out and first.out.startswith("What ")
    assert out.read_text(encoding="utf-8") == first.out
    assert f"text: {out}" in first.err and "12 tokens in" in first.err


def test_generate_says_what_it_cannot_do(text, words):
    with pytest.raises(SystemExit, match=r"generate: checkpoint must be a file .* got nowhere"):
        text("generate", "nowhere")
    text("fit", *words, *overlay("learned"))
    with pytest.raises(SystemExit, match="1 tokens and 17 more are too many"):
        text("generate", LAST, "--prompt", "W", "--tokens", "17")


def test_commands_that_are_missing_or_unknown_are_told_which_there_are(text, capsys):
    with pytest.raises(SystemExit, match="one of fit, validate.*, generate, probe, got 'tset'"):
        text("tset")
    with pytest.raises(SystemExit):
        text()
    printed = " ".join(capsys.readouterr().out.split())  # lines end where the terminal does
    assert "usage: python -m text" in printed and "compare, extend, generate, probe" in printed


def test_a_run_without_data_says_which_to_give(text, capsys):
    with pytest.raises(SystemExit):
        text("fit")
    assert "data must be given, such as by -c configs/text/stdlib.yaml" in capsys.readouterr().err


def test_no_logger_leaves_the_folder_as_it_was(text, words):
    text("validate", *words, "--trainer.logger=false", "--trainer.callbacks=null")
    assert not list(Path().iterdir())


@pytest.mark.parametrize("name", ["compare", "generate", "probe"])
def test_commands_of_their_own(monkeypatch, name):
    seen = []
    module = type(sys)(f"text.{name}")
    module.main = seen.append
    monkeypatch.setitem(sys.modules, f"text.{name}", module)
    main([name, "--seeds", "1"])
    assert seen == [["--seeds", "1"]]
