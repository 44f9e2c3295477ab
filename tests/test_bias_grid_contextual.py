"""Biases that depend on queries and keys: iRPE's contextual mode, decomposed relative positions."""

import math

import oracles_grid as oracles
import pytest
import torch
from torch.nn import functional

import posenc_mm as pm

HEADS, WIDTH = 3, 4


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def shaken(module):
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(noise(*parameter.shape, seed=seed))
    return module.double()


def irpe(method="product", **given):
    return shaken(pm.ContextualIRPE(HEADS, WIDTH, method=method, **given))


# ------------------------------------------------------------ iRPE


@pytest.mark.parametrize("method", ["product", "cross", "euclidean", "quant"])
@pytest.mark.parametrize("shared", [True, False])
def test_contextual_irpe_is_the_published_one(method, shared):
    """On keys, queries meet the bucket of query minus key; on queries, keys that of key minus."""
    bias = irpe(method, on="qk", shared=shared)
    queries, keys = pm.grid(3, 5)[::2], pm.grid(4, 13)[::5]
    q, k = noise(2, HEADS, len(queries), WIDTH), noise(2, HEADS, len(keys), WIDTH, seed=1)
    got = bias(queries, keys).logits(q, k)
    assert got.shape == (2, HEADS, len(queries), len(keys))
    for b in range(2):
        for h in range(HEADS):
            on_k, on_q = (
                bias.tables[side].detach() if shared else bias.tables[side].detach()[h]
                for side in "kq"
            )
            scale = WIDTH**-0.5
            expected = oracles.irpe_contextual(q[b, h], queries, keys, on_k, method, scale)
            expected += oracles.irpe_contextual(k[b, h], keys, queries, on_q, method, scale).T
            torch.testing.assert_close(got[b, h].detach(), expected, rtol=0, atol=1e-12)


def test_each_side_alone_and_its_scale():
    at = pm.grid(2, 4)
    q, k = noise(1, HEADS, 8, WIDTH), noise(1, HEADS, 8, WIDTH, seed=1)
    both = irpe(on="qk")
    for side, tensors in (("k", (q, 0 * k)), ("q", (0 * q, k))):
        alone = irpe(on=side)
        alone.tables.load_state_dict({side: both.tables[side]})
        torch.testing.assert_close(alone(at, at).logits(q, k), both(at, at).logits(*tensors))
    doubled = irpe(on="qk", scale=2 * WIDTH**-0.5)
    torch.testing.assert_close(doubled(at, at).logits(q, k), 2 * both(at, at).logits(q, k))


def test_contextual_bias_on_grouped_keys_and_per_sample_positions():
    bias = shaken(pm.ContextualIRPE(4, WIDTH, on="qk", shared=False))
    at = torch.stack((pm.grid(2, 4), pm.grid(4, 2) * 3))
    q, k = noise(2, 4, 8, WIDTH), noise(2, 2, 8, WIDTH, seed=1)
    got = bias(at, at).logits(q, k)
    for b in range(2):
        wide = k[b : b + 1].repeat_interleave(2, 1)
        torch.testing.assert_close(got[b], bias(at[b], at[b]).logits(q[b : b + 1], wide)[0])


# ------------------------------------------------------------ decomposed


@pytest.mark.parametrize("sizes", [(5,), (3, 5), (2, 3, 4)])
def test_decomposed_bias_is_the_published_one_between_offsets_too(sizes):
    bias = shaken(pm.DecomposedBias(HEADS, WIDTH, sizes))
    assert [tuple(t.shape) for t in bias.tables] == [(2 * s - 1, WIDTH) for s in sizes]
    cells = pm.grid(*sizes)
    for queries, keys in ((cells[::2], cells[1:]), (cells[::3] * 0.7, cells * 0.9)):
        q = noise(2, HEADS, len(queries), WIDTH)
        got = bias(queries.double(), keys.double()).logits(q, noise(2, 1, len(keys), WIDTH))
        for b in range(2):
            for h in range(HEADS):
                tables = [table.detach() for table in bias.tables]
                expected = oracles.decomposed(q[b, h], queries, keys, tables)
                torch.testing.assert_close(got[b, h].detach(), expected, rtol=0, atol=1e-12)
    q = noise(1, HEADS, len(cells), WIDTH)
    whole, real = bias(cells, cells), bias(cells.float(), cells.float())
    assert torch.equal(whole.logits(q, q), real.logits(q, q))


@pytest.mark.parametrize("shape", [(4, 6), (7, 3), (2, 9)])
def test_decomposed_bias_is_that_of_timms_sam_at_any_size(shape):
    sam = pytest.importorskip("timm.models.vision_transformer_sam")
    bias = shaken(pm.DecomposedBias(HEADS, WIDTH, (4, 6)))
    count = math.prod(shape)
    q = noise(2, HEADS, count, WIDTH)
    theirs = sam.get_decomposed_rel_pos_bias(q.flatten(0, 1), *bias.tables, shape, shape)
    spans = [[2 * s - 1 for s in each] for each in (shape, bias.sizes)]
    at = pm.rescale(pm.grid(*shape).double(), *spans)
    torch.testing.assert_close(
        bias(at, at).logits(q, q), theirs.unflatten(0, (2, HEADS)), rtol=0, atol=1e-12
    )


def test_decomposed_bias_is_that_of_timms_mvit_with_coarser_keys():
    mvit = pytest.importorskip("timm.models.mvitv2")
    fine, coarse = (6, 4), (3, 2)
    bias = shaken(pm.DecomposedBias(HEADS, WIDTH, fine))
    q = noise(2, HEADS, 24, WIDTH)
    logits = torch.zeros(2, HEADS, 24, 6, dtype=torch.float64)
    theirs = mvit.cal_rel_pos_type(logits, q, False, fine, coarse, *bias.tables)
    keys = pm.grid(*coarse, step=2, offset=1)
    torch.testing.assert_close(bias(pm.grid(*fine), keys).logits(q, q[:, :, :6]), theirs)


def test_offsets_beyond_a_decomposed_table_are_refused():
    bias = pm.DecomposedBias(2, WIDTH, (3, 4))
    for far in ([3, 0], [0, -4], [2.0, 4.0], [math.nan, 0.0]):
        with pytest.raises(ValueError, match="sizes"):
            bias(torch.tensor([far]), torch.zeros(1, 2))


# ------------------------------------------------------------ hosts


@pytest.mark.parametrize(
    "make", [lambda: irpe(on="qk"), lambda: shaken(pm.DecomposedBias(3, 4, (3, 5)))]
)
def test_attention_adds_a_contextual_bias_to_the_logits(make):
    bias, at = make(), pm.grid(3, 5)
    q, k, v = (noise(2, HEADS, 15, WIDTH, seed=seed) for seed in range(3))
    said = bias(at, at)
    logits = q @ k.mT / math.sqrt(WIDTH) + said.logits(q, k)
    expected = logits.softmax(-1) @ v
    for given in (bias, said):
        got = pm.attend(q, k, v, bias=given, q_positions=at)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    hidden = torch.ones(15, 15, dtype=torch.bool).triu(1)
    expected = logits.masked_fill(hidden, -math.inf).softmax(-1) @ v
    got = pm.attend(q, k, v, bias=bias, q_positions=at, causal=True)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_a_transformer_gives_each_layer_logits_of_its_own_queries():
    """Written once more with torch's own functions, layer by layer."""
    bias = irpe(on="qk")
    model = pm.Transformer(12, 2, HEADS, bias=bias).double().eval()
    tokens, at = noise(2, 15, 12), pm.grid(3, 5)
    x = tokens
    for block in model.blocks:
        parts = block.attention.qkv(block.norm1(x)).unflatten(-1, (3 * HEADS, WIDTH))
        q, k, v = parts.transpose(1, 2).chunk(3, dim=1)
        mask = bias(at, at).logits(q, k)
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + block.attention.out(seen.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    torch.testing.assert_close(model(tokens, at), model.norm(x), rtol=0, atol=1e-12)


def test_gradients_reach_queries_keys_and_vectors():
    bias, at = irpe(on="qk"), pm.grid(2, 3)
    q, k = noise(1, HEADS, 6, WIDTH), noise(1, HEADS, 6, WIDTH, seed=1)
    inputs = [x.requires_grad_() for x in (q, k)]

    def said(q, k, *tables):
        names = [name for name, _ in bias.named_parameters()]
        state = dict(zip(names, tables, strict=True))
        return torch.func.functional_call(bias, state, (at, at)).logits(q, k)

    assert torch.autograd.gradcheck(said, (*inputs, *bias.parameters()))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.ContextualIRPE(0, 8), "heads"),
        (lambda: pm.ContextualIRPE(2, 0), "head_dim"),
        (lambda: pm.ContextualIRPE(2, 8, 0), "axes"),
        (lambda: pm.ContextualIRPE(2, 8, on="v"), "on"),
        (lambda: pm.ContextualIRPE(2, 8, method="euc"), "method"),
        (lambda: pm.ContextualIRPE(2, 8, gamma=1), "gamma"),
        (lambda: pm.ContextualIRPE(2, 8, scale=-1), "scale"),
        (lambda: pm.ContextualIRPE(2, 8, std=-1), "std"),
        (lambda: pm.DecomposedBias(0, 8, 3), "heads"),
        (lambda: pm.DecomposedBias(2, 0, 3), "head_dim"),
        (lambda: pm.DecomposedBias(2, 8, (3, 0)), "sizes"),
        (lambda: pm.DecomposedBias(2, 8, 3, std=-1), "std"),
        (lambda: pm.Transformer(12, 1, 2, bias=pm.DecomposedBias(3, 6, 3)), "3 heads"),
        (lambda: pm.Transformer(12, 1, 2, bias=pm.DecomposedBias(2, 4, 3)), "4 channels"),
        (lambda: pm.BiasSum([pm.DecomposedBias(2, 4, 3)]), "biases"),
    ],
)
def test_contextual_biases_refuse_what_does_not_fit(make, name):
    with pytest.raises(ValueError, match=name):
        make()


def test_attention_refuses_a_contextual_bias_of_other_heads_or_in_the_wrong_place():
    bias, at = pm.DecomposedBias(2, 8, 5), pm.sequence(5)
    q = torch.zeros(1, 2, 5, 8)
    for match, given in (
        ("q has 4", {"q": torch.zeros(1, 4, 5, 8), "bias": bias}),
        ("8 channels", {"q": torch.zeros(1, 2, 5, 6), "bias": bias}),
        ("q_positions", {"q": q, "bias": bias, "q_positions": None}),
        ("after", {"q": q, "after": bias}),
        ("after", {"q": q, "after": bias(at, at)}),
    ):
        x = given.pop("q")
        with pytest.raises(ValueError, match=match):
            pm.attend(x, x, x, **({"q_positions": at} | given))
