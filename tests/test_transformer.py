"""The host: where each kind acts, told again in plain steps, and what it refuses."""

import oracles
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import posenc_mm as pm

DIM, HEADS, HEAD_DIM = 24, 4, 6
AT = torch.tensor([[0, 3], [1, 1], [5, 0], [2, 4], [7, 2]])


def host(**arguments) -> pm.Transformer:
    return pm.Transformer(DIM, 2, HEADS, **arguments).double().eval()


def norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    spread = (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt()
    return centred / spread * layer.weight + layer.bias


def affine(layer: nn.Linear, x: Tensor) -> Tensor:
    return torch.einsum("...i,oi->...o", x, layer.weight) + layer.bias


def heads_of(x: Tensor, count: int) -> Tensor:
    return torch.stack(x.split(HEAD_DIM, dim=-1), dim=1)[:, :count]


def reference(model: pm.Transformer, x: Tensor, kv_heads: int, **slots) -> Tensor:
    """Pre-norm blocks step by step; attention from the oracle; encodings as tensors."""
    if "additive" in slots:
        x = x + slots["additive"]
    for block in model.blocks:
        parts = heads_of(affine(block.attention.qkv, norm(block.norm1, x)), 99)
        q, k, v = parts.split((HEADS, kv_heads, kv_heads), dim=1)
        if "angles" in slots:
            q, k = (oracles.rotate(part, slots["angles"], "half") for part in (q, k))
        seen = oracles.attention(q, k, v, bias=slots.get("bias"), causal=model.causal)
        x = x + affine(block.attention.out, torch.cat(seen.unbind(1), dim=-1))
        hidden = functional.gelu(affine(block.mlp[0], norm(block.norm2, x)))
        x = x + affine(block.mlp[2], hidden)
    return norm(model.norm, x)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_each_kind_acts_where_it_should(kv_heads: int, causal: bool):
    """An asymmetric bias, so that swapped sides show."""
    encodings = {
        "additive": pm.Learned(DIM, (8, 5)),
        "rotary": pm.Rotary(HEAD_DIM, axes=2, rotary_dim=4),
        "bias": pm.RelativeBias(HEADS, (8, 5), std=1.0),
    }
    model = host(causal=causal, kv_heads=kv_heads, **encodings)
    x = torch.randn(3, 5, DIM, dtype=torch.float64)
    slots = {
        "additive": oracles.table_lookup(encodings["additive"].table.detach(), AT.tolist()),
        "angles": oracles.turning_angles(AT.tolist(), encodings["rotary"].frequencies),
        "bias": oracles.relative_table(AT.tolist(), AT.tolist(), encodings["bias"].table.detach()),
    }
    with torch.no_grad():
        wanted = reference(model, x, kv_heads, **slots)
        torch.testing.assert_close(model(x, AT), wanted, rtol=0, atol=1e-6)
    assert model.blocks[0].attention.qkv.out_features == (HEADS + 2 * kv_heads) * HEAD_DIM


def test_no_encoding_is_blind_to_order():
    model = host()
    x, order = torch.randn(2, 5, DIM, dtype=torch.float64), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(model(x[:, order], AT), model(x, AT)[:, order])


def test_a_mask_that_begins_with_a_later_call_holds_from_there():
    model = host(causal=True, bias=pm.ALiBi(HEADS))
    x, at = torch.randn(2, 5, DIM, dtype=torch.float64), pm.sequence(5)
    mask = torch.tensor([[True, True, True, False, True], [True] * 5])
    cache = pm.KVCache()
    model(x[:, :2], at[:2], cache=cache)
    model(x[:, 2:4], at[2:4], key_mask=mask[:, 2:4], cache=cache)
    last = model(x[:, 4:], at[4:], cache=cache)
    assert cache.key_mask is not None and torch.equal(cache.key_mask, mask)
    torch.testing.assert_close(last, model(x, at, key_mask=mask)[:, 4:], rtol=0, atol=1e-12)


def test_shared_positions_may_meet_positions_per_sample_in_a_cache():
    model = host(causal=True, rotary=pm.Rotary(HEAD_DIM), bias=pm.ALiBi(HEADS))
    x, at = torch.randn(2, 5, DIM, dtype=torch.float64), pm.sequence(5)
    per_sample = torch.stack((at, at))
    for first, second in ((at, per_sample), (per_sample, at)):
        cache = pm.KVCache()
        model(x[:, :3], first[..., :3, :], cache=cache)
        last = model(x[:, 3:], second[..., 3:, :], cache=cache)
        torch.testing.assert_close(last, model(x, at)[:, 3:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"additive": pm.Sinusoidal(DIM + 1)}, "25.*24"),
        ({"rotary": pm.Rotary(HEAD_DIM + 2)}, "8 channels.*6"),
        ({"bias": pm.ALiBi(HEADS + 1)}, "5 heads.*heads=4"),
        ({"kv_heads": 3}, "kv_heads"),
        ({"kv_heads": 0}, "kv_heads"),
        ({"rotary": pm.MixedRotary(HEAD_DIM, HEADS, axes=1), "kv_heads": 2}, "key heads"),
        ({"rotary": pm.MixedRotary(HEAD_DIM, HEADS - 1, axes=1)}, "heads"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_with_both_numbers(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        pm.Transformer(DIM, 2, HEADS, **arguments)


@pytest.mark.parametrize(("dim", "depth", "heads"), [(25, 2, 4), (24, 0, 4), (24, 2, 0)])
def test_sizes_that_do_not_divide_are_refused(dim: int, depth: int, heads: int):
    with pytest.raises(ValueError, match="heads|depth"):
        pm.Transformer(dim, depth, heads)


def test_calls_that_do_not_fit_are_refused():
    x = torch.randn(2, 5, DIM, dtype=torch.float64)
    with pytest.raises(ValueError, match="positions"):
        host()(x, pm.sequence(4))
    with pytest.raises(ValueError, match="tokens"):
        host()(x[0], pm.sequence(5))
    with pytest.raises(ValueError, match="cache"):
        host()(x, pm.sequence(5), cache=pm.KVCache())
    with pytest.raises(ValueError, match="segments"):
        host(causal=True)(x, pm.sequence(5), cache=pm.KVCache(), segments=torch.zeros(5).long())
    cache = pm.KVCache()
    host(causal=True)(x, pm.sequence(5), cache=cache)
    with pytest.raises(ValueError, match="batch"):
        host(causal=True)(x[:1, :1], pm.sequence(1, offset=5), cache=cache)


def test_dropout_acts_in_training_only():
    model = host(dropout=0.5)
    x = torch.randn(2, 5, DIM, dtype=torch.float64)
    assert torch.equal(model(x, AT), model(x, AT))
    model.train()
    assert not torch.equal(model(x, AT), model(x, AT))


def everything(**arguments) -> pm.Transformer:
    slots = {
        "additive": pm.Sinusoidal(DIM),
        "rotary": pm.Rotary(HEAD_DIM),
        "bias": pm.ALiBi(HEADS),
    }
    return pm.Transformer(DIM, 2, HEADS, **slots, **arguments).eval()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_low_precision_host_stays_in_its_dtype_and_near(dtype: torch.dtype):
    model, x = everything(causal=True), torch.randn(2, 5, DIM)
    with torch.no_grad():
        exact = model(x, pm.sequence(5))
        result = model.to(dtype)(x.to(dtype), pm.sequence(5))
    assert result.dtype == dtype
    assert (result.float() - exact).abs().max() < 16 * torch.finfo(dtype).eps * exact.abs().max()


def test_autocast_runs_the_host():
    model, x = everything(causal=True), torch.randn(2, 5, DIM)
    with torch.no_grad():
        exact = model(x, pm.sequence(5))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = model(x, pm.sequence(5))
    assert (result.float() - exact).abs().max() < 0.1 * exact.abs().max()


def test_gradient_checkpointing_gives_the_same_gradients():
    model, x = everything(causal=True), torch.randn(2, 5, DIM)
    model(x, pm.sequence(5)).square().sum().backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    again = checkpoint(model, x, pm.sequence(5), use_reentrant=False)
    again.square().sum().backward()
    for parameter, gradient in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_the_host_exports_with_dynamic_batch_and_length():
    model, batch, length = everything(), torch.export.Dim("b", min=2), torch.export.Dim("n", min=2)
    mask = torch.ones(3, 7, dtype=torch.bool)
    program = torch.export.export(
        model,
        (torch.randn(3, 7, DIM), pm.sequence(7)),
        {"key_mask": mask},
        dynamic_shapes={
            "tokens": {0: batch, 1: length},
            "positions": {0: length},
            "key_mask": {0: batch, 1: length},
        },
    )
    x, mask = torch.randn(2, 4, DIM), torch.ones(2, 4, dtype=torch.bool)
    mask[1, 2:] = False
    result = program.module()(x, pm.sequence(4), key_mask=mask)
    torch.testing.assert_close(result, model(x, pm.sequence(4), key_mask=mask))
