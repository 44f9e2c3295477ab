"""An attached model is a module like any: detached, saved, copied, compiled, exported, trained."""

import copy
import io
import pickle

import pytest
import torch
from timm.optim import param_groups_layer_decay
from timm_models import (
    DIM,
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

import posenc_mm as pm
from posenc_mm.timm import attach, detach

every = pytest.mark.parametrize("name", MODELS)
families = pytest.mark.parametrize("name", FAMILIES)
WITHOUT_WEIGHTS = {
    "additive": pm.Sinusoidal(DIM, axes=2),
    "rotary": pm.Rotary(HEAD_DIM, axes=2),
    "bias": pm.ALiBi(HEADS),
}


def described(model):
    """All that detaching has to bring back."""
    modules = {n: (type(m), set(m.__dict__), list(m._modules)) for n, m in model.named_modules()}
    parameters = {n: (id(p), p.requires_grad) for n, p in model.named_parameters()}
    return modules, parameters, repr(model)


# ------------------------------------------------------------ detaching


@every
def test_detaching_brings_everything_back(name):
    model = tiny(name)
    model.blocks.requires_grad_(False)
    before, outputs, state = described(model), model(images()), copy.deepcopy(model.state_dict())
    assert attach(model, **three()) is model
    assert not torch.allclose(model(images()), outputs)
    model.train()(images(grid=OTHER)).sum().backward()
    assert detach(model) is model
    assert described(model.eval()) == before
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(model(images()), outputs)
    attach(model, **WITHOUT_WEIGHTS)
    detach(model)
    assert described(model) == before


@every
def test_what_was_frozen_stays_frozen(name):
    model = tiny(name).requires_grad_(False)
    detach(attach(model, **three()))
    assert not any(parameter.requires_grad for parameter in model.parameters())


@families
def test_isinstance_and_names_stay(name):
    model, kind = tiny(name), MODELS[name][0]
    attach(model, **three())
    assert isinstance(model, kind)
    assert type(model).__name__ == kind.__name__
    assert "(bias): RelativeBias(heads=2" in repr(model)


# ------------------------------------------------------------ state dicts


@every
def test_encodings_without_weights_add_no_keys(name):
    model, original = attach(tiny(name), **WITHOUT_WEIGHTS), tiny(name)
    assert model.state_dict().keys() == original.state_dict().keys()
    model.load_state_dict(original.state_dict(), strict=True)
    original.load_state_dict(model.state_dict(), strict=True)
    detach(model)
    assert torch.equal(model(images()), original(images()))


@families
def test_learned_encodings_are_one_submodule(name):
    original = tiny(name).state_dict().keys()
    model, other = attach(tiny(name), **three()), attach(tiny(name), **three())
    added = {"posenc.additive.table", "posenc.bias.table"}
    assert model.state_dict().keys() - original == added
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(model(images()), other(images()))
    assert added <= model.no_weight_decay()
    assert tiny(name).no_weight_decay() <= model.no_weight_decay()
    groups = param_groups_layer_decay(model, layer_decay=0.5)
    table = model.posenc["additive"].table
    (scale,) = [g["lr_scale"] for g in groups if any(p is table for p in g["params"])]
    assert scale == min(g["lr_scale"] for g in groups)


@every
def test_what_is_not_used_is_frozen(name):
    """A data-parallel wrapper waits for the gradient of every parameter that wants one."""
    model = attach(tiny(name).train(), **three())
    model(images()).square().sum().backward()
    wanting = {key for key, p in model.named_parameters() if p.requires_grad}
    assert gradients(model).keys() == wanting
    assert not {key for key in wanting if key == "pos_embed" or key.startswith("rope.")}
    kept = attach(tiny(name), **three(), keep_native=True)
    assert all(p.requires_grad for p in kept.parameters())


# ------------------------------------------------------------ copies


def saved(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
@families
def test_copies_are_models_of_their_own(name, copied):
    model = attach(tiny(name), **three())
    twin = copied(model)
    assert type(twin) is type(model)
    assert torch.equal(twin(images(grid=OTHER)), model(images(grid=OTHER)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert twin(images()).any()
    assert "posenc" not in detach(twin)._modules
    assert "posenc" in model._modules


# ------------------------------------------------------------ compiled, exported


@families
def test_compiled_in_one_graph_in_training(name):
    model = tiny(name, depth=1, patch_drop_rate=0.4, global_pool="avg")
    attach(model, **(three() | {"rotary": pm.MixedRotary(HEAD_DIM, HEADS)})).train()
    model.set_grad_checkpointing()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for grid in (GRID, OTHER):
        found = []
        for run in (model, compiled):
            torch.manual_seed(0)
            model.zero_grad()
            run(images(grid=grid)).square().sum().backward()
            found.append(gradients(model))
        assert_same_gradients(found[1], found[0])


@families
def test_exported_with_any_height_and_width(name):
    model = attach(tiny(name, depth=1), **WITHOUT_WEIGHTS)
    height, width = torch.export.Dim("height", max=50), torch.export.Dim("width", max=50)
    shapes = {"x": {0: torch.export.Dim("batch", max=9), 2: 4 * height, 3: 4 * width}}
    program = torch.export.export(model, (images(),), dynamic_shapes=shapes).module()
    for batch, grid in ((3, GRID), (2, OTHER), (4, (2, 9))):
        assert_near(program(images(batch, grid)), model(images(batch, grid)))
