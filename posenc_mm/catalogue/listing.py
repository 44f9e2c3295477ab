"""The catalogue as tables: to read, for README.md, and for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

from posenc_mm.catalogue.docstrings import Reference
from posenc_mm.catalogue.finding import Entry
from posenc_mm.placed import Placed

WIDTH = 100
_TITLES = {
    "tokens": "Added to the tokens (slot: additive)",
    "neighbours": "Added to the tokens, from the tokens around them (slot: additive)",
    "rotation": "Turn queries and keys (slot: rotary)",
    "logits": "Added to the attention logits (slot: bias)",
    "contents": "Added to the attention logits, by what query or key hold (slot: bias)",
    "weights": "Added to the attention weights, after the softmax (slot: bias)",
    "scaling": "Stretch a trained rotary encoding (posenc_mm.scaling)",
    "preset": "Published encodings by name (posenc_mm.presets)",
    "design": "Where tokens are in a stream, by published designs (posenc_mm.streams)",
}
_LEGEND = """\
axes: how many numbers a position may have ("even": two for each axis of a grid)
learned: whether training changes it; "parts" if its parts say so
positions: "relative" if nothing changes when all tokens move alike, measured; else "absolute"
beyond: far outside of its size it reads positions like any others ("yes"), counts all far distances
  as one ("alike"), refuses them ("no"), or refuses them, but reads another size between its entries
  ("rescaled"). That a position is read does not say how well: python -m posenc_mm choose has
  measurements"""
_STRETCH = """\
cache: whether keys that were rotated before stay right as the sequence grows
temperature: whether it changes how sharp attention is, too"""


def text(entries: Sequence[Entry]) -> str:
    """Write tables of entries to read.

    Args:
        entries: any, in the order of :func:`posenc_mm.catalogue.entries`.

    Returns:
        Lines of at most 100 characters, a table for each kind and a legend.
    """
    parts, legends = [], []
    for key, title in _TITLES.items():
        shown = [each for each in entries if key in (_kind(each), each.group)]
        if shown:
            rows = [_row(each) for each in shown]
            parts.append(f"{title}\n{_table([_head(shown[0]), *rows])}")
            legend = {"scaling": _STRETCH, "design": ""}.get(key, _LEGEND)
            legends += [legend] if legend and legend not in legends else []
    last = "python -m posenc_mm explain NAME says more about one of them."
    return "\n\n".join([*parts, *legends, last])


def markdown(entries: Iterable[Entry]) -> str:
    """Write the table of README.md.

    Args:
        entries: any; those that are no encodings of their own are left out.

    Returns:
        A row for each, with papers and years.
    """
    lines = ["| encoding | acts on | paper | year | file |", "|---|---|---|---|---|"]
    for each in entries:
        if _kind(each):
            papers = ", ".join(_cited(source) for source in each.doc.references)
            years = ", ".join(map(str, each.years))
            file = f"[`{each.file}`]({each.file})"
            lines.append(f"| `{each.name}` | {each.acts_on} | {papers} | {years} | {file} |")
    return "\n".join(lines)


def records(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Write entries for programs.

    Args:
        entries: any.

    Returns:
        A dictionary each, of what JSON can hold.
    """
    return [_record(each) for each in entries]


def axes_in_words(axes: Sequence[int]) -> str:
    """Write which of 1 to 4 axes are taken.

    Example:
        >>> [axes_in_words(each) for each in ((1, 2, 3, 4), (1, 2, 3), (2, 4), (1,))]
        ['any', '1 to 3', 'even', '1']
    """
    if len(axes) == 1:
        return str(axes[0])
    known = {(1, 2, 3, 4): "any", (2, 4): "even"}
    return known.get(tuple(axes), f"{axes[0]} to {axes[-1]}")


def _kind(entry: Entry) -> str:
    """What an encoding acts on; empty for what is none of its own."""
    return entry.acts_on if entry.group in ("additive", "rotary", "bias") else ""


def _head(entry: Entry) -> list[str]:
    if _kind(entry):
        return ["name", "axes", "learned", "positions", "beyond", "paper"]
    return {
        "scaling": ["name", "cache", "temperature", "paper"],
        "preset": ["name", "acts on", "axes", "learned", "positions", "is a", "paper"],
        "design": ["name", "axes", "paper"],
    }[entry.group]


def _row(entry: Entry) -> list[str]:
    source = entry.doc.references[0]
    others = [str(year) for year in entry.years if year != source.years[0]]
    paper = f"{source.short} {source.years[0]}"
    paper += f", others {', '.join(others)}" if others else ""
    traits = entry.traits
    if entry.group == "scaling":
        return [entry.name, _yes(entry.made.static), _yes(_heated(entry)), paper]
    if traits is None:
        return [", ".join([entry.name, *entry.aliases]), str(entry.made.axes), paper]
    where = "relative" if traits.relative else "absolute"
    middle = [axes_in_words(traits.axes), traits.learned, where]
    if entry.group == "preset":
        return [entry.name, entry.acts_on, *middle, type(entry.encoding).__name__, paper]
    return [entry.name, *middle, traits.beyond, paper]


def _record(entry: Entry) -> dict[str, Any]:
    traits = entry.traits
    record: dict[str, Any] = {
        "name": entry.name,
        "aliases": list(entry.aliases),
        "group": entry.group,
        "summary": entry.doc.summary,
        "years": list(entry.years),
        "papers": [{"text": each.text, "url": each.url} for each in entry.doc.references],
        "file": entry.file,
    }
    if traits is not None:
        record |= {
            "acts_on": entry.acts_on,
            "slot": entry.slot,
            "axes": list(traits.axes),
            "learned": traits.learned,
            "relative": traits.relative,
            "beyond": traits.beyond,
        }
    if isinstance(entry.made, Placed):
        record["is_a"] = type(entry.encoding).__name__
    if entry.group == "scaling":
        record |= {"cache": entry.made.static, "temperature": _heated(entry)}
    if entry.group == "design":
        record["axes"] = [entry.made.axes]
    return record


def _heated(entry: Entry) -> bool:
    """Whether a scaling changes the size of the logits of a long sequence."""
    scaling, width = entry.made, 16
    if hasattr(scaling, "amplitudes"):
        factors = set(scaling.amplitudes(2 * width, length=512))
    else:
        factors = {scaling.amplitude(512)}
    return factors != {1.0} or scaling.softmax_factor != 1.0


def _cited(source: Reference) -> str:
    link = f"[{source.short}]({source.url})" if source.url else source.short
    return f"{source.note}: {link}" if source.note else link


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(f"  {line}".rstrip() for line in lines)
