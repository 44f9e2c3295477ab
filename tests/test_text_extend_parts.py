"""The parts of ``python -m text extend``: ways to read, words, table and picture."""

import math

import numpy as np
import pytest
import torch

pytest.importorskip("lightning")
from posenc_mm import Rotary, sequence
from posenc_mm.scaling import NTK, Linear, PerPair, RotarySettings, Unscaled, YaRN
from text.decoder import Decoder, Shape
from text.decoder_distances import Distances
from text.stretching import methods, reading, reporting, verdict
from text.stretching.drawing import draw
from text.stretching.measuring import curve
from text.stretching.reading import Reading

N, D, TRAINED = 13, 6, 5
SETTINGS = RotarySettings(D, D, 100.0)


def turned(x, place, speeds):
    x = x.copy()
    for i, speed in enumerate(speeds):
        a, b = x[2 * i], x[2 * i + 1]
        c, s = math.cos(place * speed), math.sin(place * speed)
        x[2 * i], x[2 * i + 1] = a * c - b * s, a * s + b * c
    return x


@pytest.mark.parametrize("group", [2.5, math.inf])
def test_far_keys_are_seen_at_compressed_distances(group):
    near, speeds = 4, Unscaled().frequencies(D, 100.0)
    encoding = Rotary(D, base=100.0, layout="interleaved")
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, N, D)), rng.normal(size=(1, N, D)), rng.normal(size=(1, N, D))
    places = sequence(N).double() / group
    distances = Distances(near, encoding(places + near * (1 - 1 / group)), encoding(places))
    tensors = [torch.tensor(x)[None] for x in (q, k, v)]
    found = distances.attend(*tensors, encoding(sequence(N).double()))[0].numpy()
    for head in range(2):
        for i in range(N):
            scores = []
            for j in range(i + 1):
                apart = i - j if i - j < near else near + (i - j - near) / group
                scores.append(turned(q[head, i], apart, speeds) @ k[0, j] / math.sqrt(D))
            weights = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(found[head, i], weights @ v[0, : i + 1], atol=1e-12)


def decoder():
    torch.manual_seed(0)
    return Decoder(Shape(19, 12, 20, 2, 2, 1, D)).double().eval()


def lossy(way, windows, length=None):
    model = decoder()
    model.rotary = reading.rotary(SETTINGS, "half", way, length or windows.shape[1] - 1)
    with torch.no_grad():
        return reading.losses(model, way, windows)


WINDOWS = torch.randint(19, (2, N + 1), generator=torch.Generator().manual_seed(0))


def test_losses_are_of_the_next_token_and_do_not_depend_on_chunks(monkeypatch):
    model = decoder()
    model.rotary = Rotary(D, base=100.0)
    logits = model(WINDOWS[:, :-1], sequence(N))
    wanted = -logits.log_softmax(-1).gather(-1, WINDOWS[:, 1:, None])[..., 0]
    torch.testing.assert_close(lossy(Reading(), WINDOWS), wanted.float(), rtol=0, atol=1e-5)
    whole = lossy(Reading(), WINDOWS)
    monkeypatch.setattr(reading, "CHUNK", 4)
    torch.testing.assert_close(lossy(Reading(), WINDOWS), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [*methods.METHODS])
def test_a_method_changes_nothing_at_the_trained_length(name):
    way = methods.reading_of(name, 1.0, N + 1, SETTINGS)
    if name == "rerope" or name == "leaky_rerope":
        # Half the trained length is near: what lies beyond is held or, at no stretch, as it was.
        assert way.near == (N + 1) // 2
        if name == "rerope":
            return
    torch.testing.assert_close(lossy(way, WINDOWS), lossy(Reading(), WINDOWS), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", [name for name in methods.METHODS if name != "none"])
def test_a_method_changes_something_beyond_it(name):
    way = methods.reading_of(name, N / TRAINED, TRAINED, SETTINGS)
    found, plain = lossy(way, WINDOWS), lossy(Reading(), WINDOWS)
    assert (found[:, TRAINED:] - plain[:, TRAINED:]).abs().max() > 1e-4


def test_a_window_forgets_and_the_trained_length_is_what_it_keeps():
    way = methods.reading_of("window", 2.0, TRAINED, SETTINGS)
    other = WINDOWS.clone()
    other[:, 0] = (other[:, 0] + 1) % 19
    found = (lossy(way, WINDOWS) - lossy(way, other)).abs().amax(0)
    # Two layers hand on what they saw: twice a window less one.
    reach = 2 * (TRAINED - 1)
    assert found[: reach + 1].max() > 1e-5 and found[reach + 1 :].max() < 1e-12


def test_a_scaled_model_is_scaled_no_further():
    scaled = RotarySettings(D, D, 100.0, Linear(2.0))
    assert methods.reading_of("none", 4.0, 8, scaled).scaling == Linear(2.0)
    assert methods.reading_of("window", 4.0, 8, scaled) == Reading(Linear(2.0), window=8)
    with pytest.raises(ValueError, match="ntk starts from a plain ladder"):
        methods.reading_of("ntk", 4.0, 8, scaled)
    with pytest.raises(ValueError, match="method must be one of"):
        methods.reading_of("magic", 4.0, 8, scaled)


def test_amplitude_and_sharpness_reach_the_logits():
    yarn = YaRN(4.0, TRAINED)
    flat = YaRN(4.0, TRAINED, attention_factor=1.0)
    assert (lossy(Reading(yarn), WINDOWS) - lossy(Reading(flat), WINDOWS)).abs().max() > 1e-4
    both = YaRN(4.0, TRAINED, mscale=1.0, mscale_all_dim=1.0)
    model = decoder()
    model.rotary = reading.rotary(SETTINGS, "half", Reading(both), N)
    said = reading.how(model, Reading(both, log_length=TRAINED), sequence(N))["sharpness"]
    grown = torch.log(torch.arange(1.0, N + 1)) / math.log(TRAINED)
    wanted = both.softmax_factor * grown.clamp(min=1)
    torch.testing.assert_close(said[:, 0], wanted, rtol=1e-6, atol=0)


def test_a_reading_says_what_is_changed():
    assert str(Reading()) == "nothing changed"
    assert str(Reading(PerPair([1.0, 2.0]), window=8)).endswith("window=8")
    with pytest.raises(ValueError, match="exclude"):
        Reading(near=3, window=4)
    with pytest.raises(ValueError, match="at least 1"):
        Reading(near=3, group=0.5)


def test_a_curve_averages_neighbours():
    found = torch.arange(10.0).expand(2, 10)
    assert curve(found, points=5) == [(2, 0.5), (4, 2.5), (6, 4.5), (8, 6.5), (10, 8.5)]


def result(method, length, loss, *, kind="untrained", factor=None, spread=0.01, seconds=9.0):
    noise = spread * np.random.default_rng(len(method) + length).normal(size=8)
    tails = (loss + noise - noise.mean() + np.linspace(-0.3, 0.3, 8)).tolist()
    return {
        "kind": kind, "method": method, "factor": factor or length / 10, "length": length,
        "loss": loss, "perplexity": math.exp(loss), "tails": tails, "reading": method,
        "curve": [(length // 2, loss), (length, loss)], "training_seconds": seconds,
        "tokens_seen": 1000,
    }  # fmt: skip


NATIVE = result("none", 10, 1.0)
PLAIN = [NATIVE, result("none", 40, 2.0), result("ntk", 40, 1.5), result("ntk", 10, 1.2, factor=4)]


def test_words_follow_the_numbers():
    said = " ".join(verdict.verdict(PLAIN, 10))
    assert "At 40 tokens, untrained, ntk is first with 1.50; untouched 2.00, 50 %" in said
    assert "no longer context is worth its price here, cut texts at 10" in said
    assert "Recommended without training: ntk" in said and "1.20 instead of 1.00" in said


def test_a_longer_context_that_helps_is_said_to():
    said = " ".join(verdict.verdict([*PLAIN, result("search", 40, 0.8)], 10))
    assert "search is first with 0.80" in said and "the longer context is made use of" in said


def test_what_is_close_is_not_told_apart_and_what_sees_all_is_preferred():
    close = [*PLAIN, result("window", 40, 1.499, spread=0.2)]
    said = " ".join(verdict.verdict(close, 10))
    assert "window is first with 1.50, not to be told from ntk" in said
    assert "Recommended without training: ntk" in said


def test_few_windows_tell_little():
    def rows(*apart):
        return {"tails": [1.0 + a for a in apart]}, {"tails": [1.0] * len(apart)}

    # Student's t at 95 %: 12.7 standard errors of two windows, 4.3 of three, 2.14 of sixteen.
    assert verdict.is_close(*rows(0.1)) and verdict.is_close(*rows(0.1, 0.11, 0.21))
    assert verdict.is_close(*rows(0.1, 0.118)) and not verdict.is_close(*rows(0.1, 0.116))
    signs = [0.1 * (-1) ** i for i in range(16)]
    error = np.std(signs, ddof=1) / 4
    assert verdict.is_close(*rows(*(s + 2.1 * error for s in signs)))
    assert not verdict.is_close(*rows(*(s + 2.2 * error for s in signs)))


def test_training_longer_is_compared_with_training_as_much():
    rows = [*PLAIN, result("ntk", 40, 1.3, kind="tuned"),
            result("short", 40, 1.1, kind="tuned", factor=4)]  # fmt: skip
    said = " ".join(verdict.verdict(rows, 10))
    assert "Trained for up to 9 s, at 40 tokens: short 1.10, ntk 1.30; short is first." in said
    assert "at 40 tokens (ntk, 1,000 tokens seen) is worse than training for the same time" in said
    rows[-1] = result("short", 40, 1.4, kind="tuned", factor=4)
    assert "seen) is better than training for" in " ".join(verdict.verdict(rows, 10))
    rows[-1] = result("short", 40, 1.301, kind="tuned", factor=4, spread=0.2)
    assert "seen) cannot be told from training" in " ".join(verdict.verdict(rows, 10))


def test_the_table_has_what_is_made_for_each_length(tmp_path):
    rows = [*PLAIN, result("ntk", 10, 1.1, kind="tuned", factor=4),
            result("ntk", 40, 1.3, kind="tuned", factor=4)]  # fmt: skip
    table = reporting.table_of(rows, 10).set_index("row")
    assert list(table.index) == ["ntk", "none", "ntk, trained"]
    assert table.loc["ntk", ["10", "40", "short"]].tolist() == [1.0, 1.5, 1.2]
    assert table.loc["none", ["10", "40", "short"]].tolist() == [1.0, 2.0, 1.0]
    assert table.loc["ntk, trained", ["10", "40", "short"]].tolist() == [1.1, 1.3, 1.1]
    assert table.loc["ntk", "perplexity"] == pytest.approx(math.exp(1.5))
    assert "| ntk, trained | 1.100 | 1.300 | 3.67 | 1.100 |" in reporting.markdown(
        table.reset_index()
    )
    draw(rows, 10, "a title", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_ntk_is_what_it_is_called():
    assert methods.reading_of("ntk", 4.0, 8, SETTINGS) == Reading(NTK(4.0))
