"""``python -m timeseries forecast --network patches``: trained, taken up again, its encodings."""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("lightning")

from posenc_mm.bias import LearnedALiBi  # noqa: E402
from posenc_mm.rotary import TimeRotary  # noqa: E402
from timeseries.forecast import main  # noqa: E402
from timeseries.forecasting import training  # noqa: E402


@pytest.fixture
def path(tmp_path):
    rows = 420
    stamps = pd.date_range("2024-01-01", periods=rows, freq="h")
    noise = np.random.default_rng(0).normal(size=rows) / 5
    values = np.sin(2 * np.pi * np.arange(rows) / 24) + noise
    pd.DataFrame({"when": stamps, "load": values}).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def forecast(path, *options):
    out = path.parent / "out"
    words = ("--network", "patches", "--epochs", "2", "--lookback", "32", "--horizon", "6")
    main([str(path), "--out", str(out), *words, *options])
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return (out / "forecast.csv").read_text(encoding="utf-8"), report


def test_patches_stand_beside_ridge_and_go_on_where_they_stopped(path, capsys, monkeypatch):
    started = training.Trained.on_train_epoch_start

    def stop(model):
        if model.current_epoch == 1:
            raise KeyboardInterrupt
        started(model)

    with monkeypatch.context() as patch:
        patch.setattr(training.Trained, "on_train_epoch_start", stop)
        with pytest.raises(SystemExit) as stopped:
            forecast(path)
    assert stopped.value.code == 130
    assert "the same command goes on" in capsys.readouterr().out
    one, report = forecast(path)
    said = capsys.readouterr().out
    assert "training goes on from" in said and "patches + rope_time beside ridge" in said
    errors = {row["forecast"]: row["MSE"] for row in report["tables"]["errors"]}
    ridge = errors[
        "ridge + encodings" if "ridge + encodings" in errors else "ridge (lookback alone)"
    ]
    assert errors["patches beside it  <- the model"] < 1.3 * ridge
    two, _ = forecast(path)
    assert "training: kept from before" in capsys.readouterr().out
    assert one == two


def test_encodings_of_attention(path, monkeypatch):
    models = []
    original = training._model

    def spied(*args):
        models.append(original(*args))
        return models[-1]

    monkeypatch.setattr(training, "_model", spied)
    forecast(path, "--encodings", "day:2", "alibi_time", "--epochs", "1")
    forecast(path, "--encodings", "auto", "--epochs", "1")
    attention = [model.network.transformer for model in models]
    assert isinstance(attention[0].bias, LearnedALiBi) and attention[0].rotary is None
    assert isinstance(attention[1].rotary, TimeRotary) and attention[1].bias is None
    assert attention[0].additive is not None and models[0].network.linear is not None
