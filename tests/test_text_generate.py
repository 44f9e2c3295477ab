"""Going on with a text: what is remembered changes nothing, and chance is as asked for."""

import io
from collections import Counter

import pytest
import torch

pytest.importorskip("lightning")

from posenc_mm import ALiBi, Learned, Rotary, Sinusoidal, T5Bias, sequence
from text.generate import parse, write
from text.module import LanguageModel
from text.sampling import choose, continuation

SLOTS = {
    "none": {},
    "sinusoidal": {"additive": lambda: Sinusoidal(24)},
    "learned": {"additive": lambda: Learned(24, 20, std=1.0)},
    "rope": {"rotary": lambda: Rotary(8)},
    "alibi": {"bias": lambda: ALiBi(3)},
    "rope_t5": {"rotary": lambda: Rotary(8), "bias": lambda: T5Bias(3, bidirectional=False)},
}


def model(name="rope", **arguments):
    slots = {slot: make() for slot, make in SLOTS[name].items()}
    return LanguageModel(dim=24, depth=2, heads=3, **slots, **arguments).eval()


@pytest.mark.parametrize("name", SLOTS)
def test_a_cache_changes_nothing(name):
    network = model(name).double().network
    tokens = torch.randint(256, (3, 5))
    drawn = list(continuation(network, tokens, 16, temperature=0.0))
    assert len(drawn) == 16 and all(each.shape == (3,) for each in drawn)
    for each in drawn:
        with torch.no_grad():
            logits = network(tokens, sequence(tokens.shape[1]))[:, -1]
        assert torch.equal(each, logits.argmax(-1))
        tokens = torch.cat((tokens, each[:, None]), dim=1)


def test_a_seed_is_a_text():
    network = model().network
    texts = [
        torch.stack(list(continuation(network, torch.ones(1, 3).long(), 12, generator=generator)))
        for generator in (torch.Generator().manual_seed(seed) for seed in (0, 0, 1))
    ]
    assert torch.equal(texts[0], texts[1]) and not torch.equal(texts[0], texts[2])


def test_draws_follow_the_probabilities():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    for temperature, top_k in ((1.0, None), (0.5, None), (2.0, 2)):
        weights = (logits[0] / temperature).exp()
        weights[top_k or 4 :] = 0
        generator = torch.Generator().manual_seed(0)
        drawn = choose(
            logits.expand(20_000, -1), temperature=temperature, top_k=top_k, generator=generator
        )
        counts = Counter(drawn.tolist())
        for token, share in enumerate((weights / weights.sum()).tolist()):
            assert counts[token] / 20_000 == pytest.approx(share, abs=0.015)


def test_temperatures_near_zero_take_the_likeliest():
    logits = torch.randn(5, 30) * 50
    for temperature in (0.0, 1e-6, 1e-30):
        assert torch.equal(choose(logits, temperature=temperature), logits.argmax(-1))
    assert torch.equal(choose(logits, top_k=1), logits.argmax(-1))


def test_a_table_is_read_to_its_end_and_no_further():
    network = model("learned").network
    tokens = torch.ones(1, 5).long()
    assert len(list(continuation(network, tokens, 16))) == 16  # the last one is not read
    with pytest.raises(ValueError, match="5 tokens and 17 more are too many: positions of a Lear"):
        next(continuation(network, tokens, 17))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0"),
        ({"temperature": float("nan")}, "temperature must be at least 0"),
        ({"top_k": 0}, "top_k must be at least 1"),
    ],
)
def test_wrong_numbers_are_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        next(continuation(model().network, torch.ones(1, 2).long(), 3, **arguments))
    with pytest.raises(ValueError, match="N at least 1"):
        next(continuation(model().network, torch.ones(1, 0).long(), 3))


def test_text_is_shown_once_its_characters_are_whole(monkeypatch):
    """Of several bytes, none is shown before the last; one that never ends shows as unknown."""
    tokens = [*"€a".encode(), *"😀".encode()[:2]]
    monkeypatch.setattr(
        "text.generate.continuation", lambda *_, **__: (torch.tensor([t]) for t in tokens)
    )
    stream = io.StringIO()
    shown = write(model(), parse(["x.ckpt", "--prompt", "ü: "]), stream)
    assert shown == stream.getvalue() == "ü: €a\ufffd"


@pytest.mark.parametrize("words", [["--tokens", "0"], ["--prompt", ""], ["--top_p", "1"]])
def test_wrong_words_are_refused(words, capsys):
    with pytest.raises(SystemExit) as end:
        parse(["x.ckpt", *words])
    assert end.value.code == 2 and "error" in capsys.readouterr().err
