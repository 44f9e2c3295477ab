"""Biases inside transformers' attention, against masks made in plain loops, with every cache.

The oracle is the model as it comes: all positions 0 turn nothing, and a mask of four axes, which
transformers takes as it is, holds the bias. It never sees a cache.
"""

import pytest
import torch
from transformers import DynamicCache, StaticCache
from transformers_models import HEAD_DIM, HEADS, generated, padded_left, tiny, tokens

import posenc_mm as pm
from posenc_mm.transformers import attach

LEAST = torch.finfo(torch.float64).min
SLIDING = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
MODELS = {
    "Llama": {},
    "GPTNeoX": {},
    "Mistral": {"sliding_window": 5},
    "Gemma3Text": SLIDING,
    "Gemma2": {**SLIDING, "attention": "eager", "query_pre_attn_scalar": HEAD_DIM},
}
EVERY = pytest.mark.parametrize("name", MODELS)


class Odd(pm.AttentionBias):
    """No function of differences: every position of a query and of a key tells."""

    heads = HEADS

    def forward(self, q_positions, k_positions):
        q, k = q_positions.unsqueeze(-2), k_positions.unsqueeze(-3)
        numbers = (3 * q + 5 * k + q * k) % 7
        heads = torch.arange(1, HEADS + 1)[:, None, None]
        return (numbers.squeeze(-1).unsqueeze(-3) * heads).double() * 0.2


def odd(head, query, key):
    return (3 * query + 5 * key + query * key) % 7 * (head + 1) * 0.2


def alibi(head, query, key):
    return -(2.0 ** (-8 * (head + 1) / HEADS)) * abs(query - key)


def oracle_mask(bias, mask, window=None):
    """Entry by entry: hidden are the future, padding, and what a window leaves out."""
    batch, length = mask.shape
    out = torch.full((batch, HEADS, length, length), LEAST, dtype=torch.float64)
    for sample in range(batch):
        places, seen = [], 0
        for row in range(length):
            places.append(seen)
            seen += int(mask[sample, row])
        for head in range(HEADS):
            for i in range(length):
                for j in range(i + 1):
                    near = window is None or i - j < window
                    if mask[sample, j] and mask[sample, i] and near:
                        out[sample, head, i, j] = bias(head, places[i], places[j])
    return out


def oracle(name, bias, ids, mask=None):
    """Logits of the model as it comes, ``(B, N, V)``."""
    model = tiny(name, dtype=torch.float64, **MODELS[name])
    mask = torch.ones_like(ids) if mask is None else mask
    given = oracle_mask(bias, mask, window=5 if name == "Mistral" else None)
    if "layer_types" in MODELS[name]:
        given = {"full_attention": given, "sliding_attention": oracle_mask(bias, mask, 5)}
    return model(ids, attention_mask=given, position_ids=ids * 0).logits


def attached(name, bias, **changes):
    model = tiny(name, dtype=torch.float64, **{**MODELS[name], **changes})
    model.generation_config.disable_compile = True
    return attach(model, bias=bias)


def close(a, b, tolerance=1e-9):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def exact(name):
    """Eager attention takes its softmax in float32, whatever the model is in."""
    return 1e-5 if name == "Gemma2" else 1e-9


@EVERY
@torch.no_grad()
def test_a_whole_forward_is_the_oracle(name):
    ids = tokens(2, 11)
    close(attached(name, Odd())(ids).logits, oracle(name, odd, ids))
    found = attached(name, pm.ALiBi(HEADS))(ids).logits
    torch.testing.assert_close(found, oracle(name, alibi, ids), atol=1e-6, rtol=1e-6)


@EVERY
@pytest.mark.parametrize("way", ["growing", "fixed", "without"])
@torch.no_grad()
def test_every_step_of_a_generation_is_the_oracle(name, way):
    """Left padding, windows that slide over the cache, slots of it that nothing fills yet."""
    arguments = {
        "growing": {},
        "fixed": {"cache_implementation": "static"},
        "without": {"use_cache": False},
    }[way]
    ids, mask = padded_left(tokens(3, 7), [7, 4, 2])
    found, logits = generated(attached(name, Odd()), ids, mask, new=6, **arguments)
    for sample, length in enumerate((7, 4, 2)):
        alone = found[sample : sample + 1, 7 - length :]
        wanted = oracle(name, odd, alone[:, :-1])[:, length - 1 :]
        # In float32, as generate hands them out.
        close(logits[sample : sample + 1], wanted.float(), 1e-5)
        assert torch.equal(wanted.argmax(-1), alone[:, length:])


@EVERY
@pytest.mark.parametrize(
    "cache", [{}, {"cache_implementation": "static"}], ids=["growing", "fixed"]
)
@torch.no_grad()
def test_beams_take_their_positions_along(name, cache):
    ids, mask = padded_left(tokens(3, 7), [7, 4, 2])
    model = attached(name, Odd())
    found, _ = generated(model, ids, mask, num_beams=3, **cache)
    wanted, _ = generated(model, ids, mask, num_beams=3, use_cache=False)
    assert torch.equal(found, wanted)


@EVERY
@torch.no_grad()
def test_prefill_in_pieces_is_the_whole(name):
    model, ids = attached(name, Odd()), tokens(2, 14)
    wanted = oracle(name, odd, ids)
    for cache in (DynamicCache(), DynamicCache(config=model.config), StaticCache(model.config, 20)):
        parts = [model(part, cache=cache).logits for part in ids.split([4, 3, 1, 4, 1, 1], dim=1)]
        close(torch.cat(parts, dim=1), wanted, exact(name))
        assert int(cache.get_seq_length()) == 14


@torch.no_grad()
def test_tokens_that_are_taken_back_take_their_positions_back():
    """Assisted decoding proposes tokens from the prompt and crops what it rejects."""
    model, ids = attached("Llama", Odd()), tokens(1, 4).repeat(1, 3)
    found, _ = generated(model, ids, new=12, prompt_lookup_num_tokens=3)
    assert torch.equal(found, generated(model, ids, new=12, use_cache=False)[0])
    cache = DynamicCache()
    model(ids, cache=cache)
    cache.crop(-5)
    close(model(ids[:, 7:], cache=cache).logits, oracle("Llama", odd, ids)[:, 7:])


@torch.no_grad()
def test_a_cache_is_used_again():
    model, ids = attached("Mistral", Odd()), tokens(2, 9)
    for cache in (DynamicCache(config=model.config), StaticCache(model.config, 20)):
        for _ in range(2):
            cache.reset()
            close(model(ids, cache=cache).logits, oracle("Mistral", odd, ids))


@torch.no_grad()
def test_packed_documents_do_not_see_each_other():
    ids = tokens(1, 9)
    places = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]])
    found = attached("Llama", Odd())(ids, position_ids=places, use_cache=False).logits
    close(found[:, :5], oracle("Llama", odd, ids[:, :5]))
    close(found[:, 5:], oracle("Llama", odd, ids[:, 5:]))


@torch.no_grad()
def test_masks_of_the_caller_are_kept():
    ids = tokens(2, 6)
    seen = torch.rand(2, 1, 6, 6).tril() > 0.4
    seen = seen | torch.eye(6, dtype=torch.bool)
    added = torch.zeros(2, 1, 6, 6, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    model = attached("Llama", Odd())
    found = model(ids, attention_mask=seen).logits
    close(found, model(ids, attention_mask=added).logits)
    given = oracle_mask(odd, torch.ones_like(ids)).masked_fill(~seen, LEAST)
    plain = tiny(dtype=torch.float64)
    close(found, plain(ids, attention_mask=given, position_ids=ids * 0).logits)


@torch.no_grad()
def test_right_padding_leaves_the_rest_alone():
    ids, model = tokens(2, 8), attached("Llama", Odd())
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    found = model(ids, attention_mask=mask).logits
    close(found[0], oracle("Llama", odd, ids)[0])
    close(found[1, :5], oracle("Llama", odd, ids[1:, :5])[0])


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"Gemma2"}))
@torch.no_grad()
def test_both_attention_functions_agree(name):
    ids, mask = padded_left(tokens(2, 9), [9, 5])
    both = [
        attached(name, Odd(), attention=kind)(ids, attention_mask=mask, position_ids=places(mask))
        for kind in ("eager", "sdpa")
    ]
    close(both[0].logits[mask.bool()], both[1].logits[mask.bool()], 1e-5)
    assert all(each.logits.isfinite().all() for each in both)


def places(mask):
    return (mask.cumsum(-1) - 1).clamp(min=0)


@torch.no_grad()
def test_rotation_and_bias_go_together():
    """With the model's own rotation in force, a bias of nothing changes nothing."""

    class Nothing(Odd):
        def forward(self, q_positions, k_positions):
            return super().forward(q_positions, k_positions) * 0

    ids = tokens(2, 8)
    model = tiny(dtype=torch.float64)
    wanted = model(ids).logits
    rotary = pm.Rotary(HEAD_DIM)
    found = attach(model, rotary=rotary, bias=Nothing())(ids).logits
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_none_at_all_is_no_position():
    ids = tokens(2, 8)
    model = tiny(dtype=torch.float64)
    wanted = model(ids, position_ids=ids * 0, use_cache=True).logits
    assert not torch.allclose(model(ids).logits, wanted, atol=1e-3)
    close(attach(model)(ids).logits, wanted)
