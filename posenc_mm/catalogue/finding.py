"""Everything the library offers by name, found by walking its public names."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import nn

from posenc_mm import additive, bias, presets, rotary, scaling, streams
from posenc_mm.catalogue.docstrings import Docstring, read
from posenc_mm.catalogue.example import Example, home
from posenc_mm.catalogue.examples import EXAMPLES
from posenc_mm.catalogue.measuring import Traits, measure
from posenc_mm.placed import Placed

# What each kind of encoding acts on, and the slot that takes it.
KINDS: dict[type[nn.Module], tuple[str, str]] = {
    additive.AdditiveEncoding: ("tokens", "additive"),
    additive.ConditionalEncoding: ("neighbours", "additive"),
    rotary.RotaryEncoding: ("rotation", "rotary"),
    bias.AttentionBias: ("logits", "bias"),
    bias.ContextualBias: ("contents", "bias"),
}
GROUPS = ("additive", "rotary", "bias", "scaling", "preset", "design")
# A preset's widths: what most published models have, and those that have others.
_WIDTHS = {"dim": 128, "head_dim": 128, "heads": 8}
_OTHERS = {"qwen3_5_text": {"head_dim": 256}}


@dataclass(frozen=True)
class Entry:
    """One thing that the library offers by name.

    Attributes:
        name: to call it by.
        group: one of ``GROUPS``; for an encoding, the slot that takes it.
        target: the class, or the function.
        example: a call of it that works.
        aliases: other names of the same.
    """

    name: str
    group: str
    target: Callable[..., Any]
    example: Example
    aliases: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with the part of the library that has it, where others have it too."""
        return f"{home(self.target).removeprefix('posenc_mm.')}.{self.name}"

    @property
    def file(self) -> str:
        """Where it is written, from the root of the repository."""
        return f"{self.target.__module__.replace('.', '/')}.py"

    @cached_property
    def doc(self) -> Docstring:
        """What its docstring says."""
        return read(self.target)

    @cached_property
    def made(self) -> Any:
        """What the example makes."""
        with torch.random.fork_rng(devices=[]):
            return self.example.make()

    @property
    def encoding(self) -> nn.Module | None:
        """The encoding that the example makes, if it makes one."""
        return _encoding_in(self.made)

    @property
    def acts_on(self) -> str:
        """What an encoding acts on, in a word; empty for what is none."""
        if getattr(self.encoding, "after_softmax", False):
            return "weights"
        return next((on for kind, (on, _) in KINDS.items() if isinstance(self.encoding, kind)), "")

    @property
    def slot(self) -> str:
        """The slot that takes an encoding; empty for what is none."""
        kinds = KINDS.items()
        return next((slot for kind, (_, slot) in kinds if isinstance(self.encoding, kind)), "")

    @cached_property
    def traits(self) -> Traits | None:
        """What an encoding is like, measured; None for what is none."""
        with torch.random.fork_rng(devices=[]):
            # One of its own, since measuring changes what is learned.
            encoding = _encoding_in(self.example.make())
            if encoding is None:
                return None
            return measure(self.example, encoding, by_class=self.group != "preset")

    @property
    def years(self) -> tuple[int, ...]:
        """The years of its sources, in their order."""
        return tuple(dict.fromkeys(y for source in self.doc.references for y in source.years))


def entries() -> tuple[Entry, ...]:
    """List everything, group by group.

    Returns:
        Encodings by what they act on, then scalings, presets and position designs, by name.

    Example:
        >>> [entry.name for entry in entries() if entry.acts_on == "neighbours"]
        ['Conditional']
    """
    found = [*_encodings(), *_scalings(), *_functions(presets, "preset", Placed)]
    found += _functions(streams, "design", streams.Layout)
    return tuple(sorted(found, key=lambda each: (GROUPS.index(each.group), each.name.casefold())))


def find(name: str) -> tuple[Entry, ...]:
    """Find what has a name, in upper or lower case.

    Args:
        name: such as ``"alibi"``; where two things share one, ``"presets.flux2"`` is one of them.

    Returns:
        All that have it.

    Raises:
        ValueError: nothing has it; the message names what is near.

    Example:
        >>> [entry.full_name for entry in find("Flux2")]
        ['presets.flux2', 'streams.flux2']
    """
    wanted, every = name.casefold().removeprefix("posenc_mm."), entries()
    found = tuple(
        each
        for each in every
        if wanted in {n.casefold() for n in (each.name, each.full_name, *each.aliases)}
    )
    if found:
        return found
    raise ValueError(
        f"name must be one of those that python -m posenc_mm list shows, got {name!r}"
        f"{_near(wanted, every)}"
    )


def _encoding_in(made: Any) -> nn.Module | None:
    found = made.encoding if isinstance(made, Placed) else made
    return found if isinstance(found, nn.Module) else None


def _near(wanted: str, every: tuple[Entry, ...]) -> str:
    names = {name.casefold(): name for each in every for name in (each.name, *each.aliases)}
    within = [name for key, name in names.items() if wanted and wanted in key]
    close = [names[key] for key in difflib.get_close_matches(wanted, names, n=4)]
    about = [each.name for each in every if _speaks_of(each, wanted)]
    near = list(dict.fromkeys([*about[:4], *close, *within[:4]]))
    return f"; near it: {', '.join(near)}" if near else ""


def _speaks_of(entry: Entry, word: str) -> bool:
    said = " ".join((entry.doc.summary, *entry.doc.body)).casefold()
    return bool(word) and re.search(rf"\b{re.escape(word)}\b", said) is not None


def _public(part: ModuleType) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(part, name)) for name in part.__all__)


def _encodings() -> Iterator[Entry]:
    for part in (additive, rotary, bias):
        for name, found in _public(part):
            if not inspect.isclass(found) or inspect.isabstract(found):
                continue
            for kind, (_, slot) in KINDS.items():
                if issubclass(found, kind):
                    yield Entry(name, slot, found, _example_of(name))


def _scalings() -> Iterator[Entry]:
    for name, found in _public(scaling):
        kinds = (scaling.Scaling, scaling.PerAxis)
        if inspect.isclass(found) and issubclass(found, kinds) and not inspect.isabstract(found):
            yield Entry(name, "scaling", found, _example_of(name))


def _functions(part: ModuleType, group: str, result: type) -> Iterator[Entry]:
    names: dict[Any, list[str]] = {}
    for name, found in _public(part):
        if inspect.isfunction(found) and inspect.signature(found).return_annotation is result:
            names.setdefault(found, []).append(name)
    for found, called in names.items():
        own = found.__name__
        asked = inspect.signature(found).parameters.values()
        widths = {one.name: _WIDTHS[one.name] for one in asked if one.default is one.empty}
        example = Example(found, {}, {**widths, **_OTHERS.get(own, {})})
        yield Entry(own, group, found, example, tuple(sorted({*called} - {own})))


def _example_of(name: str) -> Example:
    if name not in EXAMPLES:
        raise ValueError(
            f"EXAMPLES must have arguments for every encoding and scaling: add some for {name} in "
            f"posenc_mm/catalogue/examples.py"
        )
    return EXAMPLES[name]
