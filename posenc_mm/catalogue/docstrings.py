"""What the docstrings of the library say, taken apart: formula, prose, traps, papers, arguments."""

import inspect
import re
from dataclasses import dataclass

from posenc_mm.catalogue.formulas import plain

# How a paragraph begins that is a formula.
MATH = ".. math:: "
_SECTION = re.compile(
    r"^(Args|Attributes|Shape|Returns|Raises|References|Example):\n((?:(?: .*)?\n)*)", re.M
)
_ROLE = re.compile(r":(\w+):`([^`]*)`")
_YEAR = re.compile(r"\((\d{4})\)")
_URL = re.compile(r"https?://\S+[^\s,.;]")


@dataclass(frozen=True)
class Reference:
    """One paper, or another source.

    Attributes:
        text: as it stands in the docstring, on one line.
        note: what it is about, where a docstring has several; else empty.
        authors: as they stand there.
        years: that of the source, then those of others that it is told by.
        url: where to read it; empty if nowhere.
    """

    text: str
    note: str
    authors: str
    years: tuple[int, ...]
    url: str

    @property
    def short(self) -> str:
        """The authors, three or more by the first of them."""
        names = self.authors.split(", ")
        return self.authors if len(names) < 3 else f"{names[0]} et al."


@dataclass(frozen=True)
class Docstring:
    """A docstring, taken apart.

    Attributes:
        summary: its first sentence.
        body: the paragraphs between summary and sections in their order, without traps; those that
            are formulas begin with ``.. math::`` and go on in LaTeX.
        traps: what goes wrong with it, or empty.
        references: sources, in order.
        arguments: names and meanings.
    """

    summary: str
    body: tuple[str, ...]
    traps: str
    references: tuple[Reference, ...]
    arguments: tuple[tuple[str, str], ...]

    @property
    def formulas(self) -> tuple[str, ...]:
        """The formulas, in LaTeX."""
        return tuple(each.removeprefix(MATH) for each in self.body if each.startswith(MATH))


def read(described: object) -> Docstring:
    """Take the docstring of a class or function apart.

    Args:
        described: a class or a function.

    Returns:
        Its parts, each on one line and without markup, but for formulas.

    Raises:
        ValueError: there is no docstring.

    Example:
        >>> from posenc_mm import Sinusoidal
        >>> read(Sinusoidal).references[0].years
        (2017,)
    """
    text = inspect.getdoc(described)
    if not text:
        raise ValueError(f"described must have a docstring, got {described!r}")
    text += "\n"
    sections = {name: inspect.cleandoc(body) for name, body in _SECTION.findall(text)}
    first = _SECTION.search(text)
    summary, *body = (text if first is None else text[: first.start()]).strip().split("\n\n")
    traps = [p.removeprefix("Traps:") for p in body if p.startswith("Traps:")]
    return Docstring(
        summary=unmarked(summary),
        body=tuple(
            _one_line(p) if p.startswith(MATH) else unmarked(p)
            for p in body
            if not p.startswith("Traps:")
        ),
        traps=unmarked(" ".join(traps)).strip(),
        references=tuple(_references(sections.get("References", ""))),
        arguments=tuple(_arguments(sections.get("Args", ""))),
    )


def unmarked(text: str) -> str:
    r"""Write reStructuredText as plain text on one line.

    Args:
        text: with roles, literals and line breaks.

    Returns:
        The same to read.

    Example:
        >>> unmarked("``q`` turns by :math:`\\theta_i`: see :class:`~posenc_mm.Rotary`")
        'q turns by θᵢ: see Rotary'
    """
    text = _ROLE.sub(_role, _one_line(text))
    # Of code between literals' marks two stars are a power, elsewhere they are bold.
    pieces = re.split(r"``([^`]*)``", text)
    return "".join(p if i % 2 else p.replace("**", "") for i, p in enumerate(pieces))


def _role(found: re.Match[str]) -> str:
    role, target = found.groups()
    if role == "math":
        return plain(target)
    return target.rpartition(".")[2] if target.startswith("~") else target


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _references(section: str) -> list[Reference]:
    """Split sources at semicolons; what has no year is a remark about the one before."""
    found: list[Reference] = []
    for entry in _one_line(section).split("; "):
        entry = unmarked(entry).rstrip(".;")
        years = tuple(int(year) for year in _YEAR.findall(entry))
        if not years:
            continue
        first, *rest = entry[: entry.index(f"({years[0]})")].split(": ")
        # Of three parts the first in lower case is no author.
        noted = len(rest) > 1 and first[0].islower()
        url = _URL.search(entry)
        found.append(
            Reference(
                text=entry,
                note=first if noted else "",
                authors=rest[0] if noted else first,
                years=years,
                url=url[0] if url else "",
            )
        )
    return found


def _arguments(section: str) -> list[tuple[str, str]]:
    entries = re.findall(r"^(\w+): (.*(?:\n +.*)*)", section, re.M)
    return [(name, unmarked(meaning)) for name, meaning in entries]
