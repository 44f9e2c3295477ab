"""Tiny models of Hugging Face's families, with weights at random and nothing downloaded."""

import torch
import transformers

HEADS, HEAD_DIM, VOCABULARY = 4, 8, 61
OMITTED = object()
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": HEADS * HEAD_DIM,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.25,
    "head_dim": HEAD_DIM,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}


def tiny(name="Llama", seed=0, dtype=torch.float32, attention="sdpa", **changes):
    """A causal language model of a family."""
    torch.manual_seed(seed)
    arguments = {key: value for key, value in {**SMALL, **changes}.items() if value is not OMITTED}
    config = getattr(transformers, f"{name}Config")(**arguments)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return model.to(dtype).eval()


def tokens(*shape):
    return torch.randint(1, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


def padded_left(ids, lengths):
    """The last tokens of each row, behind padding, and the mask that says so."""
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        mask[row, ids.shape[1] - length :] = 1
    return ids * mask, mask


def generated(model, ids, mask=None, new=9, **arguments):
    """Tokens and, without beams, the logits that they were chosen by, ``(B, new, V)``."""
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids) if mask is None else mask,
        max_new_tokens=new,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
        **arguments,
    )
    return out.sequences, torch.stack(out.logits, dim=1)
