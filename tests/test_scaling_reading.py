"""Dictionaries as people have them: old ones, nested ones, and ones that contradict themselves."""

import re

import oracles_scaling as oracle
import pytest

from posenc_mm import scaling as sc
from posenc_mm.scaling import from_hf, to_hf

YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
}
OLD = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
    "rope_theta": 1e4,
    "rope_scaling": None,
}
GPT_OSS = {
    **YARN,
    "rope_theta": 150_000.0,
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "truncate": False,
}
NESTED = {
    "full_attention": GPT_OSS,
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "linear_attention": None,
}


def test_a_config_from_before_rope_parameters():
    assert from_hf(OLD) == sc.RotarySettings(64, 64, 1e4)
    linear = from_hf({**OLD, "rope_scaling": {"type": "linear", "factor": 2.0}})
    assert linear.scaling == sc.Linear(2.0)
    dynamic = from_hf({**OLD, "rope_scaling": {"type": "dynamic", "factor": 2.0}})
    assert dynamic.scaling == sc.DynamicNTK(2.0, 2048)
    assert from_hf({**OLD, "partial_rotary_factor": 0.25}).rotary_dim == 16
    assert from_hf({**OLD, "rotary_pct": 0.5}).rotary_dim == 32
    assert from_hf({**OLD, "head_dim": 96}, head_dim=48).head_dim == 48


def test_a_model_of_several_modalities_is_read_by_its_text():
    assert from_hf({"hidden_size": 9, "text_config": OLD}) == from_hf(OLD)


def test_keys_that_are_not_about_speed_are_handed_on():
    rope = {"type": "mrope", "mrope_section": [16, 24, 24], "rope_theta": 1e6}
    settings = from_hf(rope, head_dim=128)
    assert settings.scaling == sc.Unscaled()
    assert settings.others == (("mrope_section", (16, 24, 24)),)
    assert to_hf(settings)["mrope_section"] == [16, 24, 24]


def test_a_stated_factor_beats_the_ratio_of_lengths_and_a_warning_says_so():
    config = {**OLD, "head_dim": 128, "max_position_embeddings": 40960, "rope_parameters": YARN}
    with pytest.warns(UserWarning, match=r"factor is 4.0.* is 1.25: taking 4.0"):
        settings = from_hf({**config, "rope_theta": 1e6})
    assert settings.scaling == sc.YaRN(4.0, 32768)
    assert settings.amplitude() == pytest.approx(1.1386294, abs=5e-8)
    row = settings.frequencies()
    assert row == pytest.approx(oracle.yarn(128, 1e6, 4.0, 32768), rel=1e-9)
    said = "rope_theta is 1000000.0 in the dictionary and 10000.0 in .*: taking 1000000.0"
    with pytest.warns(UserWarning, match=said):
        assert from_hf({**config, "max_position_embeddings": 131072}).base == 1e6


def test_two_names_that_differ_are_told_apart():
    with pytest.warns(UserWarning, match="rope_type is 'yarn' and type 'linear': taking 'yarn'"):
        assert from_hf({**YARN, "type": "linear"}, head_dim=64).scaling == sc.YaRN(4.0, 32768)
    same = {"rope_type": "default", "type": "mrope", "rope_theta": 1e4, "mrope_section": [8]}
    assert from_hf(same, head_dim=64).scaling == sc.Unscaled()


def test_numbers_that_came_as_text_are_numbers():
    """YAML calls 1e6 a text, as it has no point."""
    texts = {key: str(value) for key, value in YARN.items()}
    texts |= {"rope_theta": "1e6", "factor": "4e0", "beta_fast": "32", "partial_rotary_factor": "1"}
    assert from_hf(texts, head_dim=64) == from_hf(YARN, head_dim=64)


def test_lengths_that_agree_warn_of_nothing():
    config = {**OLD, "rope_theta": 1e6, "rope_parameters": YARN}
    for limit in (32768, 131072):
        assert from_hf({**config, "max_position_embeddings": limit}).scaling.factor == 4.0


def test_lengths_make_a_factor_that_is_not_stated():
    rope = {**YARN, "factor": None}
    config = {**OLD, "rope_theta": 1e6, "rope_parameters": rope, "max_position_embeddings": 65536}
    assert from_hf(config).scaling == sc.YaRN(2.0, 32768)
    with pytest.raises(ValueError, match="factor must be given"):
        from_hf(rope, head_dim=64)


def test_two_trained_lengths_are_told_apart():
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    rope = {"type": "su", **lists, "original_max_position_embeddings": 2048, "factor": 8.0}
    config = {**OLD, "rope_scaling": rope, "original_max_position_embeddings": 4096}
    config["max_position_embeddings"] = 32768
    with pytest.warns(UserWarning, match="is 2048 and 4096: taking 4096"):
        assert from_hf(config).scaling.original_length == 4096
    dynamic = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 1024}
    with pytest.warns(UserWarning, match="taking 2048"):
        assert from_hf({**OLD, "rope_scaling": dynamic}).scaling.original_length == 2048


def test_phi_3_called_its_lists_su_and_yarn():
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    wanted = sc.LongRoPE(*lists.values(), 2048, 16.0)
    outer = {"max_position_embeddings": 32768, "original_max_position_embeddings": 2048}
    for name in ("su", "yarn", "longrope"):
        config = {**OLD, **outer, "rope_scaling": {"type": name, **lists}}
        assert from_hf(config).scaling == wanted
    short = {**OLD, "rope_scaling": {"type": "su", **lists}}
    assert from_hf(short).scaling.factor == 1.0


def test_each_type_of_layer_has_its_own_settings():
    """The switch of a nested dictionary is read where it stands, not beside the layers."""
    config = {**OLD, "rope_theta": None, "max_position_embeddings": 131072}
    config["rope_parameters"] = NESTED
    full = from_hf(config, layer_type="full_attention")
    assert full.scaling == sc.YaRN(32.0, 4096, truncate=False)
    wanted = oracle.yarn(64, 150_000.0, 32.0, 4096, truncate=False)
    assert full.frequencies() == pytest.approx(wanted, rel=1e-9)
    assert from_hf(NESTED, 64, layer_type="full_attention") == full
    # A base beside the layers is for those that have none: no contradiction, no warning.
    assert from_hf({**config, "rope_theta": 7.0}, layer_type="full_attention") == full
    bare = {**config, "default_theta": 7.0, "rope_parameters": {"full": {"rope_type": "default"}}}
    assert from_hf(bare, layer_type="full").base == 7.0
    sliding = from_hf(config, layer_type="sliding_attention")
    assert sliding == sc.RotarySettings(64, 64, 1e4)
    again = {name: to_hf(from_hf(NESTED, 64, layer_type=name)) for name in list(NESTED)[:2]}
    assert from_hf(again, 64, layer_type="full_attention") == full
    for absent in (None, "linear_attention", "full"):
        with pytest.raises(ValueError, match=r"layer_type.*full_attention.*sliding_attention"):
            from_hf(config, layer_type=absent)


def test_gemma_3_had_two_bases_before_it_had_two_dictionaries():
    config = {**OLD, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
    config["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    full = from_hf(config, layer_type="full_attention")
    assert (full.base, full.scaling) == (1e6, sc.Linear(8.0))


def test_a_published_gemma_4_has_wider_heads_in_its_global_layers():
    rope = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
    config = {**OLD, "rope_theta": None, "head_dim": 256, "global_head_dim": 512}
    config["rope_parameters"] = {"full_attention": rope, "sliding_attention": {"rope_theta": 1e4}}
    full = from_hf(config, layer_type="full_attention")
    assert full == sc.RotarySettings(512, 512, 1e6, sc.Proportional(0.25))
    assert full.frequencies() == pytest.approx(oracle.proportional(512, 1e6, 0.25), rel=1e-12)
    assert from_hf(config, layer_type="sliding_attention").head_dim == 256
    layers = {"layer_types": ["sliding_attention"] * 5 + ["full_attention"]}
    written = {**config, **layers, "global_head_dim": None}
    written["per_layer_config"] = {"05": {"head_dim": 512}}
    assert from_hf(written, layer_type="full_attention") == full
    assert from_hf(written, layer_type="sliding_attention").head_dim == 256


@pytest.mark.parametrize("name", ["attention_head_dim", "kv_channels"])
def test_other_names_for_the_width_of_a_head(name):
    assert from_hf({**OLD, name: 80}).head_dim == 80


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"rope_type": "linear", "factor": 2.0}, "rope_theta must be given"),
        ({"rope_type": "linear", "rope_theta": 1e4}, "factor must be given"),
        ({"rope_type": "nkt", "rope_theta": 1e4}, "'yarn'], got rope_type='nkt'"),
        ({"rope_type": "default", "rope_theta": 1e4, "factor": 2.0}, "got ['factor'] as well"),
        ({**YARN, "beta_fats": 32, "low_freq_factor": 1.0}, "got ['beta_fats', 'low_freq_factor']"),
        ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}, "original_max_position"),
        ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, "original_max_position"),
        ({**YARN, "rope_type": "longrope"}, "short_factor must be given"),
        ({**YARN, "rope_type": "llama3"}, "low_freq_factor must be given"),
        ({**YARN, "rope_theta": "high"}, "rope_theta must be a finite number above 0.0, got"),
        ({**YARN, "rope_theta": True}, "rope_theta must be a finite number above 0.0, got"),
        ({**YARN, "factor": "four"}, "factor must be a finite number of at least 0.0, got"),
        ({**YARN, "factor": [4.0]}, "factor must be a finite number of at least 0.0, got"),
        ({**YARN, "truncate": "false"}, "truncate must be True or False, got truncate='false'"),
        (
            {**YARN, "original_max_position_embeddings": 9.5},
            "original_max_position_embeddings must",
        ),
        (
            {**YARN, "partial_rotary_factor": "half"},
            "partial_rotary_factor must be a finite number",
        ),
        ({**YARN, "rope_type": ["yarn"]}, "rope_type must be a name, got rope_type=['yarn']"),
        ({**YARN, "factor": 0.5}, "factor must be a finite number of at least 1.0"),
        ({**YARN, "partial_rotary_factor": 0.3}, "rotary_dim must be even"),
        ({**YARN, "partial_rotary_factor": 2.0}, "rotary_dim must be even and fit head_dim"),
    ],
)
def test_what_is_missing_or_unknown_is_named(rope, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        from_hf(rope, head_dim=90)


def test_the_dictionary_alone_has_no_width():
    with pytest.raises(ValueError, match="head_dim must be given"):
        from_hf(YARN)
