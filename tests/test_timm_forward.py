"""Attached models in use: checkpointing, patch dropout, masks, precision, feature extraction."""

import pytest
import torch
from timm_models import (
    DEPTH,
    FAMILIES,
    GRID,
    HEAD_DIM,
    HEADS,
    MODELS,
    OTHER,
    assert_near,
    assert_same_gradients,
    gradients,
    images,
    three,
    tiny,
)
from torch import nn

import posenc_mm as pm
from posenc_mm.timm import attach

every = pytest.mark.parametrize("name", MODELS)
families = pytest.mark.parametrize("name", FAMILIES)


def count_calls(modules):
    calls = []
    for module in modules:
        module.register_forward_pre_hook(lambda module, args: calls.append(module))
    return calls


# ------------------------------------------------------------ gradient checkpointing


@pytest.mark.parametrize("grids", [((7, 14), (14, 7)), (GRID, OTHER)], ids=str)
@pytest.mark.parametrize("name", [*FAMILIES, "rope vit"])
def test_checkpointing_two_grids_before_one_backward_changes_no_gradient(name, grids):
    model = tiny(name, depth=2).train()
    attach(model, **(three() | {"rotary": pm.MixedRotary(HEAD_DIM, HEADS)}))
    for grid in grids:
        model(images(grid=grid)).square().sum().backward()
    wanted = gradients(model)
    model.zero_grad()
    model.set_grad_checkpointing()
    sum(model(images(grid=grid)).square().sum() for grid in grids).backward()
    found = gradients(model)
    assert {"posenc.additive.table", "posenc.rotary.frequencies", "posenc.bias.table"} <= set(found)
    assert_same_gradients(found, wanted)


@families
def test_checkpointing_stays_on_with_a_bias_and_a_mask(name):
    model = attach(tiny(name).train(), **three())
    model.set_grad_checkpointing()
    calls = count_calls(model.blocks)
    tokens = model.num_prefix_tokens + GRID[0] * GRID[1]
    mask = torch.ones(tokens, tokens, dtype=torch.bool)
    model(images(), attn_mask=mask).sum().backward()
    assert len(calls) == 2 * DEPTH
    features = model.forward_intermediates(images(), attn_mask=mask, intermediates_only=True)
    features[-1].sum().backward()
    assert len(calls) == 4 * DEPTH


# ------------------------------------------------------------ patch dropout


@pytest.mark.parametrize("keep_native", [False, True], ids=["instead", "beside"])
@pytest.mark.parametrize("batch", [HEADS, 3])
@pytest.mark.parametrize("name", ["vit", "vit with registers", "eva", "eva02"])
def test_dropping_patches_is_masking_them(name, batch, keep_native):
    """The class token sees the kept patches at their places, whichever each sample keeps."""
    head = {"global_pool": "token", "use_fc_norm": False} if name.startswith("eva") else {}
    model = tiny(name, patch_drop_rate=0.4, **head)
    rotary = pm.MixedRotary(HEAD_DIM, HEADS)
    attach(model, **(three() | {"rotary": rotary}), keep_native=keep_native)
    kept = []
    model.patch_drop.register_forward_hook(lambda module, args, output: kept.append(output))
    dropped = model.train()(images(batch))
    numbers = (kept[0][0] if isinstance(kept[0], tuple) else kept[0]).squeeze(-1)
    total, prefix = model.num_prefix_tokens + GRID[0] * GRID[1], model.num_prefix_tokens
    assert numbers.shape == (batch, prefix + 9)
    left = torch.zeros(batch, total, dtype=torch.bool).scatter(1, numbers, True)
    assert not torch.equal(left[0], left[1])
    whole = model.eval()(images(batch), attn_mask=left[:, None, None, :])
    assert_near(dropped, whole)


@families
def test_a_mask_is_dropped_with_the_patches(name):
    """Where every patch is hidden, the class token knows nothing of the image."""
    model = attach(tiny(name, patch_drop_rate=0.4).train(), rotary=pm.Rotary(HEAD_DIM, axes=2))
    prefix = model.num_prefix_tokens
    seen = torch.arange(prefix + GRID[0] * GRID[1]) < prefix
    first, second = (
        model.forward_features(images(seed=seed), attn_mask=seen[None, None, None])
        for seed in (0, 1)
    )
    assert_near(first[:, :prefix], second[:, :prefix])
    assert not torch.allclose(first[:, prefix:], second[:, prefix:])


@families
def test_no_rate_drops_nothing(name):
    torch.manual_seed(0)
    model = attach(tiny(name, patch_drop_rate=0.4), **three())
    wanted = model(images())
    model.patch_drop.prob = 0.0
    assert torch.equal(model.train()(images()), wanted)


@families
def test_the_dropout_of_positions_still_acts(name):
    model = attach(tiny(name, pos_drop_rate=0.5).train())
    seen = []
    model.pos_drop.register_forward_hook(lambda module, args, output: seen.append(output))
    model(images())
    assert 0.3 < (seen[0] == 0).float().mean() < 0.7


# ------------------------------------------------------------ masks


@pytest.mark.parametrize("kind", ["boolean", "added"])
@families
def test_a_bias_joins_the_callers_mask(name, kind):
    model, bias = tiny(name), pm.ALiBi(HEADS)
    total, prefix = model.num_prefix_tokens + GRID[0] * GRID[1], model.num_prefix_tokens
    allowed = torch.rand(3, 1, total, total) > 0.3
    allowed |= torch.eye(total, dtype=torch.bool)
    added = torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)
    at = pm.grid(*GRID)
    dense = nn.functional.pad(bias(at, at), (prefix, 0, prefix, 0))
    attach(model, bias=bias)
    found = model(images(), attn_mask=allowed if kind == "boolean" else added)
    none = tiny(name)
    none.load_state_dict(model.state_dict())
    assert_near(found, attach(none)(images(), attn_mask=added + dense))


@families
def test_a_causal_rule_goes_with_rotary_and_is_refused_beside_a_bias(name):
    model = attach(tiny(name), rotary=pm.Rotary(HEAD_DIM, axes=2))
    total = model.num_prefix_tokens + GRID[0] * GRID[1]
    mask = torch.ones(total, total, dtype=torch.bool).tril()
    assert_near(model(images(), is_causal=True), model(images(), attn_mask=mask))
    with pytest.raises(ValueError, match="is_causal excludes a bias"):
        attach(tiny(name), bias=pm.ALiBi(HEADS))(images(), is_causal=True)


# ------------------------------------------------------------ precision


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@every
def test_low_precision(name):
    model = attach(tiny(name), **three())
    wanted = model.forward_features(images())
    masks = []
    model.blocks[0].attn.register_forward_pre_hook(
        lambda module, args, kwargs: masks.append(kwargs["attn_mask"].dtype), with_kwargs=True
    )
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model.forward_features(images())
    low = model.bfloat16().forward_features(images().bfloat16())
    assert (mixed.dtype, low.dtype) == (torch.float32, torch.bfloat16)
    assert masks == [torch.bfloat16] * 2
    scale = wanted.std()
    assert (mixed - wanted).std() < 0.05 * scale
    assert (low.float() - wanted).std() < 0.1 * scale
