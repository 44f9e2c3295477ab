"""The lines that put an option on a model that was loaded, where a peer's models take it."""

from posenc_mm.choosing.describing import Part
from posenc_mm.choosing.options import Option
from posenc_mm.choosing.situation import Situation

_LLAMA = """from transformers import LlamaConfig, LlamaForCausalLM

from posenc_mm.scaling import {name}
from posenc_mm.transformers import attach

# Yours: AutoModelForCausalLM.from_pretrained(...); this one is as small as can be.
sizes = {{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}}
model = LlamaForCausalLM(LlamaConfig(vocab_size=9, num_attention_heads=2, **sizes))
attach(model, rotary={call})
"""
_VIT = """import timm
import torch

from posenc_mm.timm import resize

vit = timm.create_model("vit_tiny_patch16_224", depth=1)  # yours: pretrained=True
resize(vit, (288, 288){how})
print(vit(torch.randn(1, 3, 288, 288)).shape)
"""


def on_loaded(one: Option, situation: Situation) -> str:
    """Write a program that puts an option on a loaded model.

    Args:
        one: the option.
        situation: what it is for.

    Returns:
        The program, which needs timm or transformers; empty if there is none to write.
    """
    if situation.pretrained == "no":
        return ""
    rotary = one.parts(situation).get("rotary")
    scaling = rotary.arguments.get("scaling") if rotary is not None else None
    if situation.modality == "text" and isinstance(scaling, Part):
        call = scaling.python()
        return _LLAMA.format(name=call.partition("(")[0], call=call)
    if situation.modality == "images" and one.name == "bicubic":
        return _VIT.format(how=', rule="bicubic"')
    if situation.modality == "images" and one.reads == "kept" and situation.beyond:
        # 24 pixels for 16: 12 by 12 patches of what were 14 by 14.
        return _VIT.format(how=", patch_size=24")
    return ""
