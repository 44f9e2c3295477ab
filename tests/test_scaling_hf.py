"""Configurations of Hugging Face models, against the numbers of transformers' own code."""

import copy
import math

import pytest
import torch

from posenc_mm import scaling as sc
from posenc_mm.scaling import from_hf, to_hf

transformers = pytest.importorskip("transformers")
FUNCTIONS = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS

SMALL = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
HEAD = {**SMALL, "head_dim": 32, "max_position_embeddings": 16384}
GEMMA4 = {**HEAD, "global_head_dim": 64, "layer_types": ["sliding_attention", "full_attention"]}
MLA = {"qk_rope_head_dim": 16, "qk_nope_head_dim": 24}
EIGHT = {"rope_type": "linear", "factor": 8.0}
DYNAMIC = {"type": "dynamic", "factor": 2.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "rope_theta": 1e6}
PARTIAL = {**YARN, "rope_type": "yarn", "partial_rotary_factor": 0.75}
LLAMA31 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
DEEPSEEK = {
    "type": "yarn",
    "factor": 40,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "original_max_position_embeddings": 4096,
}
PHI3 = {
    "partial_rotary_factor": 0.375,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0 + i / 10 for i in range(12)],
        "long_factor": [1.0 + i for i in range(12)],
        "original_max_position_embeddings": 4096,
    },
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
}

# Name, class, arguments, layers.
MODELS = [
    ("llama", "LlamaConfig", {**SMALL, "rope_theta": 5e4}, None),
    ("linear", "LlamaConfig", {**SMALL, "rope_scaling": {"type": "linear", "factor": 3}}, None),
    (
        "dynamic",
        "LlamaConfig",
        {**HEAD, "rope_scaling": DYNAMIC, "max_position_embeddings": 512},
        None,
    ),
    ("llama 3.1", "LlamaConfig", {**HEAD, "rope_parameters": LLAMA31}, None),
    ("qwen3 yarn", "Qwen3Config", {**HEAD, "rope_scaling": YARN}, None),
    ("mistral, partial", "MistralConfig", {**HEAD, "rope_parameters": PARTIAL}, None),
    ("ministral 3", "Ministral3Config", HEAD, None),
    ("phi 3 long", "Phi3Config", {**SMALL, **PHI3}, None),
    ("phi 3 short", "Phi3Config", {**SMALL, "max_position_embeddings": 4096}, None),
    ("gpt-oss", "GptOssConfig", {**HEAD, "max_position_embeddings": 131072}, None),
    ("deepseek v3", "DeepseekV3Config", {**SMALL, **MLA, "rope_scaling": DEEPSEEK}, None),
    ("mistral 4", "Mistral4Config", {**SMALL, **MLA}, None),
    ("gemma 3 full", "Gemma3TextConfig", {**HEAD, "rope_scaling": EIGHT}, "full_attention"),
    ("gemma 3 sliding", "Gemma3TextConfig", HEAD, "sliding_attention"),
    ("gemma 4 full", "Gemma4TextConfig", GEMMA4, "full_attention"),
    ("gemma 4 sliding", "Gemma4TextConfig", GEMMA4, "sliding_attention"),
]
MODEL = pytest.mark.parametrize(
    ("name", "kind", "arguments", "layer_type"), MODELS, ids=[name for name, *_ in MODELS]
)


def theirs(config, layer_type, length):
    """Speeds and amplitude of transformers' own code."""
    rope = config.rope_parameters[layer_type] if layer_type else config.rope_parameters
    if rope["rope_type"] == "default":
        own = config.per_layer_config[layer_type] if config.is_heterogeneous else config
        head = getattr(own, "head_dim", None) or own.hidden_size // own.num_attention_heads
        dim = int(head * rope.get("partial_rotary_factor", 1.0))
        return 1.0 / rope["rope_theta"] ** (torch.arange(0, dim, 2) / dim), 1.0
    function = FUNCTIONS[rope["rope_type"]]
    return function(config, "cpu", seq_len=length, layer_type=layer_type)


def made(kind, arguments):
    return getattr(transformers, kind)(**copy.deepcopy(arguments))


@MODEL
@pytest.mark.parametrize("as_json", [False, True], ids=["object", "json"])
def test_speeds_and_amplitude_are_those_of_transformers(name, kind, arguments, layer_type, as_json):
    config = made(kind, arguments)
    ours = from_hf(config.to_dict() if as_json else config, layer_type=layer_type)
    for length in (None, 300, 5000):
        speeds, amplitude = theirs(config, layer_type, length)
        row = torch.tensor(ours.frequencies(length=length), dtype=torch.float64)
        torch.testing.assert_close(row, speeds.double(), rtol=3e-6, atol=0)
        assert ours.amplitude(length) == pytest.approx(amplitude, rel=1e-12)


@MODEL
def test_what_is_written_is_read_the_same(name, kind, arguments, layer_type):
    config = made(kind, arguments)
    ours = from_hf(config, layer_type=layer_type)
    rope = to_hf(ours)
    around = {**config.to_dict(), "rope_parameters": {layer_type: rope} if layer_type else rope}
    again = from_hf(around, layer_type=layer_type)
    assert again == ours
    assert to_hf(again) == rope
    if name not in ("ministral 3", "deepseek v3", "mistral 4"):
        assert from_hf(rope, head_dim=ours.head_dim) == ours
    if rope["rope_type"] in FUNCTIONS and layer_type is None:
        rest = {key: value for key, value in arguments.items() if not key.startswith("rope_")}
        written = made(kind, {**rest, "rope_parameters": rope})
        for mine, other in zip(
            theirs(written, None, 5000), theirs(config, None, 5000), strict=True
        ):
            torch.testing.assert_close(torch.as_tensor(mine), torch.as_tensor(other))


@pytest.mark.parametrize(
    "scaling",
    [
        sc.Unscaled(),
        sc.NTK(8.0),
        sc.NTK(8.0, "vllm", 0.625),
        sc.DynamicNTK(2.0, 512),
        sc.YaRN(4.0, 4096, 16.0, 2.0, truncate=False, attention_factor=1.25),
        sc.YaRN(4.0, 4096, mscale=0.7, mscale_all_dim=0.0, mscale_rule="vllm"),
        sc.Llama3(32.0, 8192, 1.0, 1.0),
        sc.LongRoPE([1.0] * 16, [2.0] * 16, 4096, 4.0, short_mscale=1.1, long_mscale=1.3),
        sc.Proportional(0.25, 8.0),
    ],
    ids=repr,
)
def test_every_scaling_that_has_a_name_there_goes_and_comes_back(scaling):
    settings = sc.RotarySettings(32, 32, 5e5, scaling, (("mrope_section", (4, 6, 6)),))
    assert from_hf(to_hf(settings), head_dim=32) == settings


@pytest.mark.parametrize(
    "scaling",
    [
        sc.NTKByParts(4.0, 4096),
        sc.DynamicYaRN(4096),
        sc.Resonance(),
        sc.RIFLEx(3),
        sc.PerPair([1.0] * 16),
        sc.DynamicNTK(2.0, 512, fixed_length=1024),
        sc.YaRN(4.0, 4096, clamp="pairs"),
        sc.YaRN(4.0, 4096, blend="log"),
    ],
    ids=repr,
)
def test_a_scaling_without_a_name_there_is_refused(scaling):
    with pytest.raises(ValueError, match="name for"):
        to_hf(sc.RotarySettings(32, 32, 5e5, scaling))


def test_softmax_is_scaled_as_deepseek_does_and_ministral_does_not():
    deepseek = from_hf(made("DeepseekV3Config", {**SMALL, **MLA, "rope_scaling": DEEPSEEK}))
    wanted = (0.1 * math.log(40) + 1) ** 2
    assert deepseek.scaling.softmax_factor == pytest.approx(wanted, rel=1e-12)
    assert (deepseek.head_dim, deepseek.rotary_dim) == (16, 16)
    module = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    theirs = module.yarn_apply_mscale({**DEEPSEEK, "rope_type": "yarn"}, 1.0)
    assert deepseek.scaling.softmax_factor == pytest.approx(theirs, rel=1e-12)
    ministral = from_hf(made("Ministral3Config", HEAD))
    assert (ministral.scaling.softmax_factor, ministral.amplitude()) == (1.0, 1.0)
    assert ("llama_4_scaling_beta", 0.1) in ministral.others


def test_hunyuans_alpha_is_ntk_and_decides_alone():
    module = pytest.importorskip("transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense")
    beside = {"beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}
    rope = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 1e4, **beside}
    config = made("HunYuanDenseV1Config", {**HEAD, "rope_parameters": rope})
    ours = from_hf(config)
    function = module.HunYuanDenseV1RotaryEmbedding.compute_ntk_alpha_rope_parameters
    row = torch.tensor(ours.frequencies(length=10**6), dtype=torch.float64)
    torch.testing.assert_close(row, function(config)[0].double(), rtol=3e-6, atol=0)
    assert ours.scaling == sc.NTK(1000.0) and from_hf(to_hf(ours), head_dim=32) == ours
