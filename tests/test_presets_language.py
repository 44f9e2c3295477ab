"""Encodings of language models that read pictures: the papers' words, and transformers' numbers."""

from importlib import import_module

import oracles_allocations as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm import presets
from posenc_mm.frequencies import interleaved, sections
from posenc_mm.scaling import YaRN

BLOCK = (2, 3, 5)


def stream(batch=2, count=9):
    """Coordinates as of words and pictures: whole, not equal on the axes, differing by sample."""
    return torch.randint(0, 300, (batch, count, 3))


def near(ours, wanted, atol=1e-12):
    torch.testing.assert_close(ours, wanted, rtol=0, atol=atol, check_dtype=False)


PROPOSED = {
    "video_rope": (presets.video_rope(128), oracles.videorope(64, (16, 24, 24)), 1e6),
    "hope": (presets.hope(128), oracles.videorope(64, (16, 24, 24)), 1e6),
    "mm_rope": (presets.mm_rope(128), oracles.lumos(64), 1e4),
    "qwen2_vl_text": (presets.qwen2_vl_text(128), oracles.qwen2(64, (16, 24, 24)), 1e6),
    "qwen2_5_vl_text": (presets.qwen2_5_vl_text(128), oracles.qwen2(64, (16, 24, 24)), 1e6),
    "qwen3_vl_text": (presets.qwen3_vl_text(128), oracles.qwen3(64, (24, 20, 20)), 5e6),
    "qwen3_5_text": (presets.qwen3_5_text(256), oracles.qwen3(32, (11, 11, 10)), 1e7),
    "glm4v_text": (presets.glm4v_text(128), oracles.qwen2(32, (8, 12, 12)), 1e4),
    "ernie45_vl": (presets.ernie45_vl(128), oracles.ernie(64, (22, 22, 20)), 5e5),
    "narrow": (
        presets.video_rope(24, counts=(3, 5, 4), base=9.0),
        oracles.videorope(12, (3, 5, 4)),
        9.0,
    ),
}


@pytest.mark.parametrize("name", PROPOSED)
def test_pairs_turn_as_the_papers_say(name):
    placed, axes, base = PROPOSED[name]
    at = stream(1)[0]
    still = range(48, 64) if name == "hope" else ()
    wanted = oracles.angles(at.tolist(), axes, oracles.speeds(len(axes), base), still)
    rotation = placed.encoding(at.double())
    near(rotation.cos, wanted.cos())
    near(rotation.sin, wanted.sin())


def test_whole_heads_for_time_row_and_column():
    row = oracles.speeds(8, 5e6)
    at = stream(1)[0].double()
    rotation = presets.mh_rope(16, heads=9, groups=2).encoding(at)
    for head, axis in enumerate([0] * 4 + [1] * 6 + [2] * 6):
        wanted = oracles.angles(at.tolist(), [axis] * 8, row)
        near(rotation.cos[head], wanted.cos())
        near(rotation.sin[head], wanted.sin())
    assert torch.equal(rotation.cos[16:], torch.ones(2, 9, 8, dtype=torch.float64))


def test_a_count_for_another_head_is_refused():
    with pytest.raises(ValueError, match="counts must be the pairs of each axis, 32 frequencies"):
        presets.qwen2_vl_text(64)
    with pytest.raises(ValueError, match="head_dim must be a multiple of 8"):
        presets.qwen3_5_text(60)
    with pytest.raises(ValueError, match="head_dim must be even"):
        presets.mh_rope(15)


# ------------------------------------------------------------ transformers


def module(name):
    pytest.importorskip("transformers")
    return import_module(f"transformers.models.{name}.modeling_{name}")


def configuration(name, kind, **arguments):
    pytest.importorskip("transformers")
    found = import_module(f"transformers.models.{name}.configuration_{name}")
    return getattr(found, kind)(hidden_size=256, num_attention_heads=2, **arguments)


def compare(peer, turn, placed, width=128):
    """Turned queries and keys, of a ragged stream of two samples."""
    at = stream()
    q, k = torch.randn(2, 2, 9, width), torch.randn(2, 1, 9, width)
    wanted = turn(q, k, *peer(q, at.movedim(-1, 0)))
    rotation = placed.encoding(at)
    near(pm.rotate(q, rotation), wanted[0], atol=1e-4)
    near(pm.rotate(k, rotation), wanted[1], atol=1e-4)
    # Near 0 the peer's float32 angles are exact enough to tell more.
    at = at % 7
    wanted, _ = turn(q, k, *peer(q, at.movedim(-1, 0)))
    near(pm.rotate(q, placed.encoding(at)), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "kind", "peer"),
    [
        ("qwen2_vl", "Qwen2VLTextConfig", "Qwen2VLRotaryEmbedding"),
        ("qwen2_5_vl", "Qwen2_5_VLTextConfig", "Qwen2_5_VLRotaryEmbedding"),
    ],
)
def test_qwen2_vl(model, kind, peer):
    config = configuration(model, kind)
    placed = getattr(presets, f"{model}_text")(128)
    assert config.rope_parameters["rope_theta"] == 1e6
    compare(getattr(module(model), peer)(config), module(model).apply_rotary_pos_emb, placed)


def test_qwen2_5_vl_stretched():
    """All axes by one YaRN, as its model card says to."""
    told = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    config = configuration(
        "qwen2_5_vl",
        "Qwen2_5_VLTextConfig",
        rope_parameters={**told, "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    )
    rotary = pm.Rotary(
        128,
        3,
        base=1e6,
        allocation=lambda row: sections(row, (16, 24, 24)),
        scaling=YaRN(4.0, 64),
    )
    found = module("qwen2_5_vl")
    peer = found.Qwen2_5_VLRotaryEmbedding(config)
    assert peer.attention_scaling > 1.1
    compare(
        peer, found.apply_rotary_pos_emb, presets.qwen2_5_vl_text(128)._replace(encoding=rotary)
    )


@pytest.mark.parametrize("base", [5e5, 5e6])
def test_qwen3_vl(base):
    told = {"rope_type": "default", "rope_theta": base}
    config = configuration("qwen3_vl", "Qwen3VLTextConfig", head_dim=128, rope_parameters=told)
    found = module("qwen3_vl")
    compare(
        found.Qwen3VLTextRotaryEmbedding(config),
        found.apply_rotary_pos_emb,
        presets.qwen3_vl_text(128, base=base),
    )


def test_qwen3_5():
    told = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
    config = configuration("qwen3_5", "Qwen3_5TextConfig", head_dim=256, rope_parameters=told)
    found = module("qwen3_5")
    peer = found.Qwen3_5TextRotaryEmbedding(config)
    compare(peer, found.apply_rotary_pos_emb, presets.qwen3_5_text(256), 256)


def test_glm4v():
    told = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    config = configuration("glm4v", "Glm4vTextConfig", rope_parameters=told)
    found = module("glm4v")
    peer = found.Glm4vTextRotaryEmbedding(config)
    compare(peer, found.apply_rotary_pos_emb, presets.glm4v_text(128))


def test_ernie45_vl():
    config = configuration("ernie4_5_vl_moe", "Ernie4_5_VLMoeTextConfig")
    assert config.rope_parameters["rope_theta"] == 5e5
    found = module("ernie4_5_vl_moe")
    peer = found.Ernie4_5_VLMoeTextRotaryEmbedding(config)
    compare(peer, found.apply_rotary_pos_emb, presets.ernie45_vl(128))


def test_a_tail_of_pairs_goes_to_time_as_in_transformers():
    """Pairs 61 and 62 of 64, which llama.cpp gives to a fourth axis."""
    told = {"rope_type": "default", "rope_theta": 5e6}
    config = configuration("qwen3_vl", "Qwen3VLTextConfig", head_dim=128, rope_parameters=told)
    peer = module("qwen3_vl").Qwen3VLTextRotaryEmbedding(config)
    only_time = torch.tensor([[[900, 0, 0]]])
    _, sin = peer(torch.zeros(1, dtype=torch.float64), only_time.movedim(-1, 0))
    turning = (sin[0, 0, :64] != 0).tolist()
    ours = [f != 0 for f in interleaved(pm.geometric(64, 5e6), (24, 20, 20))[0]]
    assert ours == turning and all(turning[60:])
