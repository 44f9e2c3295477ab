"""Every slot that a family of timm carries: it acts, it learns, and detaching leaves no trace."""

import copy
import pickle

import pytest
import torch
from timm_families import CASES, DIM, FAMILIES, all_of, encodings, images, make
from timm_models import assert_same_gradients, gradients

import posenc_mm as pm
from posenc_mm.timm import attach, detach

cases = pytest.mark.parametrize(("name", "slot"), CASES, ids=lambda x: x.replace(" ", "-"))
every = pytest.mark.parametrize("name", FAMILIES)


def described(model):
    modules = {n: (type(m), set(m.__dict__), list(m._modules)) for n, m in model.named_modules()}
    return modules, {n: (id(p), p.requires_grad) for n, p in model.named_parameters()}, repr(model)


@cases
def test_it_changes_the_outputs_and_learns(name, slot):
    model = make(name)
    bare = attach(copy.deepcopy(model))(images(name))
    attach(model, **{slot: encodings(name, slot)})
    out = model(images(name))
    assert (out - bare).abs().max() > 1e-4 * bare.abs().max()
    model.train()(images(name)).square().sum().backward()
    found = gradients(model)
    wanting = {key for key, p in model.named_parameters() if p.requires_grad}
    assert found.keys() == wanting
    learned = [key for key in found if key.startswith("posenc.")]
    assert len(learned) == len(list(model.posenc.parameters()))
    assert all(found[key].any() for key in learned)


@every
def test_detaching_restores_the_model_and_strict_loading_goes_both_ways(name):
    model = make(name)
    before, state = described(model), copy.deepcopy(model.state_dict())
    wanted = model(images(name))
    attach(model, **all_of(name))
    attached = copy.deepcopy(model.state_dict())
    assert all(key in attached and torch.equal(attached[key], state[key]) for key in state)
    assert all(key.startswith("posenc.") for key in attached.keys() - state.keys())
    other = attach(make(name), **all_of(name))
    other.load_state_dict(attached, strict=True)
    assert torch.equal(other(images(name)), model(images(name)))
    detach(model)
    assert described(model) == before
    assert torch.equal(model(images(name)), wanted)
    detach(other).load_state_dict(state, strict=True)
    assert torch.equal(other(images(name)), wanted)


@every
def test_copies_are_models_of_their_own(name):
    model = attach(make(name), **all_of(name))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(images(name)), model(images(name)))
        with torch.no_grad():
            for parameter in twin.posenc.parameters():
                parameter.mul_(3.0)
        assert not torch.equal(twin(images(name)), model(images(name)))
        detach(twin)
    assert "posenc" in model._modules


@every
def test_checkpointing_two_sizes_before_one_backward_changes_no_gradient(name):
    model = attach(make(name).train(), **all_of(name))
    sizes = FAMILIES[name].sizes or (None, None)
    inputs = [images(name, size=size, seed=seed) for seed, size in enumerate(sizes)]
    found = []
    for checkpointed in (False, True):
        model.set_grad_checkpointing(checkpointed)
        model.zero_grad()
        sum(model(x).square().sum() for x in inputs).backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0], 1e-5)


@every
def test_nothing_at_all_cannot_tell_positions_and_native_ones_stay_where_asked(name):
    model = make(name)
    wanted, features = model(images(name)), model.forward_intermediates(images(name))
    nope = attach(copy.deepcopy(model))(images(name))
    assert not torch.allclose(nope, wanted)
    attach(model, keep_native=True)
    assert torch.equal(model(images(name)), wanted)
    again = model.forward_intermediates(images(name))
    assert all(torch.equal(a, b) for a, b in zip(again[1], features[1], strict=True))
    kept = {key for key, p in model.named_parameters() if not p.requires_grad}
    assert not kept


@pytest.mark.parametrize("name", ["beit", "relpos", "swin", "sam", "naflex", "vit parallel"])
def test_low_precision(name):
    model = attach(make(name), **all_of(name))
    wanted = model(images(name))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(images(name))
    low = model.bfloat16()(images(name).bfloat16())
    assert low.dtype == torch.bfloat16
    for found in (mixed, low):
        assert (found.float() - wanted).std() < 0.15 * wanted.std()


@every
def test_what_is_learned_or_native_does_not_decay(name):
    slots = {} if name == "sam" else all_of(name)
    model = attach(make(name), **slots, keep_native=True)
    kept = model.no_weight_decay()
    names = {key for key, _ in model.named_parameters()}
    assert {key for key in names if key.startswith("posenc.")} <= kept
    assert {key for key in names if "pos_embed" in key or key.startswith("rope.")} <= kept


@pytest.mark.parametrize(
    ("name", "slot", "words"),
    [
        ("sam", "bias", "bias does not fit a VisionTransformerSAM of timm: its attention takes no"),
        ("hiera", "rotary", "rotary does not fit a Hiera of timm: it takes the largest of"),
        ("sam native", "rotary", "keep_native does not go with rotary here: SAM reads"),
        ("swin", "additive", "additive must not be a conditional encoding in a SwinTransformer"),
        ("hieradet", "bias", "bias does not fit a HieraDet of timm: its attention takes none"),
    ],
)
def test_what_a_family_refuses(name, slot, words):
    given = {
        "bias": pm.ALiBi(1),
        "rotary": pm.Rotary(16, axes=2),
        "additive": pm.additive.Conditional(DIM),
    }[slot]
    name, _, native = name.partition(" ")
    with pytest.raises(ValueError, match=words):
        attach(make(name), **{slot: given}, keep_native=bool(native))
