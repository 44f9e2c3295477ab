"""An encoding described once, and written as Python and as YAML."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Columns of a line of Python, less what stands around a call.
LINE = 80


@dataclass(frozen=True)
class Part:
    """A class of the library with its arguments.

    Attributes:
        name: of the class, as below ``posenc_mm``: ``"Rotary"``, ``"scaling.YaRN"``.
        widths: arguments that follow from the model and the data, which applications fill in.
        arguments: the others; a value may be a part, or a list of parts.
    """

    name: str
    widths: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def python(self, indent: int = 0) -> str:
        """Write the call that makes it, on several lines where one would be too long.

        Args:
            indent: spaces before it.
        """
        name = self.name.rpartition(".")[2]
        given = {**self.widths, **self.arguments}
        whole = f"{name}({', '.join(f'{key}={_python(v, 0)}' for key, v in given.items())})"
        if indent + len(whole) <= LINE:
            return whole
        pad = " " * (indent + 4)
        lines = [f"{pad}{key}={_python(v, indent + 4)}," for key, v in given.items()]
        return "\n".join([f"{name}(", *lines, f"{' ' * indent})"])

    def imports(self) -> Iterator[tuple[str, str]]:
        """Give modules, and the names that it needs of them."""
        module, _, name = self.name.rpartition(".")
        yield (f"posenc_mm.{module}" if module else "posenc_mm"), name
        for value in self.arguments.values():
            for each in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(each, Part):
                    yield from each.imports()

    def yaml(self, indent: int, filled: bool) -> str:
        """Write it as LightningCLI reads it.

        Args:
            indent: spaces before each line.
            filled: whether an application fills in the widths.
        """
        shown = dict(self.arguments) if filled else {**self.widths, **self.arguments}
        pad = " " * indent
        lines = [f"{pad}class_path: posenc_mm.{self.name}"]
        if shown:
            lines.append(f"{pad}init_args:")
        for name, value in shown.items():
            lines += _yaml(name, value, indent + 2, filled)
        return "\n".join(lines)


def _python(value: Any, indent: int) -> str:
    if isinstance(value, Part):
        return value.python(indent)
    if isinstance(value, list):
        whole = f"[{', '.join(_python(each, 0) for each in value)}]"
        if not indent or indent + len(whole) <= LINE:
            return whole
        pad = " " * (indent + 4)
        lines = [f"{pad}{_python(each, indent + 4)}," for each in value]
        return "\n".join(["[", *lines, f"{' ' * indent}]"])
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _yaml(name: str, value: Any, indent: int, filled: bool) -> list[str]:
    pad = " " * indent
    # Whose clocks the data go by, an application knows.
    value = "auto" if filled and name == "zone" else value
    if isinstance(value, Part):
        return [f"{pad}{name}:", value.yaml(indent + 2, filled)]
    if isinstance(value, list) and any(isinstance(each, Part) for each in value):
        lines = [f"{pad}{name}:"]
        for each in value:
            item = each.yaml(indent + 4, filled)
            lines.append(f"{pad}  - {item.lstrip()}")
        return lines
    return [f"{pad}{name}: {_flow(value)}"]


def _flow(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_flow(each) for each in value)}]"
    return str(value)


def as_yaml(parts: Mapping[str, Part], filled: bool, first: Mapping[str, Any]) -> str:
    """Write slots as a config of an application, below ``model``.

    Args:
        parts: by slot.
        filled: whether the application fills in the widths.
        first: other settings of the model.
    """
    lines = ["model:", *(line for name, v in first.items() for line in _yaml(name, v, 2, filled))]
    for slot, part in parts.items():
        lines += [f"  {slot}:", part.yaml(4, filled)]
    return "\n".join(lines) + "\n"
