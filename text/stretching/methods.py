"""The published ways to read further than a model was trained, by name."""

from collections.abc import Callable

from posenc_mm.scaling import (
    NTK,
    DynamicNTK,
    Linear,
    Llama3,
    NTKByParts,
    Resonance,
    RotarySettings,
    Unscaled,
    YaRN,
)
from text.stretching.reading import Reading

# How many times the trained length and the factor of DynamicNTK: Hugging Face's usual one.
DYNAMIC = 2.0
SEARCH = "search"
# What each makes of the factor and the trained length.
METHODS: dict[str, Callable[[float, int], Reading]] = {
    "none": lambda s, n: Reading(),
    "linear": lambda s, n: Reading(Linear(s)),
    "ntk": lambda s, n: Reading(NTK(s)),
    "dynamic": lambda s, n: Reading(DynamicNTK(DYNAMIC, n)),
    "by_parts": lambda s, n: Reading(NTKByParts(s, n)),
    "yarn": lambda s, n: Reading(YaRN(s, n)),
    "llama3": lambda s, n: Reading(Llama3(s, n)),
    "resonance": lambda s, n: Reading(Resonance(YaRN(s, n))),
    "logn": lambda s, n: Reading(log_length=n),
    "ntk_logn": lambda s, n: Reading(NTK(s), log_length=n),
    "rerope": lambda s, n: Reading(near=n // 2),
    "leaky_rerope": lambda s, n: Reading(near=n // 2, group=max(1.0, 2 * s - 1)),
    "window": lambda s, n: Reading(window=n),
}
DEFAULT = ["none", "linear", "ntk", "yarn", "window"]
WHAT = {
    "none": "as it was trained",
    "linear": "positional interpolation",
    "ntk": "larger base",
    "dynamic": f"larger base by the length of the text, factor {DYNAMIC:g}",
    "by_parts": "NTK by parts",
    "yarn": "YaRN with its amplitude",
    "llama3": "Llama 3's bands",
    "resonance": "YaRN at whole wavelengths",
    "logn": "attention sharpened by the logarithm of the position",
    "ntk_logn": "ntk and logn",
    "rerope": "distances beyond half the trained length held there",
    "leaky_rerope": "distances beyond half the trained length compressed to fit within it",
    "window": "sees only as many tokens back as it was trained on",
    SEARCH: "factors of each pair searched on the text's own search part",
}


def reading_of(name: str, factor: float, length: int, settings: RotarySettings) -> Reading:
    """Make the way of a method.

    Args:
        name: of the method, not ``search``.
        factor: how many times the trained length; at 1 nothing changes.
        length: that the model was trained on.
        settings: of the model; one that is scaled already is scaled no further.

    Returns:
        The way.

    Raises:
        ValueError: the name is unknown, or the model is scaled already and the method would do so.
    """
    if name not in METHODS:
        raise ValueError(f"method must be one of {[*METHODS, SEARCH]}, got {name!r}")
    reading = METHODS[name](float(factor), length)
    if isinstance(reading.scaling, Unscaled):
        return Reading(
            settings.scaling, reading.window, reading.near, reading.group, reading.log_length
        )
    if not isinstance(settings.scaling, Unscaled):
        raise ValueError(
            f"{name} starts from a plain ladder, but the model is scaled by {settings.scaling}: "
            f"use none, logn, rerope, leaky_rerope or window"
        )
    return Reading(settings.scaling) if factor == 1 else reading
