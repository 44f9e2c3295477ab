"""What is refused when something is attached, in words that say what to do, and leaves no trace."""

import pytest
import torch
from transformers import DynamicCache
from transformers_models import HEAD_DIM, HEADS, tiny, tokens

import posenc_mm as pm
from posenc_mm.fronting import Fronted
from posenc_mm.scaling import Linear, YaRN
from posenc_mm.transformers import attach, detach

WIDE = 2 * HEAD_DIM
SOFTMAX = YaRN(4.0, 64, mscale=1.0, mscale_all_dim=1.0)
SLOTS = [
    ({"rotary": 3}, "rotary must be a RotaryEncoding or a scaling of posenc_mm.scaling, got 3"),
    ({"rotary": pm.ALiBi(HEADS)}, "rotary must be a RotaryEncoding or a scaling"),
    (
        {"rotary": pm.Rotary(HEAD_DIM, layout="interleaved")},
        "rotary must have layout='half', by which LlamaForCausalLM pairs channels",
    ),
    ({"rotary": pm.Rotary(WIDE)}, f"rotary must be for head_dim={HEAD_DIM}.*got head_dim={WIDE}"),
    ({"rotary": pm.Rotary(HEAD_DIM, rotary_dim=4)}, "rotary must turn 8 channels.*got 4"),
    ({"rotary": pm.Rotary(HEAD_DIM, axes=2)}, "axes"),
    (
        {"rotary": pm.MixedRotary(HEAD_DIM, HEADS, axes=1, layout="half")},
        "rotary must turn pairs of channels, the same in all heads",
    ),
    ({"rotary": pm.LieRE(HEAD_DIM, axes=1)}, "rotary must turn pairs of channels, the same"),
    ({"rotary": pm.XPos(HEAD_DIM, layout="half")}, "rotary must turn queries and keys alike"),
    ({"rotary": pm.CayleySTRING(HEAD_DIM, axes=1)}, "rotary must turn pairs of channels, the same"),
    ({"rotary": SOFTMAX}, "rotary has a softmax_factor of .*give the scaling scale_softmax=False"),
    (
        {"rotary": pm.Rotary(HEAD_DIM, scaling=SOFTMAX)},
        "rotary has a softmax_factor of .*give the scaling scale_softmax=False",
    ),
    (
        {"rotary": {"full_attention": Linear(2.0)}},
        r"rotary must be one encoding for a LlamaForCausalLM, got keys \['full_attention'\]",
    ),
    ({"bias": pm.Rotary(HEAD_DIM)}, "bias must be of class AttentionBias"),
    ({"bias": pm.ALiBi(HEADS + 1)}, "bias must be for the 4 heads of LlamaForCausalLM, got 5"),
    ({"bias": pm.ERPE(HEADS, 16)}, "bias must act on the logits"),
    ({"bias": pm.RelativeBias(HEADS, sizes=(4, 4))}, "axes"),
]


@pytest.mark.parametrize(("slots", "message"), SLOTS)
def test_encodings_that_do_not_fit(slots, message):
    model = tiny()
    wanted = model(tokens(2, 5)).logits
    with pytest.raises(ValueError, match=message):
        attach(model, **slots)
    assert not any(isinstance(module, Fronted) for module in model.modules())
    assert torch.equal(model(tokens(2, 5)).logits, wanted)


def test_types_of_layers_that_are_missing():
    types = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
    with pytest.raises(ValueError, match="a dictionary with keys .*got keys"):
        attach(tiny("Gemma3Text", **types), rotary={"full_attention": Linear(2.0)})


def test_a_half_encoding_on_a_model_of_neighbours():
    with pytest.raises(ValueError, match="layout='interleaved', by which CohereForCausalLM pairs"):
        attach(tiny("Cohere"), rotary=pm.Rotary(HEAD_DIM))
    attach(tiny("Cohere"), rotary=pm.Rotary(HEAD_DIM, layout="interleaved"))


def test_twice_and_never():
    model = attach(tiny())
    with pytest.raises(ValueError, match="model has encodings attached, detach them first"):
        attach(model, bias=pm.ALiBi(HEADS))
    detach(model)
    with pytest.raises(ValueError, match="model has nothing attached, got a LlamaForCausalLM"):
        detach(model)
    attach(model)


def test_no_model_of_transformers():
    with pytest.raises(ValueError, match="model must have one decoder of transformers.*got 0"):
        attach(torch.nn.Linear(2, 2))
    two = torch.nn.ModuleDict({"a": tiny(), "b": tiny()})
    with pytest.raises(ValueError, match="one decoder of transformers.*got 2 of them"):
        attach(two)
    with torch.device("meta"):
        empty = tiny()
    with pytest.raises(ValueError, match="got a model on meta: load it first"):
        attach(empty)


def test_attention_functions_that_take_no_added_mask():
    model = tiny()
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match=r"call model.set_attn_implementation\('sdpa'\)"):
        attach(model, bias=pm.ALiBi(HEADS))
    model.config._attn_implementation = "sdpa"
    attach(model, bias=pm.ALiBi(HEADS))
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="got 'flex_attention'"):
        model.model.layers[0](
            torch.zeros(1, 2, 32),
            position_embeddings=model.model.rotary_emb(
                torch.zeros(1, 2, 32), torch.tensor([[0, 1]])
            ),
        )


@torch.no_grad()
def test_positions_and_caches_that_do_not_fit():
    model, ids = tiny(), tokens(2, 5)
    filled = model(ids, use_cache=True).cache
    attach(model, bias=pm.ALiBi(HEADS))
    with pytest.raises(ValueError, match="cache must be empty when a model with a bias attached"):
        model(ids, cache=filled)
    with pytest.raises(ValueError, match=r"position_ids must be \(B, N\), of one axis, got shape"):
        model.model.rotary_emb(torch.zeros(1, 2, 32), torch.zeros(3, 1, 2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"attention_mask must be \(B, 1, N, M\) with N=5 .*M=5"):
        model(ids, attention_mask=torch.ones(2, 1, 5, 6, dtype=torch.bool), cache=DynamicCache())
