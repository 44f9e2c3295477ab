"""Rotary encodings with a scaling: its speeds and its temperature, exactly."""

import copy
import pickle
from dataclasses import replace

import pytest
import timm
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from posenc_mm import CayleySTRING, KVCache, Rotary, Transformer, attend, grid, rotate, sequence
from posenc_mm.scaling import NTK, DynamicNTK, Linear, PerAxis, Unscaled, YaRN, from_hf
from posenc_mm.timm import attach

D, LENGTH = 16, 40
YARN = YaRN(4.0, 32)


def test_queries_and_keys_turn_as_transformers_turns_them():
    told = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "rope_theta": 500.0,
    }
    config = LlamaConfig(
        hidden_size=2 * D, num_attention_heads=2, max_position_embeddings=128, rope_parameters=told
    )
    q, k = torch.randn(2, 3, 2, LENGTH, D)
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(LENGTH).expand(3, -1))
    wanted = apply_rotary_pos_emb(q, k, cos, sin)
    settings = from_hf(config)
    rotary = Rotary(D, base=500.0, scaling=settings.scaling)
    rotation = rotary(sequence(LENGTH))
    torch.testing.assert_close((rotate(q, rotation), rotate(k, rotation)), wanted)


def test_the_amplitude_is_squared_on_the_logits_and_undone_by_the_inverse():
    x = torch.randn(2, LENGTH, D, dtype=torch.float64)
    positions = sequence(LENGTH).double()
    rotary = Rotary(D, scaling=YARN)
    plain = Rotary(D, frequencies=[YARN.frequencies(D)])
    rotation, still = rotary(positions), plain(positions)
    a = YARN.amplitude()
    assert a > 1.1
    scores = rotate(x, rotation) @ rotate(x, rotation).mT
    torch.testing.assert_close(scores, a * a * rotate(x, still) @ rotate(x, still).mT)
    back = rotation.inverse()
    torch.testing.assert_close(rotate(rotate(x, rotation), back), x)
    torch.testing.assert_close(back.inverse().cos, rotation.cos)


def test_a_given_amplitude_acts_once():
    """At position 0 nothing turns: what is left is the factor on queries and keys, not its square.

    No host multiplies again: weights are the softmax of logits that grew by 2.2058280.
    """
    x, v = torch.randn(2, 3, 2, 5, D, dtype=torch.float64)
    rotary = Rotary(D, scaling=YaRN(128.0, 4096, attention_factor=1.4852030))
    rotation = rotary(torch.zeros(5, 1, dtype=torch.float64))
    torch.testing.assert_close(rotate(x, rotation), 1.4852030 * x, rtol=1e-12, atol=0)
    grown = 2.2058280 * x @ x.mT
    torch.testing.assert_close(
        rotate(x, rotation) @ rotate(x, rotation).mT, grown, rtol=1e-7, atol=0
    )
    seen = (grown / D**0.5).softmax(-1) @ v
    torch.testing.assert_close(attend(x, x, v, rotation=rotation), seen, rtol=0, atol=1e-6)
    assert rotary.softmax_factor == 1.0


def test_tokens_without_a_place_have_the_temperature_of_the_others():
    x = torch.randn(1, 3 + LENGTH, D, dtype=torch.float64)
    turned = rotate(x, Rotary(D, scaling=YARN)(sequence(LENGTH).double()).prefix(3))
    torch.testing.assert_close(turned[:, :3], YARN.amplitude() * x[:, :3])


def test_each_axis_is_stretched_by_its_own():
    scaling = PerAxis([YARN, Linear(2.0)])
    rotary = Rotary(D, axes=2, base=(100.0, 50.0), scaling=scaling)
    rotation = rotary(grid(3, 5).double())
    r, c = grid(3, 5).double().unbind(-1)
    rows, columns = YARN.frequencies(D // 2, 100.0), Linear(2.0).frequencies(D // 2, 50.0)
    theta = torch.cat(
        [r[:, None] * torch.tensor(rows).double(), c[:, None] * torch.tensor(columns).double()], 1
    )
    scale = torch.tensor([YARN.amplitude()] * (D // 4) + [1.0] * (D // 4), dtype=torch.float64)
    torch.testing.assert_close(rotation.cos, theta.cos() * scale, rtol=0, atol=1e-7)
    torch.testing.assert_close(rotation.sin, theta.sin() * scale, rtol=0, atol=1e-7)
    one = Rotary(D, axes=2, scaling=NTK(3.0))
    both = Rotary(D, axes=2, scaling=PerAxis([NTK(3.0), NTK(3.0)]))
    assert one.frequencies == both.frequencies


def test_an_unscaled_one_is_the_plain_one_bit_by_bit():
    plain, scaled = Rotary(D, 2, base=100.0), Rotary(D, 2, base=100.0, scaling=Unscaled())
    assert plain.frequencies == scaled.frequencies
    assert torch.equal(plain(grid(3, 5)).cos, scaled(grid(3, 5)).cos)


def test_a_length_is_of_the_encoding_not_of_a_call_before():
    scaling = DynamicNTK(2.0, 32)
    short, long = Rotary(D, scaling=scaling), Rotary(D, scaling=scaling, length=128)
    assert short.frequencies == Rotary(D).frequencies != long.frequencies
    before = short(sequence(8)).cos
    long(sequence(128))
    assert torch.equal(short(sequence(8)).cos, before)


def test_it_copies_pickles_and_says_what_it_is():
    rotary = Rotary(D, scaling=YARN)
    for other in (copy.deepcopy(rotary), pickle.loads(pickle.dumps(rotary))):
        assert torch.equal(other(sequence(9)).cos, rotary(sequence(9)).cos)
    assert "YaRN(factor=4.0" in repr(rotary)


def test_what_contradicts_a_scaling_is_refused():
    with pytest.raises(ValueError, match="scaling starts from base alone"):
        Rotary(D, frequencies=[[1.0] * 8], scaling=YARN)
    with pytest.raises(ValueError, match="scaling starts from base alone"):
        Rotary(D, rotary_dim=8, freq_dim=16, scaling=YARN)
    with pytest.raises(ValueError, match="scaling must have 2 axes, got 1"):
        Rotary(D, axes=2, scaling=PerAxis([YARN]))
    with pytest.raises(ValueError, match="length is for a scaling"):
        Rotary(D, length=128)


def test_a_host_applies_the_factor_on_the_logits_or_says_that_it_does_not():
    def model(scaling):
        torch.manual_seed(0)
        rotary = Rotary(D, scaling=scaling)
        return Transformer(2 * D, depth=1, heads=2, rotary=rotary, causal=True).double()

    with_factor = YaRN(4.0, 32, mscale=1.0, mscale_all_dim=1.0)
    factor = with_factor.softmax_factor
    assert factor > 1.2
    host = model(with_factor)
    other = model(replace(with_factor, scale_softmax=False))
    with torch.no_grad():
        other.blocks[0].attention.qkv.weight[: 2 * D] *= factor
        other.blocks[0].attention.qkv.bias[: 2 * D] *= factor
    tokens, positions = torch.randn(3, 9, 2 * D, dtype=torch.float64), sequence(9)
    torch.testing.assert_close(host(tokens, positions), other(tokens, positions))
    cache = KVCache()
    parts = [
        host(tokens[:, a:b], sequence(b - a, offset=a), cache=cache) for a, b in ((0, 6), (6, 9))
    ]
    torch.testing.assert_close(torch.cat(parts, 1), host(tokens, positions))
    vit = timm.create_model("vit_tiny_patch16_224", depth=1, embed_dim=32, num_heads=2)
    with pytest.raises(ValueError, match="a factor on the logits"):
        attach(vit, rotary=Rotary(D, axes=2, scaling=with_factor))
    attach(vit, rotary=Rotary(D, axes=2, scaling=replace(with_factor, scale_softmax=False)))


def test_queries_and_keys_of_other_kinds_of_rotation_are_not_mixed():
    q = torch.randn(1, 2, 6, D)
    half, axis_half = (Rotary(D, 2, layout=layout)(grid(2, 3)) for layout in ("half", "axis_half"))
    string = CayleySTRING(D, 2)(grid(2, 3))
    by_four = Rotary(D, 4, layout="axis_half")(grid(1, 1, 2, 3))
    with pytest.raises(ValueError, match="must be of one encoding"):
        attend(q, q, q, rotation=axis_half, k_rotation=by_four)
    for other in (axis_half, string):
        with pytest.raises(ValueError, match="must be of one encoding"):
            attend(q, q, q, rotation=half, k_rotation=other)
