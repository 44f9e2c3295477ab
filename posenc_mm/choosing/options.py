"""The encodings that may be advised: how each is made, where it reads positions, what it cannot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from posenc_mm.choosing.describing import Part
from posenc_mm.choosing.situation import Situation

HEADS, HEAD_DIM = 4, 24
DIM = HEADS * HEAD_DIM
# Tokens of the snippets: a sequence, a grid, frames of a grid.
SIZES = {"text": (12,), "series": (12,), "images": (3, 4), "video": (3, 2, 4), "stream": (12,)}
# How many times larger they get where they get larger.
GROWTH = 2
BIASES_OF_POWERS = ("ALiBi", "LearnedALiBi")


@dataclass(frozen=True)
class Option:
    """An encoding, or two in different slots, that may be advised.

    Attributes:
        name: its name in the applications, and so in what was measured.
        title: what it is, in words.
        parts: makes the slots of a situation.
        reads: what its positions are: ``"rows"``, ``"seconds"``, ``"grid"``, ``"frames"``,
            ``"table"`` (a grid that is read between entries where it gets larger), ``"layout"``,
            ``"mrope"``, ``"order"``.
        facts: why it is good, whatever is measured.
        host: further arguments of the model.
        config: other settings in YAML.
        explain: the class to ask the catalogue about.
    """

    name: str
    title: str
    parts: Callable[[Situation], Mapping[str, Part]]
    reads: str
    facts: tuple[str, ...]
    host: Mapping[str, Any]
    config: Mapping[str, Any]
    explain: str

    def refusal(self, situation: Situation) -> str:
        """Say why a situation rules it out; empty if it does not."""
        parts = self.parts(situation)
        table, bias = parts.get("additive"), parts.get("bias")
        if table is not None and table.name == "Learned" and situation.length == "growing":
            return "a table ends with the length trained at"
        if "window" in self.host and situation.kernel == "flash":
            return "a window is a mask, and the fused kernel of torch takes none"
        if bias is None or situation.kernel == "any":
            return ""
        flat = situation.modality in ("text", "series")
        straight = bias.arguments.get("distance", "l1") == "l1"
        if situation.kernel == "flex":
            if flat or (bias.name in BIASES_OF_POWERS and straight):
                return ""
            return f"{bias.name} has no score_mod on several axes"
        if bias.name not in BIASES_OF_POWERS:
            return f"{bias.name} needs a tensor of all pairs, or FlexAttention"
        if not situation.causal:
            return f"{bias.name} runs in a fused kernel only where tokens see the past alone"
        return "" if straight else f"{bias.name} of straight distances is no product of few numbers"


def option(
    name: str,
    title: str,
    parts: Callable[[Situation], Mapping[str, Part]],
    reads: str,
    *facts: str,
    explain: str = "",
    host: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Option:
    """Make an option.

    Args:
        name: its name.
        title: what it is.
        parts: makes its slots.
        reads: what its positions are.
        facts: why it is good.
        explain: the class to ask the catalogue about.
        host: further arguments of the model.
        config: other settings in YAML.
    """
    return Option(name, title, parts, reads, facts, host or {}, config or {}, explain)


def axes_of(situation: Situation) -> int:
    """Count the axes of positions."""
    return {"images": 2, "video": 3, "stream": 3}.get(situation.modality, 1)


def turned(name: str = "Rotary", **arguments: Any) -> Callable[[Situation], dict[str, Part]]:
    """Make what fills the slot of rotations, on as many axes as the situation has."""

    def parts(situation: Situation) -> dict[str, Part]:
        axes = {} if axes_of(situation) == 1 else {"axes": axes_of(situation)}
        widths = {"head_dim": HEAD_DIM, **({"heads": HEADS} if name == "MixedRotary" else {})}
        return {"rotary": Part(name, widths, {**axes, **arguments})}

    return parts


def added(name: str, **arguments: Any) -> Callable[[Situation], dict[str, Part]]:
    """Make what is added to the tokens."""

    def parts(situation: Situation) -> dict[str, Part]:
        widths: dict[str, Any] = {"dim": DIM}
        given = dict(arguments)
        if name == "Learned":
            sizes = SIZES[situation.modality]
            widths["sizes"] = sizes if len(sizes) > 1 else sizes[0]
        elif axes_of(situation) > 1:
            given = {"axes": axes_of(situation), **given}
        return {"additive": Part(name, widths, given)}

    return parts


def biased(name: str, **arguments: Any) -> Callable[[Situation], dict[str, Part]]:
    """Make what is added to the logits."""

    def parts(situation: Situation) -> dict[str, Part]:
        widths: dict[str, Any] = {"heads": HEADS}
        given = dict(arguments)
        if name == "RelativeBias":
            sizes = SIZES[situation.modality]
            widths["sizes"] = sizes if len(sizes) > 1 else sizes[0]
        if name == "T5Bias" and situation.causal:
            given["bidirectional"] = False
        return {"bias": Part(name, widths, given)}

    return parts


def both(
    *made: Callable[[Situation], Mapping[str, Part]],
) -> Callable[[Situation], dict[str, Part]]:
    """Fill several slots."""

    def parts(situation: Situation) -> dict[str, Part]:
        return {slot: part for each in made for slot, part in each(situation).items()}

    return parts
