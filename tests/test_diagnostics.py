"""Attention by distance and effective context, against plain loops."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import nn

import posenc_mm as pm
from posenc_mm.diagnostics import (
    AttentionMap,
    attention_by_distance,
    attention_maps,
    effective_context,
)


def softmax(*shape, hidden=None):
    logits = torch.randn(*shape)
    return (logits if hidden is None else logits.masked_fill(hidden, -torch.inf)).softmax(-1)


def by_distance(weights, points, visible, width, bins, real=None):
    """Mass per bin, mean distance, and the same of even attention: one pair at a time."""
    batch, heads, rows, _ = weights.shape
    mass, even = [Counter() for _ in range(heads)], Counter()
    total, even_total = [0.0] * heads, 0.0
    for b, i in itertools.product(range(batch), range(rows)):
        if real is not None and not real[b][i]:
            continue
        seen = [j for j in range(rows) if visible(b, i, j)]
        for j in seen:
            d = math.dist(points[b][i], points[b][j])
            bin_ = min(int(d / width), bins - 1)
            even[bin_] += 1 / len(seen)
            even_total += d / len(seen)
            for h in range(heads):
                mass[h][bin_] += float(weights[b, h, i, j])
                total[h] += d * float(weights[b, h, i, j])
    sums = [sum(of_head.values()) for of_head in mass]
    shares = [[of[x] / s for x in range(bins)] for of, s in zip(mass, sums, strict=True)]
    all_even = sum(even.values())
    means = [t / s for t, s in zip(total, sums, strict=True)]
    return shares, means, [even[x] / all_even for x in range(bins)], even_total / all_even


def near(found, wanted, atol=1e-6):
    wanted = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64), wanted, rtol=0, atol=atol
    )


def test_a_sequence_has_a_bin_for_each_distance():
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    weights = softmax(2, 3, 7, 7, hidden=hidden)
    found = attention_by_distance([AttentionMap("a", weights, ~hidden)], pm.sequence(7, offset=90))
    assert found.edges.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    points = [[[float(p)] for p in range(7)]] * 2
    shares, means, even, even_mean = by_distance(weights, points, lambda b, i, j: j <= i, 1, 7)
    (layer,) = found.layers
    near(layer.mass, shares)
    near(layer.mean, means)
    near(layer.even, even)
    near(layer.even_mean, even_mean)
    near(layer.mass.sum(-1), [1.0] * 3)
    assert not layer.prefix.any()


def test_on_a_grid_distances_are_euclidean_and_a_class_token_has_none():
    weights = softmax(2, 3, 16, 16)
    points = pm.grid(3, 5)
    found = attention_by_distance([AttentionMap("a", weights)], points, prefix=1)
    assert found.edges.tolist() == [0, 1, 2, 3, 4, 5]  # the furthest are the root of 20 apart
    placed = weights[:, :, 1:, 1:]
    shares, means, even, even_mean = by_distance(
        placed, [points.tolist()] * 2, lambda *_: True, 1, 5
    )
    (layer,) = found.layers
    near(layer.mass, shares)
    near(layer.mean, means)
    near(layer.even, even)
    near(layer.even_mean, even_mean)
    near(layer.prefix, (weights[:, :, 1:, 0].sum((0, 2)) / (2 * 15)).tolist())


def test_positions_of_each_sample_and_rows_of_padding():
    points = torch.rand(2, 6, 1, dtype=torch.float64) * 9
    real = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    visible = real[:, None, None, :].expand(2, 1, 6, 6)
    weights = softmax(2, 3, 6, 6, hidden=~visible)
    found = attention_by_distance([AttentionMap("a", weights, visible)], points, mask=real, bins=4)
    width = float((points[:, :, None] - points[:, None]).abs().max()) / 4
    shares, means, even, even_mean = by_distance(
        weights, points.tolist(), lambda b, i, j: real[b, j], width, 4, real.tolist()
    )
    (layer,) = found.layers
    near(layer.mass, shares)
    near(layer.mean, means)
    near(layer.even, even)
    near(layer.even_mean, even_mean)


@pytest.mark.parametrize("step", [1, 16])
def test_whole_distances_share_bins_of_whole_steps(step):
    """Bins of 50 hold three distances of 16 each, then four: a comb in the picture."""
    even, points = torch.full((1, 1, 100, 100), 0.01), pm.sequence(100) * step + 5.5
    found = attention_by_distance([AttentionMap("a", even)], points, bins=32)
    assert found.edges.diff().unique().tolist() == [4.0 * step] and found.edges[-1] == 100 * step
    apart = [abs(i - j) for i in range(100) for j in range(100)]
    near(found.layers[0].mass[0], [sum(d // 4 == x for d in apart) / 1e4 for x in range(25)])
    near(found.layers[0].mean, [step * sum(apart) / 1e4], 1e-6 * step)


def test_moments_are_subtracted_before_they_are_rounded():
    moments = torch.tensor([[1_700_000_000_000_000_001], [1_700_000_000_000_000_004]])
    weights = torch.eye(2).flip(0)[None, None]
    found = attention_by_distance([AttentionMap("a", weights)], moments)
    assert found.layers[0].mean.tolist() == [3.0]


def test_queries_that_see_nothing_do_not_count():
    weights = softmax(1, 2, 4, 4)
    weights[:, :, 2] = 0.0
    found = attention_by_distance([AttentionMap("a", weights)], pm.sequence(4))
    points = [[[float(p)] for p in range(4)]]
    _, means, _, even_mean = by_distance(
        weights, points, lambda b, i, j: i != 2, 1, 4, [[1, 1, 0, 1]]
    )
    near(found.layers[0].mean, means)
    near(found.layers[0].even_mean, even_mean)


def test_alibi_attends_nearer_than_no_encoding():
    x, points = torch.randn(2, 30, 64), pm.sequence(30)
    means = {}
    for name, bias in {"none": None, "alibi": pm.ALiBi(4)}.items():
        torch.manual_seed(1)
        model = pm.Transformer(64, 1, 4, bias=bias)
        means[name] = attention_by_distance(attention_maps(model, x, points), points).layers[0].mean
    assert (means["alibi"] < means["none"]).all()
    assert (means["alibi"].diff() > 0).all(), "slopes fall from head to head"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"maps": []}, "maps must be"),
        ({"maps": [AttentionMap("a", softmax(b, 1, 4, 4)) for b in (4, 1)]}, r"\[1, 4\].*windows"),
        ({"positions": pm.sequence(5)}, r"among the 5 tokens .* got .*\(1, 1, 4, 4\).*'a'"),
        ({"prefix": 1}, "among the 5 tokens"),
        ({"positions": torch.zeros(3, 4, 1)}, "of 3 samples"),
        ({"positions": torch.zeros(4)}, "positions must be"),
        ({"mask": torch.ones(1, 3, dtype=torch.bool)}, r"mask must be booleans \(B, N\)=\(1, 4\)"),
        ({"bins": 0}, "bins must be"),
    ],
)
def test_what_does_not_fit_is_refused(given, why):
    arguments = {"maps": [AttentionMap("a", softmax(1, 1, 4, 4))], "positions": pm.sequence(4)}
    with pytest.raises(ValueError, match=why):
        attention_by_distance(**(arguments | given))


class Recalls(nn.Module):
    """Knows the token after next-but-``reach`` surely, if it sees that far, else guesses."""

    def __init__(self, reach, size=11):
        super().__init__()
        self.reach, self.size, self.seen = reach, size, []

    def forward(self, tokens):
        self.seen.append(tuple(tokens.shape))
        logits = torch.zeros(*tokens.shape, self.size)
        if tokens.shape[1] >= self.reach:
            logits[:, -1].scatter_(1, tokens[:, -self.reach, None], 5.0)
        return logits


def test_the_effective_context_is_where_what_matters_comes_into_sight():
    tokens = torch.randint(11, (3, 6)).repeat(1, 5)  # each token comes again six later
    model = Recalls(6)
    found = effective_context(model, tokens, range(1, 21), last=4, batch=5)
    assert found.effective == 6 and found.counted == 12
    sure = math.log(1 + 10 * math.exp(-5.0))
    near(found.losses, [math.log(11)] * 5 + [sure] * 15, 1e-6)
    assert {width for _, width in model.seen} == set(range(1, 21))
    assert max(rows for rows, _ in model.seen) == 5


def test_each_token_is_predicted_from_exactly_the_tokens_before_it():
    tokens = torch.randint(50, (2, 12))
    rows = []

    def model(seen):
        rows.extend(map(tuple, seen.tolist()))
        return torch.zeros(*seen.shape, 50)

    effective_context(model, tokens, [3], last=2)
    text = tokens.tolist()
    assert rows == [tuple(line[at - 3 : at]) for line in text for at in (10, 11)]


def test_contexts_unless_given_and_a_curve_that_rises_again():
    class Rises(nn.Module):
        """Best at 4 tokens, worse beyond: a length it was not trained for. At 1 it is lucky."""

        def forward(self, tokens):
            good = {1: 5.0, 2: 0.0, 4: 4.0, 8: 2.0}.get(tokens.shape[1], 1.0)
            return torch.tensor([good, 0.0]).expand(*tokens.shape, 2)

    found = effective_context(Rises(), torch.zeros(1, 20, dtype=torch.long), last=3)
    assert found.contexts == (1, 2, 4, 8, 16, 17)
    assert found.effective == 4, "a shorter context may be better: it is within the tolerance"


def test_models_of_transformers_are_language_models():
    pytest.importorskip("transformers")
    from transformers_models import VOCABULARY, tiny, tokens

    model = tiny("Llama").train()
    ids = tokens(2, 12)
    found = effective_context(model, ids, [9], last=2)
    assert model.training
    model.eval()
    losses = []
    for at in (10, 11):
        logits = model(ids[:, at - 9 : at]).logits[:, -1].double().detach()
        losses += [-float(row.log_softmax(0)[t]) for row, t in zip(logits, ids[:, at], strict=True)]
    near(found.losses, [sum(losses) / 4], 1e-5)
    assert VOCABULARY == logits.shape[-1]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tokens": torch.zeros(2, 9)}, "tokens must be integers"),
        ({"tokens": torch.zeros(2, 8, dtype=torch.long)}, "N above last=8"),
        ({"contexts": [0]}, "contexts"),
        ({"contexts": [2]}, "from 1 to N - last = 1"),
        ({"last": 0}, "last must be"),
        ({"tolerance": -1.0}, "tolerance must be"),
        ({"model": lambda tokens: tokens}, r"logits \(B, N, V\) of tokens \(B, N\)=\(16, 1\)"),
    ],
)
def test_what_is_no_language_model_or_text_is_refused(given, why):
    arguments = {"model": Recalls(1), "tokens": torch.zeros(2, 9, dtype=torch.long)}
    with pytest.raises(ValueError, match=why):
        effective_context(**(arguments | given))
