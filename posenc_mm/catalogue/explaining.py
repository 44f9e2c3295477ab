"""One encoding, explained: formula, conventions, traps, papers, and the code that makes it."""

import inspect
import textwrap
from collections.abc import Iterable

from posenc_mm.catalogue.docstrings import MATH
from posenc_mm.catalogue.example import Example
from posenc_mm.catalogue.finding import Entry, find
from posenc_mm.catalogue.formulas import pieces
from posenc_mm.catalogue.listing import WIDTH, axes_in_words
from posenc_mm.rotary import Rotary

_ACTS = {
    "tokens": "the tokens: is added to them",
    "neighbours": "the tokens: is added to them, made from the tokens around",
    "rotation": "queries and keys: turns them",
    "logits": "the attention logits: is added to them",
    "weights": "the attention weights, after the softmax: is added to them",
    "contents": "the attention logits: is added to them, by what query or key hold",
}
_BEYOND = {
    "yes": "reads positions far outside of any size like all others",
    "alike": "counts all far distances as one",
    "rescaled": "refuses positions outside of its size; rescaled ones are read between its entries",
    "no": "refuses positions outside of what it was made for",
    "parts": "up to its parts",
}
# The smallest model of each application, over which one line of YAML goes.
BASES = {
    "vision": ("configs/vision/digits.yaml",),
    "text": ("configs/text/stdlib.yaml",),
    "timeseries": (
        "configs/timeseries/seattle.yaml",
        "configs/timeseries/networks/patches.yaml",
    ),
}


def explain(entry: Entry, *, latex: bool = False) -> str:
    """Explain one entry.

    Args:
        entry: to explain.
        latex: whether formulas are in LaTeX; else as plain text.

    Returns:
        Lines of at most 100 characters, but for formulas in LaTeX.
    """
    doc = entry.doc
    parts = [_wrapped(f"{entry.name}: {doc.summary}", 0), _facts(entry)]
    parts += [_formula(p, latex) if p.startswith(MATH) else _wrapped(p, 0) for p in doc.body]
    if doc.arguments:
        parts.append(f"Arguments\n{_arguments(entry)}")
    if doc.traps:
        parts.append(f"Traps\n{_wrapped(doc.traps[0].upper() + doc.traps[1:])}")
    parts.append("Papers\n" + "\n".join(_wrapped(source.text) for source in doc.references))
    used = usage(entry)
    parts.append(f"Python\n{_lines([*used.imports(), used.python()])}")
    parts.append(_yaml(entry, used))
    # What is added by the tokens around, no picture can show without them.
    shown = [] if entry.acts_on == "neighbours" else [f"python -m posenc_mm plot {_called(entry)}"]
    parts.append(f"Next\n{_lines([*shown, 'python -m posenc_mm choose'])}")
    return "\n\n".join(parts)


def usage(entry: Entry) -> Example:
    """Say how an entry is used: as it is, or a scaling on a rotary encoding.

    Args:
        entry: any.

    Returns:
        An example that a slot takes, if there is a slot for it.
    """
    if entry.group != "scaling":
        return entry.example
    several = entry.name == "PerAxis"
    chosen = {"axes": 2, "scaling": entry.example} if several else {"scaling": entry.example}
    return Example(Rotary, {"head_dim": 16}, chosen, "vision" if several else "text")


def _called(entry: Entry) -> str:
    return entry.name if len(find(entry.name)) == 1 else entry.full_name


def _facts(entry: Entry) -> str:
    rows = []
    if entry.traits is not None:
        traits = entry.traits
        rows += [
            ("acts on", _ACTS[entry.acts_on]),
            ("slot", entry.slot),
            ("axes", axes_in_words(traits.axes)),
            ("learned", "up to its parts" if traits.learned == "parts" else traits.learned),
            ("positions", "relative" if traits.relative else "absolute"),
            ("beyond", _BEYOND[traits.beyond]),
        ]
    if entry.group == "design":
        rows.append(("axes", str(entry.made.axes)))
    if entry.group == "preset":
        rows.append(("is a", type(entry.encoding).__name__))
    if entry.group == "scaling":
        right = "stay right" if entry.made.static else "are wrong"
        rows.append(("cache", f"keys that were rotated before {right} as the sequence grows"))
    if entry.aliases:
        rows.append(("also", ", ".join(entry.aliases)))
    rows.append(("file", entry.file))
    return "\n".join(f"    {name:10}{value}" for name, value in rows)


def _formula(paragraph: str, latex: bool) -> str:
    source = paragraph.removeprefix(MATH)
    if latex:
        return f"    {source}"
    lines: list[str] = []
    for piece in pieces(source):
        joined = f"{lines[-1]}   {piece}" if lines else piece
        if lines and len(joined) <= WIDTH - 4:
            lines[-1] = joined
        else:
            lines.append(piece)
    return "\n".join(_wrapped(line) for line in lines)


def _arguments(entry: Entry) -> str:
    parameters = inspect.signature(entry.target).parameters
    rows = []
    for name, meaning in entry.doc.arguments:
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        shown = "" if default is inspect.Parameter.empty else f" = {default!r}"
        rows.append(_wrapped(f"{name}{shown}: {meaning}", 4, 8))
    return "\n".join(rows)


def _yaml(entry: Entry, used: Example) -> str:
    if not used.application:
        return "YAML\n    In Python only: no application takes it."
    slot = "rotary" if entry.group == "scaling" else entry.slot
    words = [f"-c {base}" for base in BASES[used.application]]
    command = _wrapped(" ".join([f"python -m {used.application} fit", *words, "-c FILE"]), 4, 8)
    return (
        f"YAML\n{_lines([used.yaml(slot)])}\n\n    In a clone, with that in FILE; widths, and what "
        "the data say, are filled in:\n" + command.replace("\n", " \\\n")
    )


def _lines(lines: Iterable[str]) -> str:
    """Code: a line may go on in the next one after a comma, in Python and in YAML."""
    kept = "\ue000"
    whole = (line.replace(" ", kept).replace(f",{kept}", ", ") for line in lines)
    return "\n".join(_wrapped(line, 4, 8) for line in whole).replace(kept, " ")


def _wrapped(text: str, indent: int = 4, later: int | None = None) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if later is None else later),
        break_long_words=False,
        break_on_hyphens=False,
    )
