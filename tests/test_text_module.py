"""The language model: what it sees, what it is charged for, and what its checkpoint knows."""

import math

import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("lightning")

from posenc_mm import ALiBi, Learned, RelativeBias, Rotary, Sinusoidal, T5Bias, sequence
from text.data.windows import Corpus, Windows, collate, collate_packed
from text.metrics import Surprise
from text.module import LanguageModel
from text.scoring import Scores, score
from text.vocabulary import Characters, alphabet_of

SLOTS = {
    "none": {},
    "sinusoidal": {"additive": lambda: Sinusoidal(24)},
    "learned": {"additive": lambda: Learned(24, 40)},
    "rope": {"rotary": lambda: Rotary(8)},
    "alibi": {"bias": lambda: ALiBi(3)},
    "t5": {"bias": lambda: T5Bias(3, bidirectional=False)},
}


def model(name="rope", **arguments):
    slots = {slot: make() for slot, make in SLOTS[name].items()}
    return LanguageModel(dim=24, depth=2, heads=3, length=10, **slots, **arguments)


def corpus(total, *starts):
    return Corpus(torch.randint(256, (total,)), torch.tensor([0, *starts]))


def batch_of(text, length=10, rows=2, packed=False):
    windows = Windows(text, length, [(0, len(text.tokens))])
    return (collate_packed if packed else collate)([windows[k] for k in range(rows)])


@pytest.mark.parametrize("name", SLOTS)
def test_no_token_sees_what_comes_after_it(name):
    network = model(name).double().network
    tokens = torch.randint(256, (2, 11))
    other = tokens.clone()
    other[:, 7:] = torch.randint(256, (2, 4))
    first, second = (network(each, sequence(11)) for each in (tokens, other))
    assert torch.equal(first[:, :7], second[:, :7])
    assert not torch.allclose(first[:, 7:], second[:, 7:])


def test_the_head_is_the_embedding():
    network = model().double().network
    tokens = torch.randint(256, (2, 5))
    read = network.transformer(network.embedding(tokens) * 24**0.5, sequence(5))
    torch.testing.assert_close(
        network(tokens, sequence(5)), read @ network.embedding.weight.T, rtol=0, atol=1e-12
    )
    assert sum(p.numel() for p in network.parameters() if p.shape == (256, 24)) == 256 * 24


def test_losses_are_of_the_next_tokens():
    made = model().double()
    batch = batch_of(corpus(40))
    losses, logits = made.token_losses(batch)
    assert losses.shape == (2, 10)
    for row in range(2):
        for at in range(10):
            truth = int(batch.tokens[row, at + 1])
            scores = logits[row, at].tolist()
            wanted = math.log(sum(math.exp(s) for s in scores)) - scores[truth]
            assert losses[row, at].item() == pytest.approx(wanted, abs=1e-12)


def test_training_is_charged_for_what_counts_alone(monkeypatch):
    made = model().double()
    monkeypatch.setattr(made, "log", lambda *_, **__: None)
    batch = batch_of(corpus(40))
    batch.counted[:, :6] = False
    losses = made.token_losses(batch)[0]
    assert made.training_step(batch, 0).item() == pytest.approx(losses[:, 6:].mean().item())


@pytest.mark.parametrize("name", SLOTS)
def test_packed_documents_are_read_as_if_alone(name):
    made = model(name).double().eval()
    text = corpus(31, 4, 17)
    losses = made.token_losses(batch_of(text, length=30, rows=1, packed=True))[0][0]
    for begin, end in ((0, 4), (4, 17), (17, 30)):
        tokens = text.tokens[begin : end + 1][None]
        logits = made(tokens[:, :-1], sequence(end - begin))[0]
        alone = F.cross_entropy(logits, tokens[0, 1:], reduction="none")
        torch.testing.assert_close(losses[begin:end], alone, rtol=0, atol=1e-10)


def test_surprise_is_of_all_tokens_not_of_batches():
    surprise = Surprise()
    surprise.update(torch.tensor([1.0]), torch.tensor([1]), torch.tensor([True]))
    surprise.update(torch.full((3,), 3.0), torch.tensor([2, 3, 2]), torch.zeros(3).bool())
    found = {name: value.item() for name, value in surprise.compute().items()}
    wanted = {"loss": 2.5, "perplexity": math.exp(2.5), "accuracy": 0.25}
    assert found == pytest.approx({**wanted, "bits_per_byte": 10 / 8 / math.log(2)})


def test_bits_per_byte_do_not_depend_on_what_a_token_is():
    """A model that knows nothing: of characters or of bytes, the bits are those of its choices."""
    text = "naïve €€"
    vocabulary = Characters(alphabet_of(text))
    tokens = vocabulary.encode(text)
    made = model("none", alphabet=vocabulary.alphabet)
    torch.nn.init.zeros_(made.network.embedding.weight)
    found = score(made, _loader(Corpus(tokens, torch.tensor([0])), 3))
    bits = (len(text) - 1) * math.log2(vocabulary.size)
    assert found.bits_per_byte == pytest.approx(bits / (len(text.encode()) - 1))
    assert found.perplexity == pytest.approx(vocabulary.size)


def _loader(text, length, stride=None):
    windows = Windows(text, length, [(0, len(text.tokens))], stride)
    return torch.utils.data.DataLoader(windows, batch_size=3, collate_fn=collate)


@pytest.mark.parametrize("stride", [None, 4])
def test_scores_are_the_losses_in_the_order_of_the_text(stride):
    made = model().eval()
    text = corpus(50)
    found = score(made, _loader(text, 10, stride))
    assert len(found.losses) == 49 and not made.training
    for target in (1, 10, 23, 49):
        seen = int(found.seen[target - 1])
        window = text.tokens[target - seen : target].long()[None]
        with torch.no_grad():
            logits = made(window, sequence(seen))[0, -1]
        wanted = F.cross_entropy(logits, text.tokens[target].long())
        assert found.losses[target - 1] == pytest.approx(wanted.item(), abs=1e-5)


def test_curves_and_stretches_are_means_of_the_losses():
    rng = torch.Generator().manual_seed(0)
    losses = torch.rand(640, generator=rng).double().numpy()
    seen = torch.arange(640).remainder(80).add(1).numpy()
    found = Scores(losses, seen, 1.0)
    assert found.stretches() == pytest.approx(losses.reshape(16, 40).mean(1).tolist())
    curve = found.curve()
    assert curve[-1][0] == 80 and [at for at, _ in curve] == sorted({at for at, _ in curve})
    before = 0
    for at, loss in curve:
        within = (seen > before) & (seen <= at)
        assert loss == pytest.approx(losses[within].mean())
        before = at


@pytest.mark.parametrize("name", SLOTS)
def test_a_table_refuses_what_lies_beyond_it_and_nothing_else_does(name):
    network = model(name).network
    assert network.refusal(40) is None
    said = network.refusal(41)
    assert (said is not None) == (name == "learned")
    if said:
        assert "(40,)" in said and "larger table" in said


def test_a_bias_that_ends_refuses_too():
    bias = RelativeBias(3, 40, clip=False)
    network = LanguageModel(dim=24, depth=1, heads=3, bias=bias).network
    assert network.refusal(40) is None and "offsets" in network.refusal(41)


def test_a_checkpoint_of_another_encoding_or_of_other_tokens_is_refused():
    saved = {}
    model("rope").on_save_checkpoint(saved)
    model("rope").on_load_checkpoint(saved)
    with pytest.raises(ValueError, match=r"another encoding\. rotary: trained with Rotary\(head"):
        model("alibi").on_load_checkpoint(saved)
    with pytest.raises(ValueError, match="other tokens: bytes, this model has the characters"):
        model("rope", alphabet=alphabet_of("abc")).on_load_checkpoint(saved)
    with pytest.raises(ValueError, match="not written by LanguageModel"):
        model("rope").on_load_checkpoint({"state_dict": {}})
