"""From settings back to the dictionaries of Hugging Face models."""

from typing import Any

from posenc_mm.scaling.base import Scaling, Unscaled
from posenc_mm.scaling.interpolation import NTK, DynamicNTK, Linear
from posenc_mm.scaling.llama import Llama3
from posenc_mm.scaling.longrope import LongRoPE
from posenc_mm.scaling.pairs import Proportional
from posenc_mm.scaling.settings import RotarySettings
from posenc_mm.scaling.yarn import YaRN


def to_hf(settings: RotarySettings) -> dict[str, Any]:
    """Write the ``rope_parameters`` of a layer, so that :func:`from_hf` reads the same settings.

    References:
        Wolf et al.: Transformers: State-of-the-Art Natural Language Processing (2020),
        https://arxiv.org/abs/1910.03771

    Args:
        settings: of the layer.

    Returns:
        A flat dictionary. NTK has the spellings of Hunyuan (``alpha``) and vLLM (``ntk``), YaRN
        with vLLM's rule that of vLLM (``deepseek_yarn``).

    Raises:
        ValueError: the scaling has no name there.

    Example:
        >>> from posenc_mm.scaling import NTK, RotarySettings
        >>> to_hf(RotarySettings(64, 64, 10_000.0, NTK(8.0)))
        {'rope_type': 'dynamic', 'alpha': 8.0, 'rope_theta': 10000.0}
    """
    rope = _named(settings.scaling)
    rope["rope_theta"] = settings.base
    if isinstance(settings.scaling, Proportional):
        rope["partial_rotary_factor"] = settings.scaling.share
    elif settings.rotary_dim != settings.head_dim:
        rope["partial_rotary_factor"] = settings.rotary_dim / settings.head_dim
    others = {
        key: list(value) if isinstance(value, tuple) else value for key, value in settings.others
    }
    return {key: value for key, value in {**rope, **others}.items() if value is not None}


def _named(scaling: Scaling) -> dict[str, Any]:
    if isinstance(scaling, Unscaled):
        return {"rope_type": "default"}
    if isinstance(scaling, Linear):
        return {"rope_type": "linear", "factor": scaling.factor}
    if isinstance(scaling, NTK) and scaling.convention == "base":
        return {"rope_type": "dynamic", "alpha": scaling.factor}
    if isinstance(scaling, NTK):
        return {"rope_type": "ntk", "factor": scaling.factor, "mixed_b": scaling.power}
    if isinstance(scaling, Proportional):
        return {"rope_type": "proportional", "factor": scaling.factor}
    if isinstance(scaling, DynamicNTK) and scaling.fixed_length is None:
        return {"rope_type": "dynamic", **_lengths(scaling)}
    if isinstance(scaling, YaRN) and (scaling.clamp, scaling.blend) == ("channels", "linear"):
        return _yarn(scaling)
    if isinstance(scaling, Llama3):
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        bands = {"low_freq_factor": low, "high_freq_factor": high}
        return {"rope_type": "llama3", **_lengths(scaling), **bands}
    if isinstance(scaling, LongRoPE):
        return _longrope(scaling)
    raise ValueError(f"scaling must be one that Hugging Face or vLLM has a name for, got {scaling}")


def _lengths(scaling: DynamicNTK | YaRN | Llama3 | LongRoPE) -> dict[str, Any]:
    return {
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_length,
    }


def _yarn(scaling: YaRN) -> dict[str, Any]:
    return {
        "rope_type": "deepseek_yarn" if scaling.mscale_rule == "vllm" else "yarn",
        **_lengths(scaling),
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
        "truncate": scaling.truncate,
        "attention_factor": scaling.attention_factor,
        "mscale": scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim,
    }


def _longrope(scaling: LongRoPE) -> dict[str, Any]:
    return {
        "rope_type": "longrope",
        **_lengths(scaling),
        "short_factor": list(scaling.short),
        "long_factor": list(scaling.long),
        "attention_factor": scaling.attention_factor,
        "short_mscale": scaling.short_mscale,
        "long_mscale": scaling.long_mscale,
    }
