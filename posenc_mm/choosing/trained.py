"""The options of a model that is trained already: keep its encoding, and stretch or resize it."""

from collections.abc import Callable, Mapping
from typing import Any

import posenc_mm.scaling
from posenc_mm.choosing.describing import Part
from posenc_mm.choosing.options import Option, added, biased, option, turned
from posenc_mm.choosing.situation import Situation

FACTOR, LENGTH = 4.0, 4096
OWN = "none"
_KEPT = "Trained weights know one encoding: another one is learnt anew, so it is kept."
_STATIC = "Keys that were turned earlier stay right as the text grows: a cache may keep them."
_SLOWED = "No weight changes: the rotation turns more slowly, {}."


def _scaled(name: str, **arguments: Any) -> Callable[[Situation], Mapping[str, Part]]:
    return turned(scaling=Part(f"scaling.{name}", {}, {"factor": FACTOR, **arguments}))


def _scaling(name: str, title: str, made: str, slower: str, **arguments: Any) -> Option:
    # Only the class can tell whether its speeds depend on the length.
    static = getattr(posenc_mm.scaling, made)(factor=FACTOR, **arguments).static
    facts = [_SLOWED.format(slower), *([_STATIC] if static else [])]
    return option(name, title, _scaled(made, **arguments), "rows", *facts, explain=made)


SCALINGS = (
    _scaling(
        "yarn", "YaRN", "YaRN", "fast pairs least, and logits are sharpened", original_length=LENGTH
    ),
    _scaling("ntk", "NTK: a larger base", "NTK", "slow pairs most"),
    _scaling(
        "by_parts", "NTK by parts", "NTKByParts", "in three bands of pairs", original_length=LENGTH
    ),
    _scaling(
        "llama3", "Llama 3's bands", "Llama3", "in three bands of pairs", original_length=LENGTH
    ),
    _scaling("linear", "linear: positional interpolation", "Linear", "all pairs alike"),
    _scaling(
        "dynamic", "dynamic NTK", "DynamicNTK", "as far as the length at hand needs it",
        original_length=LENGTH,
    ),
)  # fmt: skip
WINDOW = option(
    "window", "its own rotation, read through a window of the trained length", turned(), "rows",
    "No distance is larger than in training. What lies further back is not seen.",
    host={"window": LENGTH}, explain="Rotary",
)  # fmt: skip
RIFLEX = option(
    "riflex", "RIFLEx along time",
    turned(
        scaling=Part("scaling.PerAxis", {}, {"scalings": [
            Part("scaling.RIFLEx", {}, {"pair": 1}), Part("scaling.Unscaled"),
            Part("scaling.Unscaled"),
        ]}),
        length=64,
    ),
    "frames", "Slows the one pair whose period would make a longer video repeat itself; "
    "posenc_mm.scaling.intrinsic_pair finds it.",
    "Rows and columns stay as they were trained.", explain="RIFLEx",
)  # fmt: skip
TIME_YARN = option(
    "yarn", "YaRN along time",
    turned(
        scaling=Part("scaling.PerAxis", {}, {"scalings": [
            Part("scaling.YaRN", {}, {"factor": FACTOR, "original_length": LENGTH}),
            Part("scaling.Unscaled"), Part("scaling.Unscaled"),
        ]}),
    ),
    "mrope", "Rows and columns stay as they were trained.", _STATIC, explain="YaRN",
)  # fmt: skip
RESCALED = option(
    "rescaled", "its own rotation, at positions rescaled to the trained grid", turned(base=100.0),
    "table", "No position lies outside of what was trained.", explain="Rotary",
)  # fmt: skip
PATCHES = option(
    "patches resized instead, as many as before",
    "its own table, with larger patches: the kernel is resized, the grid stays", added("Learned"),
    "kept", "As many tokens as before, so positions and cost stay.", explain="Learned",
)  # fmt: skip
BICUBIC, TABLE = (
    option(
        name, f"its own table, resized{how}", added("Learned"), "resized",
        "What was learnt is kept: it is read between its entries.", *facts, explain="Learned",
    )
    for name, how, *facts in (
        ("bicubic", " by bicubic weights"),
        ("resized", "", "Neighbours come closer than in training: train on, above all a decoder."),
    )
)  # fmt: skip
BIAS = option(
    "resized_bias", "its own bias table, resized", biased("RelativeBias"), "resized",
    "What was learnt is kept: it is read between its entries.", explain="RelativeBias",
)  # fmt: skip


def own(situation: Situation) -> Option:
    """Make the option of leaving the trained encoding as it is.

    Args:
        situation: with ``pretrained`` other than ``"no"``.
    """
    grid = {"images": "grid", "video": "frames", "stream": "mrope"}.get(situation.modality, "rows")
    if situation.pretrained == "rotary":
        return option(OWN, "its own rotation, untouched", turned(), grid, _KEPT, explain="Rotary")
    if situation.pretrained == "learned":
        # A table of a stream is one of tokens, whatever they are.
        return option(OWN, "its own table, untouched", added("Learned"), "kept", _KEPT,
                      explain="Learned")  # fmt: skip
    if situation.modality in ("text", "series"):
        return option(OWN, "its own bias, untouched", biased("ALiBi"), "rows", _KEPT,
                      "ALiBi's slopes go on beyond any length; T5's last bucket holds all that is "
                      "farther.", explain="ALiBi")  # fmt: skip
    return option(OWN, "its own bias, untouched", biased("RelativeBias"), "kept", _KEPT,
                  explain="RelativeBias")  # fmt: skip


def options(situation: Situation) -> tuple[Option, ...]:
    """List what can be done with trained weights.

    Args:
        situation: with ``pretrained`` other than ``"no"``.

    Returns:
        The options, the one that is published advice first.
    """
    kept = own(situation)
    if not situation.beyond:
        return (kept,)
    if situation.pretrained == "learned":
        return (BICUBIC, PATCHES) if situation.modality == "images" else (TABLE,)
    if situation.pretrained == "bias":
        return (kept,) if situation.modality in ("text", "series") else (BIAS,)
    if situation.modality in ("text", "series"):
        return (*SCALINGS, WINDOW, kept)
    if situation.length == "fixed":
        return (RESCALED, kept) if situation.modality == "images" else (kept,)
    return (RIFLEX, kept) if situation.modality == "video" else (TIME_YARN, kept)


def refusal(one: Option, situation: Situation) -> str:
    """Say why a cache rules out a scaling; empty if it does not."""
    scaled = one.parts(situation).get("rotary")
    part = scaled.arguments.get("scaling") if scaled is not None else None
    if situation.kv_cache and isinstance(part, Part) and _STATIC not in one.facts:
        if part.name != "scaling.PerAxis":
            return "its speeds change with the length, so that keys in a cache would be wrong"
    return ""
