"""Other implementations as oracles: the numbers of their own code, where they are installed."""

import math

import pytest
import torch
from torch import Tensor

import posenc_mm as pm

GRID = (5, 9)


def near(a: Tensor, b: Tensor, atol: float = 2e-6) -> bool:
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=atol)


@pytest.fixture
def timm_layers():
    return pytest.importorskip("timm.layers.pos_embed_sincos")


def axial_bands(pairs: int, base: float) -> list[tuple[float, ...]]:
    return [pm.geometric(pairs, base)] * 2


@pytest.mark.parametrize("dim", [8, 20])
def test_sinusoid_in_timms_order(timm_layers, dim: int):
    wanted = timm_layers.build_sincos2d_pos_embed(GRID, dim=dim, temperature=500.0)
    ours = pm.Sinusoidal(dim, axes=2, base=500.0, layout="half")(pm.grid(*GRID))
    assert near(ours, wanted)


def timm_turn(timm_layers, x: Tensor, emb: Tensor, half: bool) -> Tensor:
    return timm_layers.apply_rot_embed_cat(x, emb, half=half)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_axial_rotary_by_index_as_in_eva(timm_layers, layout: str, base: float):
    half = layout == "half"
    peer = timm_layers.RotaryEmbeddingCat(
        24, temperature=base, in_pixels=False, feat_shape=None, rotate_half=half
    )
    x = torch.randn(2, 3, math.prod(GRID), 24)
    wanted = timm_turn(timm_layers, x, peer.get_embed(list(GRID)), half)
    rotation = pm.Rotary(24, axes=2, base=base, layout=layout)(pm.grid(*GRID))
    assert near(pm.rotate(x, rotation), wanted, atol=1e-5)


@pytest.mark.parametrize("offset", [0, 1])
def test_axial_rotary_column_first_with_an_offset_as_in_perception_encoder(timm_layers, offset):
    peer = timm_layers.RotaryEmbeddingCat(
        16, in_pixels=False, feat_shape=None, grid_indexing="xy", grid_offset=offset
    )
    x = torch.randn(2, 3, math.prod(GRID), 16)
    wanted = timm_turn(timm_layers, x, peer.get_embed(list(GRID)), False)
    at = pm.grid(*GRID, offset=offset).flip(-1)
    rotation = pm.Rotary(16, axes=2, layout="interleaved")(at)
    assert near(pm.rotate(x, rotation), wanted, atol=1e-5)


def test_axial_rotary_on_pixel_coordinates(timm_layers):
    peer = timm_layers.RotaryEmbeddingCat(
        16, max_res=64, in_pixels=True, linear_bands=True, feat_shape=None
    )
    x = torch.randn(2, 3, math.prod(GRID), 16)
    wanted = timm_turn(timm_layers, x, peer.get_embed(list(GRID)), False)
    bands = pm.linear(4, math.pi, 32 * math.pi)
    encoding = pm.Rotary(16, axes=2, layout="interleaved", frequencies=pm.axial(bands, bands))
    rotation = encoding(pm.normalised_grid(*GRID, ends="edges"))
    assert near(pm.rotate(x, rotation), wanted, atol=1e-4)


@pytest.mark.parametrize("by", ["axis", "min", "max"])
def test_rotary_on_centred_coordinates_as_in_dinov3(timm_layers, by: str):
    name = {"axis": "separate"}.get(by, by)
    peer = timm_layers.RotaryEmbeddingDinoV3(32, temperature=100.0, normalize_coords=name).eval()
    x = torch.randn(2, 3, math.prod(GRID), 32)
    wanted = timm_turn(timm_layers, x, peer.get_embed(list(GRID)), True)
    row = [2 * math.pi * f for f in pm.geometric(8, 100.0)]
    encoding = pm.Rotary(32, axes=2, layout="half", frequencies=pm.axial(row, row))
    rotation = encoding(pm.normalised_grid(*GRID, by=by))
    assert near(pm.rotate(x, rotation), wanted, atol=1e-5)


def test_mixed_rotary_with_learned_frequencies(timm_layers):
    heads, depth = 3, 2
    peer = timm_layers.RotaryEmbeddingMixed(
        dim=heads * 16, depth=depth, num_heads=heads, feat_shape=None, grid_indexing="ij"
    )
    x = torch.randn(2, heads, math.prod(GRID), 16)
    embeds = peer.get_embed(list(GRID))
    for block in range(depth):
        encoding = pm.MixedRotary(16, heads)
        with torch.no_grad():
            encoding.frequencies.copy_(peer.freqs[:, block].transpose(0, 1))
        wanted = timm_turn(timm_layers, x, embeds[block], False)
        assert near(pm.rotate(x, encoding(pm.grid(*GRID))), wanted, atol=1e-5)


def test_mixed_rotary_starts_from_the_same_ladder(timm_layers):
    """The draws differ; what they share are the lengths, the right angles and nothing across."""
    peer = timm_layers.init_random_2d_freqs(16, depth=1, num_heads=5)[:, 0].transpose(0, 1)
    ours = pm.mixed(8, heads=5, base=10.0)
    for draw in (peer, ours):
        assert near(draw.norm(dim=1), peer.norm(dim=1), atol=1e-6)
        first, second = draw.chunk(2, dim=-1)
        assert (first * second).sum(1).abs().max() < 1e-6


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers")


def test_llama_rotary(transformers):
    from transformers.models.llama import modeling_llama as llama

    config = transformers.LlamaConfig(hidden_size=48, num_attention_heads=3)
    q, k = torch.randn(2, 3, 11, 16), torch.randn(2, 1, 11, 16)
    at = torch.stack((torch.arange(11), torch.arange(11) * 37 + 5))
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, at)
    wanted = llama.apply_rotary_pos_emb(q, k, cos, sin)
    base = config.rope_parameters["rope_theta"]
    rotation = pm.Rotary(16, base=base)(at.unsqueeze(-1))
    for ours, theirs in zip((pm.rotate(q, rotation), pm.rotate(k, rotation)), wanted, strict=True):
        assert near(ours, theirs, atol=1e-4)


def test_gpt_neox_partial_rotary(transformers):
    from transformers.models.gpt_neox import modeling_gpt_neox as neox

    config = transformers.GPTNeoXConfig(hidden_size=96, num_attention_heads=3)
    q, k = torch.randn(2, 3, 11, 32), torch.randn(2, 3, 11, 32)
    at = torch.arange(11).expand(2, -1)
    cos, sin = neox.GPTNeoXRotaryEmbedding(config)(q, at)
    wanted, _ = neox.apply_rotary_pos_emb(q, k, cos, sin)
    assert cos.shape[-1] == 8
    rotation = pm.Rotary(32, rotary_dim=8)(pm.sequence(11))
    assert near(pm.rotate(q, rotation), wanted, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_bias(transformers, bidirectional: bool):
    from transformers.models.t5 import modeling_t5 as t5

    config = transformers.T5Config(num_heads=3, d_model=24, d_kv=8, is_decoder=not bidirectional)
    peer = t5.T5Attention(config, has_relative_attention_bias=True)
    ours = pm.T5Bias(3, bidirectional=bidirectional)
    with torch.no_grad():
        ours.weight.copy_(peer.relative_attention_bias.weight.normal_())
    whole = peer.compute_bias(300, 300)[0]
    assert near(ours(pm.sequence(300), pm.sequence(300)), whole, atol=0)
    step = ours(pm.sequence(4, offset=296), pm.sequence(300))
    assert near(step, whole[:, 296:], atol=0)


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 40])
def test_bloom_alibi_up_to_a_constant_per_query(transformers, heads: int):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    mask = torch.ones(1, 21, dtype=torch.long)
    peer = build_alibi_tensor(mask, heads, torch.float32).reshape(heads, 1, 21)
    ours = pm.ALiBi(heads)(pm.sequence(1, offset=20), pm.sequence(21))
    assert near(ours - ours[..., :1], peer - peer[..., :1], atol=1e-5)


def test_rotary_embedding_torch():
    peer = pytest.importorskip("rotary_embedding_torch").RotaryEmbedding(16)
    x = torch.randn(2, 3, 11, 16)
    for offset in (0, 7):
        wanted = peer.rotate_queries_or_keys(x, offset=offset)
        rotation = pm.Rotary(16, layout="interleaved")(pm.sequence(11, offset))
        assert near(pm.rotate(x, rotation), wanted, atol=1e-5)


def test_partly_rotated_heads_as_in_rotary_embedding_torch():
    peer = pytest.importorskip("rotary_embedding_torch").RotaryEmbedding(8)
    x = torch.randn(2, 3, 11, 16)
    rotation = pm.Rotary(16, rotary_dim=8, layout="interleaved")(pm.sequence(11))
    assert near(pm.rotate(x, rotation), peer.rotate_queries_or_keys(x), atol=1e-5)


def test_a_llama_with_converted_weights_is_the_same_model(transformers):
    """Interleaved weights, converted, in a real half-layout model: logits do not change."""
    config = transformers.LlamaConfig(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=1,
        intermediate_size=32, vocab_size=50, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    attention = model.model.layers[0].self_attn
    hidden = torch.randn(1, 9, 48)
    wanted = attention_scores(hidden, attention.q_proj.weight, attention.k_proj.weight, "half")
    q = pm.convert_layout(attention.q_proj.weight, 6, source="half", target="interleaved")
    k = pm.convert_layout(attention.k_proj.weight, 2, source="half", target="interleaved")
    assert near(attention_scores(hidden, q, k, "interleaved"), wanted, atol=1e-5)
    assert not near(attention_scores(hidden, q, k, "half"), wanted, atol=1e-2)
    rope = model.model.rotary_emb(hidden, torch.arange(9)[None])
    _, weights = attention(hidden, position_embeddings=rope, attention_mask=None)
    assert near(wanted.softmax(-1), weights, atol=1e-5)


def attention_scores(hidden: Tensor, q_weight: Tensor, k_weight: Tensor, layout: str) -> Tensor:
    q = (hidden @ q_weight.T).unflatten(-1, (6, 8)).transpose(1, 2)
    k = (hidden @ k_weight.T).unflatten(-1, (2, 8)).transpose(1, 2).repeat_interleave(3, dim=1)
    rotation = pm.Rotary(8, layout=layout)(pm.sequence(9))
    return pm.rotate(q, rotation) @ pm.rotate(k, rotation).transpose(-1, -2) / math.sqrt(8)
