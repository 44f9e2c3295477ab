"""Relative vectors equal transformers' own attention with the same weights."""

import pytest
import torch

import posenc_mm as pm

pytest.importorskip("transformers")

HEADS, WIDTH, LENGTH = 3, 8, 13
DIM = HEADS * WIDTH


def drawn(module):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=generator).mul_(0.5)
    return module.double().eval()


def noise(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def heads_of(x):
    return x.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)


def wav2vec2_bert(kind, **config):
    from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as peer
    from transformers.models.wav2vec2_bert.configuration_wav2vec2_bert import Wav2Vec2BertConfig

    settings = Wav2Vec2BertConfig(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        position_embeddings_type=kind,
        attention_dropout=0.0,
        max_source_positions=32,
        attn_implementation="eager",
        **config,
    )
    attention = drawn(peer.Wav2Vec2BertSelfAttention(settings))
    return attention, peer.Wav2Vec2BertRelPositionalEmbedding(settings)


def run_with(attention, x, bias):
    q, k, v = (
        heads_of(layer(x)) for layer in (attention.linear_q, attention.linear_k, attention.linear_v)
    )
    seen = pm.attend(q, k, v, bias=bias, q_positions=pm.sequence(x.shape[1]))
    return attention.linear_out(seen.transpose(1, 2).flatten(2))


def test_shaw_is_wav2vec2_berts_attention_with_its_two_limits():
    attention, _ = wav2vec2_bert(
        "relative_key", left_max_position_embeddings=6, right_max_position_embeddings=2
    )
    bias = pm.ShawBias(HEADS, WIDTH, 6, 2).double()
    bias.load_state_dict({"tables.k": attention.distance_embedding.weight})
    x = noise(2, LENGTH, DIM)
    torch.testing.assert_close(run_with(attention, x, bias), attention(x)[0], rtol=0, atol=1e-12)


def test_transformer_xl_is_wav2vec2_berts_with_interleaved_sinusoids():
    attention, embedding = wav2vec2_bert("relative")
    bias = pm.TransformerXLBias(HEADS, WIDTH, layout="interleaved").double()
    weight = attention.linear_pos.weight.unflatten(0, (HEADS, WIDTH))
    state = {"u": attention.pos_bias_u, "v": attention.pos_bias_v, "weight": weight}
    bias.load_state_dict(state)
    x = noise(2, LENGTH, DIM)
    theirs = attention(x, relative_position_embeddings=embedding(x).double())[0]
    # Their table of sinusoids is in float32.
    torch.testing.assert_close(run_with(attention, x, bias), theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("memory", [0, 4])
def test_transformer_xl_is_xlnets_attention_with_memories(memory):
    from transformers import XLNetConfig
    from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention

    config = XLNetConfig(d_model=DIM, n_head=HEADS, n_layer=1, d_inner=8, dropout=0.0)
    theirs, model = drawn(XLNetRelativeAttention(config)), XLNetModel(config)
    q, k = noise(LENGTH, 2, HEADS, WIDTH), noise(memory + LENGTH, 2, HEADS, WIDTH, seed=2)
    v = noise(memory + LENGTH, 2, HEADS, WIDTH, seed=3)
    waves = model.relative_positional_encoding(LENGTH, memory + LENGTH, bsz=2).double()
    k_waves = torch.einsum("ibh,hnd->ibnd", waves, theirs.r)
    wanted = theirs.rel_attn_core(q, k, v, k_waves).permute(1, 2, 0, 3)

    bias = pm.TransformerXLBias(HEADS, WIDTH).double()
    weight = theirs.r.permute(1, 2, 0)
    bias.load_state_dict({"u": theirs.r_w_bias, "v": theirs.r_r_bias, "weight": weight})
    places = pm.sequence(memory + LENGTH)
    sides = (x.permute(1, 2, 0, 3) for x in (q, k, v))
    got = pm.attend(*sides, bias=bias, q_positions=places[memory:], k_positions=places)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)


def deberta(buckets, shared):
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    config = DebertaV2Config(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        relative_attention=True,
        position_buckets=buckets,
        max_relative_positions=20,
        max_position_embeddings=20,
        pos_att_type=["c2p", "p2c"],
        share_att_key=shared,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return drawn(DisentangledSelfAttention(config))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("buckets", [8, -1])
def test_deberta_is_transformers_disentangled_attention(buckets, shared):
    """Where they have as many queries as keys; a query alone gets its row of that."""
    attention, length = deberta(buckets, shared), 31
    span = buckets if buckets > 0 else 20
    table, x = noise(2 * span, DIM, seed=5), noise(2, length, DIM)
    mask = torch.ones(2, 1, length, length)
    wanted = attention(x, mask, rel_embeddings=table)[0]

    keys = attention.key_proj if shared else attention.pos_key_proj
    queries = attention.query_proj if shared else attention.pos_query_proj
    bias = pm.DeBERTaBias(HEADS, WIDTH, span, 20 if buckets > 0 else None).double()
    names = {"tables.c2p": keys, "tables.p2c": queries}
    state = {name: heads_of(layer(table)[None])[0] for name, layer in names.items()}
    bias.load_state_dict(state)
    projections = attention.query_proj, attention.key_proj, attention.value_proj
    q, k, v = (heads_of(layer(x)) for layer in projections)
    places = pm.sequence(length)
    for rows in (slice(None), slice(length - 1, length), slice(4, 9)):
        got = pm.attend(
            q[:, :, rows], k, v, bias=bias, q_positions=places[rows], k_positions=places
        )
        # Their scale is a float32 tensor.
        torch.testing.assert_close(
            got.transpose(1, 2).flatten(2), wanted[:, rows], rtol=0, atol=1e-5
        )
