"""Attention maps of what attends through the library: every backend, every mask, every bias."""

import itertools
import random
from threading import Thread

import oracles
import oracles_attention
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posenc_mm as pm
from posenc_mm.attention.attending import OBSERVERS
from posenc_mm.diagnostics import attention_maps

BATCH, HEADS, KEY_HEADS, ROWS, WIDTH = 2, 4, 2, 11, 8
SLOPES = oracles.alibi_slopes(HEADS)
REAL = torch.ones(BATCH, ROWS, dtype=torch.bool)
REAL[0, :3] = False
DOCUMENTS = torch.tensor([0] * 4 + [1] * 5 + [2] * 2)
POINTS = [[[p] for p in range(ROWS)]] * BATCH


class Asks(nn.Module):
    """An attention of a user, which has nothing of the library's but ``attend``."""

    def __init__(self, bias=None, **options):
        super().__init__()
        self.bias, self.options = bias, options

    def forward(self, q, k, v):
        if self.bias is not None:
            points = pm.sequence(q.shape[2])
            return pm.attend(q, k, v, bias=self.bias, q_positions=points, **self.options)
        return pm.attend(q, k, v, **self.options)


def qkv(rows=ROWS, batch=BATCH):
    q = torch.randn(batch, HEADS, rows, WIDTH)
    return q, *torch.randn(2, batch, KEY_HEADS, rows, WIDTH)


def expected(q, k, pair=lambda *_: 0.0, **options):
    """Weights are what attention makes of values that tell the keys apart."""
    eye = torch.eye(k.shape[2], dtype=torch.float64).expand(*k.shape[:2], -1, -1)
    return oracles_attention.attention(q.double(), k.double(), eye, pair, **options)


def near(found, wanted, atol=2e-6):
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=atol)


MASKS = {
    "plain": {},
    "causal": {"causal": True},
    "padded": {"key_mask": REAL},
    "padded, causal": {"key_mask": REAL, "causal": True},
    "packed": {"segments": DOCUMENTS, "causal": True},
    "window": {"window": 3},
}
WAYS = [(mask, way) for mask in MASKS for way in ("auto", "dense", "blocks")]
WAYS += [(mask, "sdpa") for mask in ("plain", "causal")]
WAYS += [(mask, "factors") for mask in ("padded", "padded, causal")]


@pytest.mark.parametrize(("mask", "backend"), WAYS)
def test_maps_of_attend_are_the_softmax_whatever_way_is_taken(mask, backend):
    q, k, v = qkv()
    (found,) = attention_maps(Asks(backend=backend, **MASKS[mask]), q, k, v)
    near(found.weights, expected(q, k, **MASKS[mask]))
    seen = found.visible.expand_as(found.weights)
    assert torch.equal(seen, expected(q, k, **MASKS[mask]) > 0)


@pytest.mark.parametrize("backend", ["auto", "dense", "blocks", "factors", "flex"])
def test_maps_of_a_bias_are_the_softmax_whatever_way_is_taken(backend):
    q, k, v = qkv()
    model = Asks(pm.ALiBi(HEADS), causal=True, backend=backend)
    (found,) = attention_maps(model, q, k, v)
    pair = oracles_attention.distance(SLOPES, POINTS, POINTS)
    near(found.weights, expected(q, k, pair, causal=True))


def test_rows_of_a_table_read_in_blocks_are_in_their_order():
    """There, blocks of queries go to the kernel last row first."""
    rows, bias = 150, pm.T5Bias(HEADS, buckets=8, max_distance=10, bidirectional=False).double()
    nn.init.normal_(bias.weight)
    q, k, v = (x.double() for x in qkv(rows, batch=1))
    (found,) = attention_maps(Asks(bias, causal=True, backend="blocks"), q, k, v)
    points = [[[p] for p in range(rows)]]
    pair = oracles_attention.buckets(bias.weight.detach(), points, points, bidirectional=False)
    near(found.weights, expected(q, k, pair, causal=True), atol=1e-12)


def test_what_is_added_after_the_softmax_is_in_the_map():
    q, k, v = qkv()
    bias = pm.ERPE(HEADS, ROWS)
    nn.init.normal_(next(bias.parameters()))
    beside = bias(pm.sequence(ROWS), pm.sequence(ROWS)).detach().double()
    (found,) = attention_maps(Asks(bias, key_mask=REAL), q, k, v)
    wanted = expected(q, k, key_mask=REAL) + beside * REAL[:, None, None]
    near(found.weights, wanted)


def test_a_contextual_bias_is_in_the_map():
    bias = pm.ShawBias(HEADS, WIDTH, 3)
    nn.init.normal_(next(bias.parameters()))
    q, k, v = qkv()
    k, v = (x.repeat_interleave(HEADS // KEY_HEADS, dim=1) for x in (k, v))
    eye = torch.eye(ROWS).expand(BATCH, HEADS, -1, -1)
    (found,) = attention_maps(Asks(bias), q, k, v)
    points = pm.sequence(ROWS)
    near(found.weights, pm.attend(q, k, eye, bias=bias, q_positions=points).detach().double())


def test_queries_that_see_nothing_weigh_nothing():
    q, k, v = qkv()
    blind = REAL.clone()
    blind[1] = False
    (found,) = attention_maps(Asks(key_mask=blind), q, k, v)
    assert not found.weights[1].any() and found.weights[0].sum(-1).sub(1).abs().max() < 1e-5


TRANSFORMERS = {
    "plain": {},
    "rotary": {"rotary": lambda: pm.Rotary(WIDTH)},
    "alibi": {"bias": lambda: pm.ALiBi(HEADS)},
    "t5": {"bias": lambda: pm.T5Bias(HEADS, buckets=8, max_distance=10)},
    "grouped": {"kv_heads": KEY_HEADS, "rotary": lambda: pm.Rotary(WIDTH)},
}


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_maps_of_a_transformer_are_the_softmax(name, causal, packed):
    options = {k: v() if callable(v) else v for k, v in TRANSFORMERS[name].items()}
    kv = options.get("kv_heads", HEADS)
    model = pm.Transformer(HEADS * WIDTH, 2, HEADS, causal=causal, **options)
    if name == "t5":
        nn.init.normal_(model.bias.weight)
    projected = []
    for block in model.blocks:
        block.attention.qkv.register_forward_hook(lambda *a: projected.append(a[2]))
    segments = DOCUMENTS if packed else None
    x = torch.randn(BATCH, ROWS, HEADS * WIDTH)
    maps = attention_maps(model, x, pm.sequence(ROWS), segments=segments)
    assert [m.layer for m in maps] == ["blocks.0.attention", "blocks.1.attention"]
    for found, out in zip(maps, projected, strict=True):
        parts = out.unflatten(-1, (HEADS + 2 * kv, WIDTH)).transpose(1, 2)
        q, k, _ = parts.split((HEADS, kv, kv), dim=1)
        if "rotary" in options:
            speeds = [[10_000.0 ** (-2 * i / WIDTH) for i in range(WIDTH // 2)]]
            turns = oracles.turning_angles([[p] for p in range(ROWS)], speeds)
            layout = model.rotary.layout
            q, k = (oracles.rotate(y, turns, layout) for y in (q, k))
        pair = {
            "alibi": lambda: oracles_attention.distance(SLOPES, POINTS, POINTS),
            "t5": lambda: oracles_attention.buckets(model.bias.weight.detach(), POINTS, POINTS),
        }.get(name, lambda: lambda *_: 0.0)()
        near(found.weights, expected(q, k, pair, causal=causal, segments=segments), 5e-6)


def test_a_large_transformer_is_read_where_it_leaves_the_bias_to_its_layers():
    """From so many pairs on, layers get the module and fold it, or read it in blocks."""
    rows, heads = 1100, 4
    model = pm.Transformer(32, 1, heads, bias=pm.ALiBi(heads), causal=True)
    x, points = torch.randn(1, rows, 32), pm.sequence(rows)
    (found,) = attention_maps(model, x, points)
    with torch.no_grad():
        attention, y = model.blocks[0].attention, model.blocks[0].norm1(x).double()
        out = F.linear(y, attention.qkv.weight.double(), attention.qkv.bias.double())
        q, k, _ = out.unflatten(-1, (3, heads, 8)).permute(2, 0, 3, 1, 4)
    away = (points - points.T).abs().double()
    logits = q @ k.mT / 8**0.5 - torch.tensor(oracles.alibi_slopes(heads))[:, None, None] * away
    hidden = torch.ones(rows, rows, dtype=torch.bool).triu(1)
    near(found.weights, logits.masked_fill(hidden, -torch.inf).softmax(-1), 5e-6)


class Draws(nn.Module):
    """Draws random numbers in evaluation too."""

    def forward(self, x):
        return x + torch.rand(()) + random.random()


def test_a_model_is_left_as_it_was():
    model = pm.Transformer(32, 2, 4, dropout=0.5, rotary=pm.Rotary(8))
    model.blocks[1].eval()
    model.norm = nn.Sequential(model.norm, Draws())
    before = [m.training for m in model.modules()]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    x, points = torch.randn(1, 5, 32), pm.sequence(5)
    drawn, torch_state = random.getstate(), torch.get_rng_state()
    maps = attention_maps(model, x, points)
    assert [m.training for m in model.modules()] == before
    assert [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()] == hooks
    assert random.getstate() == drawn and torch.equal(torch.get_rng_state(), torch_state)
    assert all(p.grad is None for p in model.parameters())
    assert not any(m.weights.requires_grad for m in maps)
    # Dropout of the first layer would show in the second.
    wanted = attention_maps(model.eval(), x, points)
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(maps, wanted, strict=True))


def test_modes_come_back_after_an_error():
    model = pm.Transformer(32, 1, 4)
    with pytest.raises(ValueError, match="positions"):
        attention_maps(model, torch.randn(1, 5, 32), pm.sequence(4))
    assert all(m.training for m in model.modules()) and not OBSERVERS
    assert not any(
        hooks for m in model.modules() for hooks in (m._forward_hooks, m._forward_pre_hooks)
    )


def test_layers_that_share_a_module_are_told_apart():
    attention = pm.Transformer(32, 1, 4).blocks[0]
    maps = attention_maps(nn.Sequential(attention, attention), torch.randn(1, 5, 32))
    assert [m.layer for m in maps] == ["0.attention", "0.attention #2"]
    assert not torch.equal(maps[0].weights, maps[1].weights)


class Beside(nn.Module):
    """Attends, while another thread does too."""

    def forward(self, q):
        other = Thread(target=pm.attend, args=(2 * q, q, q))
        other.start()
        other.join()
        return pm.attend(q, q, q)


def test_only_what_the_model_asks_for_is_in_its_maps():
    q = torch.randn(1, 2, 5, WIDTH)
    (found,) = attention_maps(Beside(), q)
    assert len(OBSERVERS) == 0
    near(found.weights, expected(q, q))


def test_sizes_of_the_test_differ():
    sizes = (BATCH, HEADS, ROWS, WIDTH)
    assert all(a != b for a, b in itertools.combinations(sizes, 2))
