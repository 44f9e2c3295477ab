"""What timm reads from a model, it reads from an attached one: hooks, features, heads, pooling."""

import inspect

import pytest
import torch
from timm.models import create_model
from timm_models import (
    DEPTH,
    DIM,
    FAMILIES,
    GRID,
    HEADS,
    MODELS,
    OTHER,
    images,
    three,
    tiny,
)

import posenc_mm as pm
from posenc_mm.timm import attach

every = pytest.mark.parametrize("name", MODELS)
families = pytest.mark.parametrize("name", FAMILIES)


def count_calls(modules):
    calls = []
    for module in modules:
        module.register_forward_pre_hook(lambda module, args: calls.append(module))
    return calls


@every
def test_each_encoding_runs_once_and_every_hook_runs(name):
    model = attach(tiny(name), **three())
    once = count_calls(model.posenc.values())
    inner = count_calls(
        [m for b in model.blocks for m in (b, b.attn, b.attn.q_norm, b.attn.k_norm)]
    )
    model(images(grid=OTHER))
    assert len(once) == 3
    assert len(inner) == 4 * DEPTH


@every
def test_features_come_from_the_attached_model(name):
    model = attach(tiny(name), **three())
    image = images(grid=OTHER)
    tokens = model.forward_features(image)
    final, inside = model.forward_intermediates(image, return_prefix_tokens=False)
    assert torch.equal(final, tokens)
    assert [tuple(x.shape) for x in inside] == [(3, DIM, *OTHER)] * DEPTH
    early = model.forward_intermediates(
        image, [1], stop_early=True, intermediates_only=True, output_fmt="NLC"
    )
    assert torch.equal(early[0], inside[1].flatten(2).transpose(1, 2))
    if hasattr(model, "get_intermediate_layers"):
        layers = model.get_intermediate_layers(image, n=[0, 2], norm=True)
        assert torch.equal(layers[-1], tokens[:, model.num_prefix_tokens :])


@families
def test_a_mask_out_of_reach_is_refused(name):
    model = attach(tiny(name), bias=pm.ALiBi(HEADS))
    names = list(inspect.signature(model._original.forward_intermediates).parameters)
    before = [None, False, False, False, "NCHW", False, False][: names.index("attn_mask") - 2]
    with pytest.raises(ValueError, match="attn_mask must be passed by name"):
        model.forward_intermediates(images(), *before, torch.ones(1, 1, dtype=torch.bool))


@every
def test_pruning_and_a_new_head(name):
    model = attach(tiny(name), **three())
    wanted = model.forward_intermediates(images(), [1], intermediates_only=True)[0]
    model.reset_classifier(7)
    assert model(images()).shape == (3, 7)
    if name != "deit distilled":
        model.prune_intermediate_layers([1])
        assert len(model.blocks) == 2
        found = model.forward_intermediates(images(), [1], intermediates_only=True)[0]
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("pool", ["", "token", "avg", "avgmax", "max", "map"])
@families
def test_every_pooling(name, pool):
    options = {"fc_norm": False} if name == FAMILIES[0] else {"use_fc_norm": False}
    model = attach(tiny(name, global_pool=pool, **options), **three())
    tokens = model.forward_features(images())
    assert torch.equal(model(images()), model.forward_head(tokens))


def test_the_backbone_inside_a_feature_extractor():
    net = create_model(
        "vit_tiny_patch16_224",
        features_only=True,
        out_indices=[0, 1],
        img_size=(12, 20),
        patch_size=4,
        embed_dim=DIM,
        depth=2,
        num_heads=HEADS,
    )
    before = net(images())
    attach(net.model, **three())
    after = net(images())
    assert [x.shape for x in after] == [(3, DIM, *GRID)] * 2
    assert not torch.allclose(before[0], after[0])
    assert torch.equal(after[1], net.model.forward_intermediates(images(), norm=False)[1][1])
