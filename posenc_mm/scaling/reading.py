"""From the configurations of Hugging Face models to settings."""

import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

from posenc_mm.checks import check_number
from posenc_mm.scaling.naming import numbers_in, scaling_of
from posenc_mm.scaling.settings import RotarySettings

Value = TypeVar("Value")

_OF_MODELS = ("rope_parameters", "rope_scaling", "hidden_size", "num_attention_heads", "head_dim")


def from_hf(
    config: object, head_dim: int | None = None, *, layer_type: str | None = None
) -> RotarySettings:
    """Read the rotary encoding of a Hugging Face model.

    A factor that is stated beats one that follows from two lengths, and what the dictionary says
    beats the configuration around it; where they disagree, a warning says so. Nothing is
    passed over: a key or type that is not understood is an error.

    References:
        Wolf et al.: Transformers: State-of-the-Art Natural Language Processing (2020),
        https://arxiv.org/abs/1910.03771

    Args:
        config: a configuration object, the contents of a ``config.json``, or the dictionary alone:
            ``rope_parameters``, or the older ``rope_scaling`` with ``rope_theta`` put into it.
        head_dim: channels of a head, in place of the configuration's; the dictionary alone has
            none.
        layer_type: which layers, such as ``"full_attention"``, where they differ.

    Returns:
        Settings, for ``Rotary(s.head_dim, frequencies=[s.frequencies()])``

    Raises:
        ValueError: something is missing, unknown or no number, or ``layer_type`` is not one of the
            dictionary's.

    Example:
        >>> rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
        >>> from_hf(rope, head_dim=64).scaling
        Linear(factor=4.0)
    """
    if not isinstance(config, Mapping) or any(key in config for key in _OF_MODELS):
        return _from_model(config, head_dim, layer_type)
    rope = _of_layers(config, layer_type)
    return _settings(rope, {}, head_dim)


def _from_model(config: object, head_dim: int | None, layer_type: str | None) -> RotarySettings:
    if layer_type is not None and getattr(config, "is_heterogeneous", False):
        config = config.per_layer_config[layer_type]  # type: ignore[attr-defined]
    rope = _get(config, "rope_parameters") or _get(config, "rope_scaling")
    text = _get(config, "text_config")
    if rope is None and text is not None:
        return _from_model(text, head_dim, layer_type)
    rope = dict(rope or {})
    local = _get(config, "rope_local_base_freq")
    if local is not None and not any(isinstance(value, Mapping) for value in rope.values()):
        own = {"rope_theta": _get(config, "rope_theta"), **rope}
        rope = {"full_attention": own, "sliding_attention": {"rope_theta": local}}
    nested = any(isinstance(value, Mapping) for value in rope.values())
    known = {name: _get(config, name) for name in _AROUND}
    if nested:
        # Layers that have a base of their own do not contradict the one of the model.
        known["default_theta"] = known["rope_theta"] or known["default_theta"]
        known["rope_theta"] = None
        known["head_dim"] = _head_dim_of_layers(config, layer_type)
    if nested or layer_type is not None:
        rope = _of_layers(rope, layer_type)
    return _settings(rope, known, head_dim)


_AROUND = (
    "rope_theta",
    "default_theta",
    "partial_rotary_factor",
    "rotary_pct",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "head_dim",
    "attention_head_dim",
    "kv_channels",
    "qk_rope_head_dim",
    "hidden_size",
    "num_attention_heads",
)


def _get(config: object, name: str) -> Any:
    if isinstance(config, Mapping):
        return config.get(name)
    return getattr(config, name, None)


def _head_dim_of_layers(config: object, layer_type: str | None) -> Any:
    """The width of a head where layers of one type may have a width of their own, as in Gemma 4."""
    if layer_type == "full_attention" and _get(config, "global_head_dim") is not None:
        return _get(config, "global_head_dim")
    types, own = _get(config, "layer_types"), _get(config, "per_layer_config")
    if isinstance(own, Mapping) and types and layer_type in types:
        # As JSON, the numbers of layers are text, with zeros in front: "05".
        layers = {int(number): layer for number, layer in own.items()}
        layer = layers.get(list(types).index(layer_type), {})
        return layer.get("head_dim", _get(config, "head_dim"))
    return _get(config, "head_dim")


def _of_layers(rope: Mapping[str, Any], layer_type: str | None) -> Mapping[str, Any]:
    nested = {name: value for name, value in rope.items() if isinstance(value, Mapping)}
    if not nested and layer_type is None:
        return rope
    if layer_type not in nested:
        raise ValueError(
            f"layer_type must be one of the layers that have a rotary encoding, {list(nested)}, "
            f"got layer_type={layer_type!r}"
        )
    return nested[layer_type]


def _settings(
    rope: Mapping[str, Any], around: Mapping[str, Any], head_dim: int | None
) -> RotarySettings:
    rope = numbers_in({key: value for key, value in rope.items() if value is not None})
    around = {key: value for key, value in around.items() if value is not None}
    theta = _agreed("rope_theta", rope.get("rope_theta"), around.get("rope_theta"))
    if theta is None:
        theta = around.get("default_theta")
    if theta is None:
        raise ValueError(f"rope_theta must be given: put it into the dictionary, got {rope}")
    check_number(above=True, rope_theta=theta)
    share = _agreed(
        "partial_rotary_factor",
        rope.get("partial_rotary_factor"),
        around.get("partial_rotary_factor", around.get("rotary_pct")),
    )
    share = 1.0 if share is None else share
    check_number(partial_rotary_factor=share)
    scaling, others = scaling_of(rope, around, share)
    channels = _head_dim(head_dim, around)
    if rope.get("rope_type", rope.get("type")) == "proportional":
        turning = channels
    elif "qk_rope_head_dim" in around and head_dim is None:
        # The rotary part of DeepSeek's heads is a tensor of its own, which turns as a whole.
        channels = turning = around["qk_rope_head_dim"]
    else:
        turning = int(channels * share)
    return RotarySettings(channels, turning, float(theta), scaling, others)


def _head_dim(given: int | None, around: Mapping[str, Any]) -> int:
    if given is not None:
        return given
    for name in ("head_dim", "attention_head_dim", "kv_channels"):
        if name in around:
            return int(around[name])
    if "hidden_size" in around and "num_attention_heads" in around:
        return int(around["hidden_size"] // around["num_attention_heads"])
    raise ValueError(
        "head_dim must be given: neither the dictionary nor a configuration around it says it"
    )


def _agreed(name: str, first: Value | None, second: Value | None) -> Value | None:
    """Take the first of two sources, and say so if the second differs."""
    if first is not None and second is not None and first != second:
        warnings.warn(
            f"{name} is {first} in the dictionary and {second} in the configuration around it: "
            f"taking {first}",
            UserWarning,
            stacklevel=5,
        )
    return second if first is None else first
