"""An attached model is a model like any: detached, saved, copied, trained, compiled."""

import copy
import functools
import io
import pickle

import pytest
import torch
import transformers
from torch._dynamo.testing import CompileCounter
from transformers_models import HEAD_DIM, HEADS, generated, padded_left, tiny, tokens

import posenc_mm as pm
from posenc_mm.scaling import DynamicNTK, Linear
from posenc_mm.transformers import attach, detach

FAMILIES = pytest.mark.parametrize("name", ["Llama", "GPTNeoX", "SmolLM3"])


def both(**changes):
    """Both slots, the bias with numbers to learn."""
    return {"rotary": Linear(2.0), "bias": pm.LearnedALiBi(HEADS), **changes}


def described(model):
    """All that detaching has to bring back."""
    modules = {n: (type(m), set(m.__dict__), list(m._modules)) for n, m in model.named_modules()}
    return modules, {n: id(p) for n, p in model.named_parameters()}, repr(model)


# ------------------------------------------------------------ detaching


@FAMILIES
@torch.no_grad()
def test_detaching_brings_everything_back(name):
    model, ids = tiny(name), tokens(2, 9)
    wanted = model(ids).logits
    before, state = described(model), copy.deepcopy(model.state_dict())
    assert attach(model, **both()) is model
    assert not torch.allclose(model(ids).logits, wanted, atol=1e-3)
    generated(model, ids, new=3)
    assert detach(model) is model
    assert described(model) == before
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(model(ids).logits, wanted)


@torch.no_grad()
def test_trying_a_model_leaves_no_trace():
    """The model's own dynamic frequencies, random numbers and modes stay what they are."""
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1000.0}
    model = tiny(rope_parameters=rope, max_position_embeddings=16, attention_dropout=0.5)
    model(tokens(1, 40))
    stretched = model.model.rotary_emb.inv_freq.clone()
    model.train()
    drawn = torch.get_rng_state()
    attach(model, **both())
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(module.training for module in model.modules())
    assert torch.equal(detach(model).model.rotary_emb.inv_freq, stretched)


def test_types_and_names_stay():
    model = attach(tiny(), **both())
    assert type(model) is transformers.LlamaForCausalLM
    assert type(model.model.layers[0]).__name__ == "LlamaDecoderLayer"
    assert isinstance(
        model.model.layers[0], transformers.models.llama.modeling_llama.LlamaDecoderLayer
    )
    assert "(bias): LearnedALiBi(heads=4" in repr(model)


# ------------------------------------------------------------ state dicts and copies


def test_encodings_without_weights_add_no_keys():
    model = attach(tiny(), rotary=pm.Rotary(HEAD_DIM), bias=pm.ALiBi(HEADS))
    assert model.state_dict().keys() == tiny().state_dict().keys()
    model.load_state_dict(tiny(seed=1).state_dict(), strict=True)


@torch.no_grad()
def test_learned_encodings_are_one_submodule():
    model, ids = attach(tiny(), **both()), tokens(2, 9)
    model.model.rotary_emb.posenc["bias"].log_slopes.fill_(0.3)
    key = "model.rotary_emb.posenc.bias.log_slopes"
    assert set(model.state_dict()) - set(tiny().state_dict()) == {key}
    other = attach(tiny(seed=1), **both())
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other(ids).logits, model(ids).logits)


@FAMILIES
@torch.no_grad()
def test_copies_and_pickles_are_attached_too(name):
    model, ids = attach(tiny(name), **both()), tokens(2, 9)
    wanted = model(ids).logits
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(stored, weights_only=False),
    ):
        assert torch.equal(other(ids).logits, wanted)
        detach(other)
        assert torch.equal(other(ids).logits, tiny(name)(ids).logits)
    assert torch.equal(model(ids).logits, wanted)


@torch.no_grad()
def test_saved_models_load_as_they_come(tmp_path):
    model, ids = attach(tiny(), rotary=Linear(2.0), bias=pm.ALiBi(HEADS)), tokens(2, 9)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(ids).logits, tiny()(ids).logits)
    attach(loaded, rotary=Linear(2.0), bias=pm.ALiBi(HEADS))
    assert torch.equal(loaded(ids).logits, model(ids).logits)


@torch.no_grad()
def test_what_was_learned_is_saved_apart(tmp_path):
    """Loading what save_pretrained wrote leaves it out, as the plain model has no place for it."""
    model, ids = attach(tiny(), **both()), tokens(2, 9)
    model.model.rotary_emb.posenc["bias"].log_slopes.fill_(0.3)
    model.save_pretrained(tmp_path)
    torch.save(model.model.rotary_emb.posenc.state_dict(), tmp_path / "posenc.pt")
    loaded = attach(transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval(), **both())
    assert not torch.allclose(loaded(ids).logits, model(ids).logits, atol=1e-3)
    loaded.model.rotary_emb.posenc.load_state_dict(torch.load(tmp_path / "posenc.pt"))
    assert torch.equal(loaded(ids).logits, model(ids).logits)


@FAMILIES
@torch.no_grad()
def test_modules_with_a_forward_of_their_own(name):
    """As accelerate leaves them where it spreads a model over devices: no class comes before it."""
    wanted, plain, ids = attach(tiny(name), **both()), tiny(name), tokens(2, 9)
    model = tiny(name)
    for module in model.modules():
        module.forward = functools.partial(type(module).forward, module)
    attach(model, **both())
    assert torch.equal(model(ids).logits, wanted(ids).logits)
    assert torch.equal(generated(model, ids, new=3)[0], generated(wanted, ids, new=3)[0])
    assert torch.equal(detach(model)(ids).logits, plain(ids).logits)


@torch.no_grad()
def test_a_decoder_without_head_and_inside_a_wrapper():
    model, ids = tiny(), tokens(2, 9)
    wanted = attach(copy.deepcopy(model), **both())(ids).logits
    bare = copy.deepcopy(model)
    attach(bare.model, **both())
    assert torch.equal(bare(ids).logits, wanted)
    wrapped = attach(torch.nn.Sequential(model), **both())
    assert torch.equal(wrapped[0](ids).logits, wanted)


# ------------------------------------------------------------ training


def gradients(model, ids, **arguments):
    model.zero_grad()
    model(ids, labels=ids, **arguments).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, atol=1e-10, rtol=1e-9, msg=name)


def test_gradients_of_a_bias_are_those_of_a_mask():
    """The oracle is the plain model with a mask of four axes that requires gradients."""
    ids = tokens(2, 9)
    model = attach(tiny(dtype=torch.float64).train(), bias=pm.LearnedALiBi(HEADS))
    found = gradients(model, ids)
    plain, slopes = tiny(dtype=torch.float64).train(), torch.zeros(HEADS, dtype=torch.float64)
    with torch.no_grad():
        slopes += torch.tensor([-2.0, -4.0, -6.0, -8.0]) * torch.tensor(2.0).log()
    slopes.requires_grad_(True)
    far = torch.tensor([[float(i - j) for j in range(9)] for i in range(9)], dtype=torch.float64)
    mask = (-slopes.exp()[:, None, None] * far).masked_fill(far < 0, -1e30)[None]
    wanted = gradients(plain, ids, attention_mask=mask, position_ids=ids * 0)
    bias = found.pop("model.rotary_emb.posenc.bias.log_slopes")
    torch.testing.assert_close(bias.double(), slopes.grad, atol=1e-6, rtol=1e-5)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-5)


@FAMILIES
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable.*deprecated")
def test_gradient_checkpointing(name, reentrant):
    """A reentrant one frees a graph of a learned bias that layers share: it keeps fixed ones."""
    bias = pm.ALiBi(HEADS) if reentrant else pm.LearnedALiBi(HEADS)
    model, ids = attach(tiny(name, dtype=torch.float64), **both(bias=bias)).train(), tokens(2, 9)
    wanted = gradients(model, ids, use_cache=False)
    same(gradients(model, ids), wanted)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    same(gradients(model, ids), wanted)


def test_frozen_models_train_their_bias():
    model, ids = tiny().requires_grad_(False), tokens(2, 9)
    attach(model, bias=pm.LearnedALiBi(HEADS)).train()
    found = gradients(model, ids)
    assert list(found) == ["model.rotary_emb.posenc.bias.log_slopes"]
    assert found["model.rotary_emb.posenc.bias.log_slopes"].abs().min() > 0


# ------------------------------------------------------------ precision and compilation


@torch.no_grad()
def test_low_precision():
    ids, mask = padded_left(tokens(2, 12), [12, 7])
    arguments = {"rotary": Linear(2.0), "bias": pm.ALiBi(HEADS)}
    wanted = attach(tiny(), **arguments)(ids, attention_mask=mask).logits[mask.bool()]
    for attention in ("sdpa", "eager"):
        model = attach(tiny(attention=attention), **arguments)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = model(ids, attention_mask=mask).logits
        assert found.isfinite().all()
        assert (found[mask.bool()] - wanted).abs().max() < 0.25
        for dtype in (torch.bfloat16, torch.float16):
            found = model.to(dtype)(ids, attention_mask=mask).logits
            assert found.dtype == dtype and found.isfinite().all()
            assert (found[mask.bool()].float() - wanted).abs().max() < 0.25
            model = attach(tiny(attention=attention), **arguments)


@torch.no_grad()
def test_it_compiles_in_one_graph():
    ids = tokens(2, 9)
    model = attach(tiny(), rotary=Linear(2.0), bias=pm.ALiBi(HEADS))
    wanted = model(ids).logits
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids).logits, wanted, atol=1e-5, rtol=1e-5)
    cache = transformers.StaticCache(model.config, 16)
    model(ids[:, :6], cache=cache)
    for place in range(6, 9):
        found = compiled(ids[:, place : place + 1], cache=cache).logits
        torch.testing.assert_close(found[:, 0], wanted[:, place], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_scaling_by_length_breaks_the_graph_and_is_not_compiled_for_each():
    torch._dynamo.reset()
    model, counter = attach(tiny(), rotary=DynamicNTK(2.0, 4)), CompileCounter()
    compiled = torch.compile(model, backend=counter, dynamic=True)
    frames = []
    for length in (5, 9, 13, 21, 30):
        ids = tokens(2, length)
        torch.testing.assert_close(compiled(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)
        frames.append(counter.frame_count)
    assert frames[-1] == frames[0]
    whole = torch.compile(
        attach(tiny(), rotary=DynamicNTK(2.0, 4)), backend="eager", fullgraph=True
    )
    with pytest.raises(torch._dynamo.exc.Unsupported, match="length_read_back_from_the_device"):
        whole(tokens(2, 9))


def test_the_package_does_not_stand_in_for_the_other():
    import posenc_mm.transformers as ours

    assert ours is not transformers and ours.__name__ == "posenc_mm.transformers"
    assert ours.attach.__module__.startswith("posenc_mm.")
