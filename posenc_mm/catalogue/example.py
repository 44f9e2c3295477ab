"""One call, written three ways from the same arguments: made, as Python, and as YAML."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# What YAML reads as text without quotation marks.
_WORD = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z][\w./-]*", re.I)


@dataclass(frozen=True)
class Example:
    """A call of a class or function, with arguments that go together.

    Attributes:
        target: what is called.
        filled: arguments that an application fills in from its network and its data.
        chosen: the other arguments; values may be examples, too, alone or in a list.
        application: one that can train it; empty if none can.
        settings: further settings of that application's model.
        origin: a position at which it has something to say.
    """

    target: Callable[..., Any]
    filled: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    application: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments in their order, as the application gives them in the end."""
        given = {**self.filled, **self.chosen}
        order = [*inspect.signature(self.target).parameters]
        return {name: given[name] for name in sorted(given, key=order.index)}

    @property
    def parts(self) -> tuple["Example", ...]:
        """The examples among the arguments."""
        found = []
        for value in self.arguments.values():
            several = value if isinstance(value, list | tuple) else [value]
            found += [each for each in several if isinstance(each, Example)]
        return tuple(found)

    def make(self, **others: Any) -> Any:
        """Make the call.

        Args:
            others: arguments in place of the example's.

        Returns:
            What the target returns.

        Raises:
            ValueError: the target refuses the arguments.
        """
        given = {**self.arguments, **others}
        return self.target(**{name: _made(value) for name, value in given.items()})

    def python(self) -> str:
        """Write the call as an expression of Python."""
        return _python(self)

    def imports(self) -> tuple[str, ...]:
        """Write the lines that the expression needs in front."""
        names: dict[str, set[str]] = {}
        for each in _walk(self):
            names.setdefault(home(each.target), set()).add(each.target.__name__)
        return tuple(
            f"from {where} import {', '.join(sorted(names[where]))}" for where in sorted(names)
        )

    def yaml(self, slot: str) -> str:
        """Write the call as YAML for its application, less what is filled in.

        Args:
            slot: additive, rotary or bias.

        Returns:
            One line in flow style.

        Raises:
            ValueError: no application can train it.
        """
        if not self.application:
            raise ValueError(
                f"application must be one that trains {self.target.__name__}: none does"
            )
        return _yaml({"model": {**self.settings, slot: self}})


def home(target: Callable[..., Any]) -> str:
    """Say where a public name is imported from.

    Args:
        target: a class or function of the library.

    Returns:
        ``posenc_mm`` if it is there, else the part that has it.
    """
    part = target.__module__.split(".")[1]
    return "posenc_mm" if part in ("additive", "rotary", "bias") else f"posenc_mm.{part}"


def _walk(example: Example) -> Iterator[Example]:
    yield example
    for part in example.parts:
        yield from _walk(part)


def _made(value: Any) -> Any:
    if isinstance(value, Example):
        return value.make()
    if isinstance(value, list | tuple):
        return type(value)(_made(each) for each in value)
    return value


def _python(value: Any) -> str:
    if isinstance(value, Example):
        given = ", ".join(f"{name}={_python(each)}" for name, each in value.arguments.items())
        return f"{value.target.__name__}({given})"
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    return repr(value)


def _yaml(value: Any) -> str:
    if isinstance(value, Example):
        described: dict[str, Any] = {"class_path": f"{home(value.target)}.{value.target.__name__}"}
        if value.chosen:
            described["init_args"] = dict(value.chosen)
        return _yaml(described)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_yaml(key)}: {_yaml(each)}' for key, each in value.items())}}}"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) else json.dumps(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_yaml, value))}]"
    return json.dumps(value)
