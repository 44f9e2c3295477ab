"""What is typed on a command line, as Python values: literals, and calls of the library's names."""

import ast
import functools
from collections.abc import Sequence
from typing import Any

from posenc_mm import additive, bias, frequencies, positions, presets, rotary, scaling, streams

# Where a name is looked for, first to last: streams and presets share some.
_PARTS = (additive, rotary, bias, scaling, frequencies, positions, streams, presets)


def value(words: Sequence[str]) -> Any:
    """Read the words behind one option.

    Args:
        words: none (true), one literal or call, ``key=value`` pairs, or several of either.

    Returns:
        What they say; a bare word is text, several are a list, pairs a dictionary.

    Raises:
        ValueError: a call of a name that the library does not have, or that it refuses.

    Example:
        >>> value(["14", "14"]), value(["half"]), value(["day=2", "year=1"])
        ([14, 14], 'half', {'day': 2, 'year': 1})
        >>> value(["YaRN(4.0, original_length=4096)"]).factor
        4.0
    """
    if not words:
        return True
    if all("=" in word and "(" not in word for word in words):
        pairs = (word.split("=", 1) for word in words)
        return {key: expression(text) for key, text in pairs}
    several = [expression(word) for word in words]
    return several[0] if len(several) == 1 else several


def expression(text: str) -> Any:
    """Read one literal, or one call such as ``Rotary(64, scaling=YaRN(4.0, 4096))``.

    Args:
        text: as in Python. Names are looked up as what is called, and within a call.

    Returns:
        What it says; the text itself where it is neither.

    Raises:
        ValueError: a call of a name that the library does not have, or that it refuses.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return text
    if isinstance(tree, (ast.Name, ast.Attribute, ast.BinOp, ast.Compare)):
        return text  # a word, a path, a date
    return _read(tree, text)


def _read(tree: ast.expr, text: str) -> Any:
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, (ast.List, ast.Tuple)):
        made = [_read(each, text) for each in tree.elts]
        return made if isinstance(tree, ast.List) else tuple(made)
    if isinstance(tree, ast.Dict) and all(tree.keys):
        keys = [_read(key, text) for key in tree.keys if key is not None]
        return dict(zip(keys, (_read(each, text) for each in tree.values), strict=True))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.UAdd)):
        number = _read(tree.operand, text)
        if isinstance(number, (int, float)):
            return -number if isinstance(tree.op, ast.USub) else number
    if isinstance(tree, ast.Name):
        return _named(tree.id, text)
    if isinstance(tree, ast.Call):
        called = _read(tree.func, text)
        given = [_read(each, text) for each in tree.args]
        named = {each.arg: _read(each.value, text) for each in tree.keywords if each.arg}
        try:
            return called(*given, **named)
        except TypeError as wrong:
            raise ValueError(f"{text!r} does not fit: {wrong}") from None
    raise ValueError(
        f"values must be literals, or calls of names of posenc_mm with such arguments, got {text!r}"
    )


def _named(name: str, text: str) -> Any:
    if name == "partial":
        return functools.partial
    for part in _PARTS:
        if name in part.__all__:
            return getattr(part, name)
    raise ValueError(f"{name!r} in {text!r} must be a public name of posenc_mm: it has none such")
