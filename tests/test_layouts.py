"""Weights and whole checkpoints moved between rotary layouts: the models' outputs stay."""

import oracles_rotary
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from timm_models import HEADS, OTHER, images, tiny

import posenc_mm as pm

NAMES = ["interleaved", "half", "axis_half"]
name = st.sampled_from(NAMES)


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def assert_equal_states(found, wanted):
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert torch.equal(found[key], value), key


# ------------------------------------------------------------ one weight


@given(
    heads=st.integers(1, 3),
    axes=st.integers(1, 3),
    each=st.integers(1, 3),
    rest=st.integers(0, 3),
    source=name,
    target=name,
)
def test_rows_stand_where_the_other_layout_reads_them(heads, axes, each, rest, source, target):
    turning = 2 * axes * each
    weight = noise(heads * (turning + rest), 5)
    kind = {"rotary_dim": turning, "axes": axes}
    got = pm.convert_layout(weight, heads, source=source, target=target, **kind)
    order = oracles_rotary.layout_order(source, target, turning + rest, turning, axes)
    wanted = weight.unflatten(0, (heads, -1))[:, order].flatten(0, 1)
    assert torch.equal(got, wanted)
    back = pm.convert_layout(got, heads, source=target, target=source, **kind)
    assert torch.equal(back, weight)


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_scores_stay(source, target):
    tokens, at, weights = noise(2, 15, 7), pm.grid(3, 5).double(), noise(2, 36, 7, seed=1)

    def scores(layout, converted):
        q, k = converted @ tokens.unsqueeze(1).mT
        q, k = (part.mT.unflatten(-1, (3, 12)).transpose(1, 2) for part in (q, k))
        rotation = pm.Rotary(12, 2, layout=layout)(at)
        return pm.rotate(q, rotation) @ pm.rotate(k, rotation).mT

    tokens = tokens[:1]
    right = scores(source, weights.unsqueeze(1))
    kind = {"source": source, "target": target, "axes": 2}
    moved = torch.stack([pm.convert_layout(weight, 3, **kind) for weight in weights])
    torch.testing.assert_close(scores(target, moved.unsqueeze(1)), right, rtol=0, atol=1e-10)
    if source != target:
        assert (scores(target, weights.unsqueeze(1)) - right).abs().max() > 0.1


def test_what_is_no_matter_of_order_is_refused():
    weight = torch.zeros(24, 5)
    with pytest.raises(ValueError, match="layout.*vjepa2"):
        pm.convert_layout(weight, 2, source="vjepa2", target="half")
    with pytest.raises(ValueError, match="multiple of 6"):
        pm.convert_layout(weight, 3, source="half", target="axis_half", axes=3)
    with pytest.raises(ValueError, match="axes"):
        pm.convert_layout(weight, 2, source="half", target="axis_half", axes=0)


# ------------------------------------------------------------ whole checkpoints

EVAS = {
    "eva02 fused": ("eva02", {"qkv_fused": True}, {}),
    "eva02 separate": ("eva02", {"qkv_fused": False}, {}),
    "eva02 norms": ("eva02", {"qk_norm": True}, {}),
    "rope attention fused": ("perception encoder", {}, {}),
    "dinov3": ("dinov3", {}, {}),
    "sapiens2, grouped keys, norms": ("sapiens2", {}, {"kv_heads": 1}),
}


@pytest.mark.parametrize("case", EVAS)
def test_timms_eva_gives_the_same_logits_with_rotate_half_switched(case):
    name, options, heads = EVAS[case]
    native = options | {"rope_rotate_half": name == "dinov3"}
    other = options | {"rope_rotate_half": name != "dinov3"}
    names = ["interleaved", "half"]
    source, target = reversed(names) if name == "dinov3" else names
    torch.manual_seed(0)
    model, twin = tiny(name, **native), tiny(name, **other)
    state = model.state_dict()
    before = {key: value.clone() for key, value in state.items()}
    moved = pm.convert_checkpoint(state, HEADS, source=source, target=target, **heads)
    assert_equal_states(state, before)
    twin.load_state_dict(moved, strict=True)
    for grid in ((3, 5), OTHER):
        wanted = model(images(grid=grid))
        torch.testing.assert_close(twin(images(grid=grid)), wanted, rtol=0, atol=2e-5)
        twin.load_state_dict(state, strict=True)
        assert (twin(images(grid=grid)) - wanted).abs().max() > 1e-3
        twin.load_state_dict(moved, strict=True)
    back = pm.convert_checkpoint(moved, HEADS, source=target, target=source, **heads)
    assert_equal_states(back, before)


def interleaved(q, k, cos, sin, unsqueeze_dim=1):
    """Llama's rotation with the pairs of the other layout."""
    cos, sin = (t[..., : t.shape[-1] // 2].unsqueeze(unsqueeze_dim) for t in (cos, sin))
    turned = []
    for x in (q, k):
        a, b = x[..., 0::2], x[..., 1::2]
        turned.append(torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2))
    return turned


@pytest.mark.parametrize("biased", [False, True])
def test_transformers_llama_gives_the_same_logits_interleaved(biased, monkeypatch):
    """Four query heads, two key heads."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(
        vocab_size=31,
        hidden_size=32,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attention_bias=biased,
    )
    torch.manual_seed(0)
    model = llama.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    words = torch.randint(31, (2, 13))
    wanted, state = model(words).logits, {k: v.clone() for k, v in model.state_dict().items()}
    kind = {"heads": 4, "kv_heads": 2}
    moved = pm.convert_checkpoint(state, **kind, source="half", target="interleaved")
    monkeypatch.setattr(llama, "apply_rotary_pos_emb", interleaved)
    assert (model(words).logits - wanted).abs().max() > 0.01
    model.load_state_dict(moved)
    torch.testing.assert_close(model(words).logits, wanted, rtol=0, atol=2e-4)
    back = pm.convert_checkpoint(moved, **kind, source="interleaved", target="half")
    assert_equal_states(back, state)


@pytest.mark.parametrize("target", ["half", "interleaved"])
def test_gemma4s_attention_leaves_its_layout(target, monkeypatch):
    gemma = pytest.importorskip("timm.models.gemma4_vit")
    torch.manual_seed(0)
    attention = gemma.Gemma4Attention(48, 4, 12, num_kv_heads=2).eval()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    at, x = pm.grid(3, 5).flip(-1).expand(2, -1, -1), torch.randn(2, 15, 48)
    cos, sin = gemma.Gemma4RotaryEmbedding2D(12)(x, at)
    wanted, state = attention(x, cos, sin), dict(attention.state_dict())
    kind = {"heads": 4, "kv_heads": 2, "axes": 2}
    moved = pm.convert_checkpoint(state, **kind, source="axis_half", target=target)
    changed = {key for key in state if not torch.equal(state[key], moved[key])}
    assert changed == {
        *("q_proj.linear.weight", "k_proj.linear.weight", "q_norm.weight", "k_norm.weight")
    }
    rotation = pm.Rotary(12, 2, base=100.0, layout=target)(at)

    def ours(x, cos, sin, **kwargs):
        return pm.rotate(x.transpose(1, 2), rotation).transpose(1, 2)

    attention.load_state_dict(moved, strict=False)
    monkeypatch.setattr(gemma, "apply_multidimensional_rope", ours)
    torch.testing.assert_close(attention(x, cos, sin), wanted, rtol=0, atol=1e-5)


def state_of(**shapes):
    return {key.replace("__", "."): noise(*shape) for key, shape in shapes.items()}


KIND = {"source": "half", "target": "interleaved"}


def test_only_attentions_under_the_prefix_are_converted():
    shapes = {"a__attn__qkv__weight": (24, 5), "b__q_proj__weight": (8, 5)}
    state = state_of(**shapes, b__k_proj__weight=(8, 5), a__mlp__fc__weight=(8, 5))
    moved = pm.convert_checkpoint(state, 2, prefix="a.", **KIND)
    assert list(moved) == list(state)
    assert [key for key in state if moved[key] is not state[key]] == ["a.attn.qkv.weight"]


def test_norms_of_a_pool_without_rotary_stay():
    """timm's attention pool has q, kv and norms of its own."""
    state = state_of(
        attn__qkv__weight=(24, 5),
        pool__q__weight=(8, 5),
        pool__q_norm__weight=(4,),
        pool__k_norm__weight=(4,),
    )
    moved = pm.convert_checkpoint(state, 2, **KIND)
    assert moved["pool.q_norm.weight"] is state["pool.q_norm.weight"]


@pytest.mark.parametrize(
    ("shapes", "kind", "message"),
    [
        ({"q_proj__weight": (8, 5)}, {}, "must have k_proj.weight beside q_proj.weight"),
        ({"x__key__weight": (8, 5)}, {}, "must have x.query.weight beside x.key.weight"),
        (
            {"qkv__weight": (24, 5), "q_norm__weight": (4,)},
            {},
            "must have k_norm.weight beside q_norm.weight",
        ),
        ({"c_attn__weight": (24, 5)}, {}, "no projection of queries and keys"),
        ({"a__qkv__weight": (24, 5)}, {"prefix": "b."}, "no projection.*prefix='b.'"),
        ({}, {}, "no projection"),
        ({"qkv__weight": (22, 5)}, {}, "qkv.weight must have as many rows"),
        ({"qkv__weight": (24, 5)}, {"kv_heads": 5}, "kv_heads must divide heads.*kv_heads=5"),
        ({"q_proj__weight": (8, 5), "k_proj__weight": (8, 5)}, {"kv_heads": 1}, "k_proj.weight"),
        ({"qkv__weight": (24, 5)}, {"heads": 0}, "heads"),
        ({"qkv__weight": (24, 5)}, {"source": "neox"}, "layout"),
        ({"qkv__weight": (24, 5)}, {"target": "vjepa2"}, "layout"),
        ({"qkv__weight": (24, 5)}, {"rotary_dim": 3}, "rotary_dim"),
        ({"qkv__weight": (24, 5), "q_norm__weight": (3,), "k_norm__weight": (3,)}, {}, "q_norm"),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_named(shapes, kind, message):
    with pytest.raises(ValueError, match=message):
        pm.convert_checkpoint(state_of(**shapes), **({"heads": 2} | KIND | kind))
