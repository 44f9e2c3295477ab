"""The names that Hugging Face and vLLM have for scalings, and their keys."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from posenc_mm.checks import check_number, check_whole
from posenc_mm.scaling.base import Scaling, Unscaled
from posenc_mm.scaling.interpolation import NTK, DynamicNTK, Linear
from posenc_mm.scaling.llama import Llama3
from posenc_mm.scaling.longrope import LongRoPE
from posenc_mm.scaling.pairs import Proportional
from posenc_mm.scaling.yarn import YaRN

Rope = Mapping[str, Any]

_ALIASES = {"su": "longrope", "mrope": "default"}
_EVERYWHERE = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
# What says something else than speeds: kept for the host, never used here.
_OTHERS = {
    "mrope_section",
    "mrope_interleaved",
    "llama_4_scaling_beta",
    "max_position_embeddings",
    "finetuned",
}
_YARN = {
    "factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
}
# Hunyuan's alpha decides alone; its checkpoints carry these beside it.
_BESIDE_ALPHA = {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}


def numbers_in(rope: Rope) -> Rope:
    """Read numbers that came as text, as those of YAML without a point do: ``1e6``.

    Args:
        rope: a flat dictionary.

    Returns:
        The same with numbers in their place; what is no number stays, for the reader to refuse.
    """

    def read(key: str, value: Any) -> Any:
        if key in ("rope_type", "type") or not isinstance(value, str):
            return value
        try:
            return float(value)
        except ValueError:
            return value

    return {key: read(key, value) for key, value in rope.items()}


def scaling_of(
    rope: Rope, around: Rope, share: float
) -> tuple[Scaling, tuple[tuple[str, Any], ...]]:
    """Make the scaling that a flat dictionary names.

    Args:
        rope: the dictionary, without keys that are None.
        around: what the configuration around it says, likewise.
        share: of a head's channels, that turns.

    Returns:
        The scaling, and the items that say something else.

    Raises:
        ValueError: the type or a key is unknown, or a key is missing.
    """
    kind = _kind(rope)
    others = set(_OTHERS)
    if kind == "dynamic" and rope.get("alpha"):
        kind, others = "ntk_alpha", others | _BESIDE_ALPHA
    if kind not in _READERS:
        raise ValueError(f"rope_type must be one of {sorted(_READERS)}, got rope_type={kind!r}")
    read, keys = _READERS[kind]
    unknown = set(rope) - keys - others - _EVERYWHERE
    if unknown:
        raise ValueError(
            f"keys of rope_type={kind!r} must be among {sorted(keys | others | _EVERYWHERE)}, got "
            f"{sorted(unknown)} as well"
        )
    items = tuple(sorted((key, _frozen(rope[key])) for key in set(rope) & others))
    return read(rope, around, share), items


def _kind(rope: Rope) -> str:
    names = [rope[key] for key in ("rope_type", "type") if key in rope] or ["default"]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"rope_type must be a name, got rope_type={names[0]!r}")
    first, *rest = [_ALIASES.get(name, name) for name in names]
    if rest and rest != [first]:
        _warn(f"rope_type is {names[0]!r} and type {names[1]!r}: taking {names[0]!r}")
    return "longrope" if first == "yarn" and "short_factor" in rope else first


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _needed(rope: Rope, key: str) -> Any:
    if key not in rope:
        raise ValueError(f"{key} must be given for this rope_type, got {dict(rope)}")
    return rope[key]


def _number(rope: Rope, key: str) -> float:
    value = _needed(rope, key)
    check_number(**{key: value})
    return float(value)


def _whole(key: str, value: Any) -> int:
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    check_whole(**{key: value})
    return int(value)


def _original(rope: Rope, around: Rope) -> int:
    own, outer = (each.get("original_max_position_embeddings") for each in (rope, around))
    if own is not None and outer is not None and own != outer:
        _warn(f"original_max_position_embeddings is {own} and {outer}: taking {outer}")
    limit = around.get("max_position_embeddings", rope.get("max_position_embeddings"))
    found = next((each for each in (outer, own, limit) if each is not None), None)
    if found is None:
        raise ValueError(
            f"original_max_position_embeddings must be given for this rope_type, got {dict(rope)}"
        )
    return _whole("original_max_position_embeddings", found)


def _extension(rope: Rope, around: Rope) -> tuple[float, int]:
    """The stated factor, or the ratio of lengths, and the trained length.

    There is a warning where the factor and the lengths disagree.
    """
    original = _original(rope, around)
    limit = around.get("max_position_embeddings", rope.get("max_position_embeddings"))
    stated = rope.get("factor")
    if stated is None and limit is None:
        raise ValueError(f"factor must be given for this rope_type, got {dict(rope)}")
    if stated is None:
        # A model that is not longer than it was is not scaled: Phi-3 with 4k positions.
        return max(float(limit) / original, 1.0), original
    stated = _number(rope, "factor")
    if limit is not None and limit not in (original, stated * original):
        _warn(
            f"factor is {stated}, but max_position_embeddings / original_max_position_embeddings "
            f"is {limit / original}: taking {stated}"
        )
    return stated, original


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=8)


def _dynamic(rope: Rope, around: Rope, share: float) -> Scaling:
    own = rope.get("original_max_position_embeddings")
    trained = around.get("max_position_embeddings", own)
    if trained is None:
        raise ValueError(
            f"original_max_position_embeddings must be given for this rope_type, got {dict(rope)}"
        )
    if own is not None and own != trained:
        _warn(
            f"original_max_position_embeddings is {own}, but dynamic scaling starts at "
            f"max_position_embeddings: taking {trained}"
        )
    whole = _whole("original_max_position_embeddings", trained)
    return DynamicNTK(_number(rope, "factor"), whole)


def _yarn(rope: Rope, around: Rope, share: float) -> Scaling:
    kind = rope.get("rope_type", rope.get("type"))
    # DeepSeek's attention scales its softmax by the second number, others that have it do not.
    softmax = not around or "qk_rope_head_dim" in around or "mscale_all_dim" not in rope
    return YaRN(
        *_extension(rope, around),
        beta_fast=rope.get("beta_fast") or 32.0,
        beta_slow=rope.get("beta_slow") or 1.0,
        truncate=rope.get("truncate", True),
        attention_factor=rope.get("attention_factor"),
        mscale=rope.get("mscale"),
        mscale_all_dim=rope.get("mscale_all_dim"),
        mscale_rule="vllm" if kind == "deepseek_yarn" else "hf",
        scale_softmax=softmax,
    )


def _longrope(rope: Rope, around: Rope, share: float) -> Scaling:
    factor, original = _extension(rope, around)
    return LongRoPE(
        _needed(rope, "short_factor"),
        _needed(rope, "long_factor"),
        original,
        factor,
        attention_factor=rope.get("attention_factor"),
        short_mscale=rope.get("short_mscale"),
        long_mscale=rope.get("long_mscale"),
    )


def _llama3(rope: Rope, around: Rope, share: float) -> Scaling:
    low, high = _needed(rope, "low_freq_factor"), _needed(rope, "high_freq_factor")
    return Llama3(_number(rope, "factor"), _original(rope, around), low, high)


_READERS: dict[str, tuple[Callable[[Rope, Rope, float], Scaling], set[str]]] = {
    "default": (lambda rope, around, share: Unscaled(), set()),
    "linear": (lambda rope, around, share: Linear(_number(rope, "factor")), {"factor"}),
    "dynamic": (_dynamic, {"factor", "original_max_position_embeddings"}),
    "ntk_alpha": (lambda rope, around, share: NTK(_number(rope, "alpha")), {"alpha"}),
    "ntk": (
        lambda rope, around, share: NTK(_number(rope, "factor"), "vllm", rope.get("mixed_b", 1.0)),
        {"factor", "mixed_b"},
    ),
    "yarn": (_yarn, _YARN),
    "deepseek_yarn": (_yarn, _YARN),
    "longrope": (
        _longrope,
        {"factor", "original_max_position_embeddings", "short_factor", "long_factor"}
        | {"attention_factor", "short_mscale", "long_mscale"},
    ),
    "llama3": (
        _llama3,
        {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
    ),
    "proportional": (
        lambda rope, around, share: Proportional(share, _number({"factor": 1.0, **rope}, "factor")),
        {"factor"},
    ),
}
