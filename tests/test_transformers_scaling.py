"""Every scaling that transformers has, attached to the plain model, against transformers' own."""

import copy

import pytest
import torch
from transformers_models import HEAD_DIM, generated, padded_left, tiny, tokens

import posenc_mm as pm
from posenc_mm.scaling import DynamicNTK, LongRoPE, Unscaled, YaRN, from_hf
from posenc_mm.transformers import attach, detach

TRAINED, BASE = 16, 1000.0
SHORT, LONG = [1.0, 1.1, 1.3, 1.5], [1.0, 2.0, 3.5, 6.0]
PLAIN = {"rope_type": "default", "rope_theta": BASE}
ORIGINAL = {"original_max_position_embeddings": TRAINED}
SCALINGS = {
    "default": {},
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, **ORIGINAL},
    "yarn, its numbers": {"factor": 8.0, "beta_fast": 4.0, "truncate": False, **ORIGINAL},
    "yarn, its amplitude": {"factor": 128.0, "attention_factor": 1.4852030, **ORIGINAL},
    "longrope": {"factor": 4.0, "short_factor": SHORT, "long_factor": LONG, **ORIGINAL},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL},
    "proportional": {"partial_rotary_factor": 0.5, "factor": 2.0},
}
SIZES = {
    "yarn": 4 * TRAINED,
    "yarn, its numbers": 8 * TRAINED,
    "yarn, its amplitude": 128 * TRAINED,
    "longrope": 4 * TRAINED,
}
EVERY = pytest.mark.parametrize("name", SCALINGS)
WAYS = {
    "growing": {},
    "fixed": {"cache_implementation": "static"},
    "no cache": {"use_cache": False},
    "beams": {"num_beams": 3},
}


def pair(name, **changes):
    """The model with transformers' own scaling, and the plain one with ours."""
    kind = name.partition(",")[0]
    size = SIZES.get(name, 8 * TRAINED if kind == "llama3" else TRAINED)
    rope = {"rope_type": kind, "rope_theta": BASE, **SCALINGS[name]}
    theirs = tiny(rope_parameters=rope, max_position_embeddings=size, **changes)
    ours = tiny(rope_parameters=dict(PLAIN), max_position_embeddings=size, **changes)
    ours.load_state_dict(theirs.state_dict())
    scaling = from_hf(theirs.config).scaling
    return theirs, attach(ours, rotary=scaling), scaling


@EVERY
@pytest.mark.parametrize("length", [TRAINED, 40])
@torch.no_grad()
def test_the_logits_are_theirs(name, length):
    theirs, ours, scaling = pair(name)
    ids = tokens(2, length)
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)
    plain = detach(ours)(ids).logits
    same = name == "default" or (name == "dynamic" and length <= TRAINED)
    assert same == torch.allclose(plain, theirs(ids).logits, atol=1e-3)
    rotary = pm.Rotary(HEAD_DIM, base=BASE, scaling=scaling, length=length)
    attach(ours, rotary=rotary)
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)


@EVERY
@pytest.mark.parametrize("way", WAYS)
@torch.no_grad()
def test_generation_is_theirs(name, way):
    theirs, ours, _ = pair(name)
    ids, mask = padded_left(tokens(2, 12), [12, 9])
    for each in (theirs, ours):
        each.generation_config.disable_compile = True
    wanted, logits = generated(theirs, ids, mask, **WAYS[way])
    found, own = generated(ours, ids, mask, **WAYS[way])
    assert torch.equal(found, wanted)
    torch.testing.assert_close(own, logits, atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_a_short_call_after_a_long_one_is_as_before():
    for scaling in (DynamicNTK(2.0, TRAINED), LongRoPE(SHORT, LONG, TRAINED, 4.0)):
        model = attach(tiny(), rotary=scaling)
        before = model(tokens(1, 10)).logits
        model(tokens(1, 40))
        assert torch.equal(model(tokens(1, 10)).logits, before)


PARTIAL = {**PLAIN, "partial_rotary_factor": 0.5}
PHI3 = {
    "rope_type": "longrope",
    "short_factor": SHORT,
    "long_factor": LONG,
    "rope_theta": BASE,
    **ORIGINAL,
}
# Family, what makes it theirs, what differs in ours.
FAMILIES = {
    "Phi3": {"rope_parameters": PHI3, "original_max_position_embeddings": TRAINED},
    "GPTNeoX": {"rope_parameters": {**PARTIAL, "rope_type": "linear", "factor": 4.0}},
    "Phi": {"rope_parameters": {**PARTIAL, "rope_type": "linear", "factor": 4.0}},
    "Cohere": {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": BASE}},
    "Qwen3": {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": BASE}},
}


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_other_families_apply_it_as_they_apply_their_own(name):
    partial = "partial_rotary_factor" in FAMILIES[name]["rope_parameters"]
    # A copy, as configurations write into what they are given.
    theirs = tiny(name, max_position_embeddings=64, **copy.deepcopy(FAMILIES[name]))
    plain = dict(PARTIAL if partial else PLAIN)
    ours = tiny(name, max_position_embeddings=64, rope_parameters=plain)
    ours.load_state_dict(theirs.state_dict())
    ids = tokens(2, 30)
    wanted = theirs(ids).logits
    assert not torch.allclose(ours(ids).logits, wanted, atol=1e-2)
    attach(ours, rotary=from_hf(theirs.config).scaling)
    torch.testing.assert_close(ours(ids).logits, wanted, atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_types_of_layers_have_their_own():
    """Gemma 3 stretches the layers that see everything, and has another base for windows."""
    full = {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0}
    local = {"rope_type": "default", "rope_theta": BASE}
    arguments = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
    rope = {"full_attention": full, "sliding_attention": local}
    theirs = tiny("Gemma3Text", rope_parameters=rope, **arguments)
    own = {**rope, "full_attention": {**full, "rope_type": "default"}}
    own["full_attention"].pop("factor")
    ours = tiny("Gemma3Text", rope_parameters=own, **arguments)
    ours.load_state_dict(theirs.state_dict())
    ids, mask = padded_left(tokens(2, 14), [14, 10])
    wanted, logits = generated(theirs, ids, mask)
    linear = from_hf(theirs.config, layer_type="full_attention").scaling
    attach(ours, rotary={"full_attention": linear, "sliding_attention": Unscaled()})
    found, own_logits = generated(ours, ids, mask)
    assert torch.equal(found, wanted)
    torch.testing.assert_close(own_logits, logits, atol=2e-5, rtol=1e-5)
    attach(detach(ours), rotary={"full_attention": None, "sliding_attention": Unscaled()})
    assert not torch.allclose(generated(ours, ids, mask)[1], logits, atol=1e-2)
    attach(detach(ours), rotary=Unscaled())
    plain = detach(ours)(ids).logits
    torch.testing.assert_close(
        attach(ours, rotary=Unscaled())(ids).logits, plain, atol=2e-5, rtol=0
    )


@torch.no_grad()
def test_far_positions_are_exact_in_low_precision():
    """Angles do not go through the model's dtype, nor through float32 products."""
    model = tiny(dtype=torch.bfloat16)
    attach(model, rotary=pm.Rotary(HEAD_DIM, base=BASE))
    places = torch.tensor([[3_000_001, 3_000_002]])
    cos, sin = model.model.rotary_emb(torch.zeros(1, 2, 4), places)
    speeds = torch.tensor([BASE ** (-2 * i / HEAD_DIM) for i in range(4)], dtype=torch.float64)
    theta = places[..., None].double() * speeds
    torch.testing.assert_close(cos, theta.cos().repeat(1, 1, 2).float(), atol=2e-6, rtol=0)
    torch.testing.assert_close(sin, theta.sin().repeat(1, 1, 2).float(), atol=2e-6, rtol=0)
    assert model.model.rotary_emb(model.lm_head.weight[None, :2], places)[0].dtype == torch.bfloat16


def test_yarn_says_what_it_is_in_the_model():
    model = attach(tiny(), rotary=YaRN(4.0, original_length=64))
    assert "YaRN(factor=4.0, original_length=64" in repr(model)
