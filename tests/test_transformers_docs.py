"""``docs/transformers.md`` says what the code does: its table is made by trying each family."""

import pytest
import torch
from transformers_models import HEADS, OMITTED, tiny, tokens

import posenc_mm as pm
from posenc_mm.scaling import Unscaled
from posenc_mm.transformers import attach, detach
from posenc_mm.transformers.finding import REFUSED

MOE = {"num_local_experts": 2, "num_experts_per_tok": 1}
TYPES = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
WHOLE = {"num_key_value_heads": HEADS}
PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}
MLA = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4}
# What a family needs beside the sizes of all of them.
FAMILIES = {
    "Llama": {},
    "Mistral": {"sliding_window": 5},
    "Mixtral": MOE,
    "Qwen2": {},
    "Qwen3": {},
    "Qwen3Moe": {"num_experts": 2, "num_experts_per_tok": 1},
    "Phi": {},
    "Phi3": {},
    "GPTNeoX": {},
    "SmolLM3": {},
    "Gemma": {},
    "Gemma2": {"attention": "eager"},
    "Gemma3Text": TYPES,
    "Olmo2": {},
    "Olmo3": TYPES,
    "Granite": {},
    "Starcoder2": {},
    "Nemotron": {},
    "GptOss": {"attention": "eager", "rope_parameters": PLAIN, **MOE},
    "Exaone4": {},
    "Cohere": {},
    "Cohere2": {},
    "Glm": {},
    "Glm4": {},
    "Helium": {},
    "Ernie4_5": {},
    "StableLm": {},
    "Bloom": {"attention": "eager"},
    "CodeGen": {"rotary_dim": 4, "n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 64},
    "DeepseekV3": {**WHOLE, **MLA, "n_routed_experts": 8, "v_head_dim": 8, "head_dim": 4},
    "Falcon": {"head_dim": OMITTED},
    "Gemma4Text": TYPES,
    "GPT2": {"n_embd": 32, "n_head": 4, "n_layer": 1},
    "GPTJ": {"rotary_dim": 4, "n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 64},
    "Llama4Text": {"num_local_experts": 2},
    "Mpt": {"attention": "eager"},
    "OPT": {"ffn_dim": 24, "word_embed_proj_dim": 32},
}


def answer(model, **slots):
    """What the table says of these slots; that it works is found out by working."""
    ids = tokens(2, 7)
    wanted = model(ids).logits
    try:
        attach(model, **slots)
    except ValueError as error:
        assert torch.equal(model(ids).logits, wanted)
        return f"refused: {error}"
    if "bias" in slots:
        assert not torch.allclose(model(ids).logits, wanted, atol=1e-4)
    else:
        torch.testing.assert_close(model(ids).logits, wanted, atol=2e-5, rtol=1e-5)
        own = form(model)
        other = pm.Rotary(own.head_dim, frequencies=[[2.5] * own.pairs], layout=own.layout)
        attach(detach(model), rotary=other)
        assert not torch.allclose(model(ids).logits, wanted, atol=1e-4)
    assert torch.equal(detach(model)(ids).logits, wanted)
    return "works"


def form(attached):
    slots = next(m.posenc for m in attached.modules() if hasattr(m, "posenc"))
    return next(iter(slots.forms.values()))


@torch.no_grad()
def row(name):
    model = tiny(name, **FAMILIES[name])
    rotary = answer(model, rotary=Unscaled())
    if rotary != "works":
        return f"| `{name}` | | {rotary} | |"
    bias = answer(model, rotary=Unscaled(), bias=pm.ALiBi(HEADS))
    return f"| `{name}` | {form(attach(model)).layout} | {rotary} | {bias} |"


@pytest.mark.parametrize("name", FAMILIES)
def test_each_row_is_what_happens(name, root):
    text = (root / "docs" / "transformers.md").read_text(encoding="utf-8")
    assert row(name) in text.splitlines()


def test_there_are_no_other_rows(root):
    text = (root / "docs" / "transformers.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert rows == list(FAMILIES)


def test_types_that_are_refused_by_name_exist():
    """A type that no model has would refuse nothing."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    assert set(REFUSED) <= set(CONFIG_MAPPING_NAMES)


if __name__ == "__main__":
    for name in FAMILIES:
        print(row(name))
