r"""Formulas as plain text: what docstrings write in LaTeX, in a line that a terminal shows."""

import re
from collections.abc import Sequence

_TOKENS = re.compile(r"\\[A-Za-z]+|\\.|\s+|[{}^_&']|[^\\{}^_&'\s]")
# The two ends of a norm, which look alike, until spaces within are gone.
_OPEN, _CLOSE = "\ue000", "\ue001"
_NAMES = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "zeta": "ζ", "theta": "θ",
    "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "varphi": "φ",
    "omega": "ω", "sum": "Σ", "ldots": "…", "cdot": "·", "odot": "⊙", "otimes": "⊗", "pm": "±",
    "le": "≤", "ge": "≥", "ne": "≠", "in": "∈", "sim": "~", "to": "→", "bmod": "mod",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "lVert": _OPEN, "rVert": _CLOSE,
    "top": "ᵀ", "left": "", "right": "", ",": " ", ";": " ", "quad": "\n", "{": "{", "}": "}",
}  # fmt: skip
_FUNCTIONS = {"sin", "cos", "exp", "ln", "log", "min", "max"}
_SUM, _TERM = r"[+\-]", r"[+\-/·\s]"
_UPRIGHT = {"text", "mathrm", "mathcal", "operatorname"}
_DOWN = dict(
    zip(
        "0123456789+-=()aehijklmnoprstuvxβγρφχ",
        "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ",
        strict=True,
    )
)
_UP = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδ",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟ",
        strict=True,
    )
)


def plain(latex: str) -> str:
    r"""Write a formula without LaTeX.

    Args:
        latex: what stands between dollars, or after ``.. math::``.

    Returns:
        One line; what ``\quad`` keeps apart, three spaces do.

    Raises:
        ValueError: a command is not one of those that docstrings use.

    Example:
        >>> plain(r"\theta_{ai} = p_a \, b_a^{-2i / (w / A)}, \quad i = 0 \ldots F / A - 1")
        'θₐᵢ = pₐ bₐ^(-2i / (w / A)),   i = 0 … F / A - 1'
    """
    return "   ".join(pieces(latex))


def pieces(latex: str) -> tuple[str, ...]:
    r"""Write a formula without LaTeX, cut where ``\quad`` is.

    Args:
        latex: what stands after ``.. math::``.

    Returns:
        The parts, in order.

    Raises:
        ValueError: as :func:`plain`.
    """
    tokens = _TOKENS.findall(latex)
    written, end = _sequence(tokens, 0, "")
    if end != len(tokens):
        raise ValueError(f"latex must close what it opens, got {latex!r}")
    norm = str.maketrans({_OPEN: "‖", _CLOSE: "‖"})
    return tuple(_spaced(each).translate(norm) for each in written.split("\n") if each.strip())


def _spaced(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"([(\[⌊⌈±]) | (?=[)\],;⌋⌉])", r"\1", text)
    return text.replace(f"{_OPEN} ", _OPEN).replace(f" {_CLOSE}", _CLOSE)


def _sequence(tokens: Sequence[str], at: int, closing: str) -> tuple[str, int]:
    """Write tokens up to a closing one, which is left to the caller."""
    written: list[str] = []
    while at < len(tokens) and tokens[at] != closing:
        token = tokens[at]
        if token in ("_", "^"):
            beside, at = _atom(tokens, at + 1)
            while written and written[-1].isspace():
                written.pop()
            written.append(_raised(beside) if token == "^" else _lowered(beside))
            continue
        if token.isspace():
            written.append(" ")
            at += 1
            continue
        atom, at = _atom(tokens, at)
        before = "".join(written).rstrip()
        # A line has no height: what a fraction is multiplied with would be under it, too.
        if token == r"\frac" and (_multiplied(tokens, at) or before.endswith(tuple(_FUNCTIONS))):
            atom = f"({atom})"
        written.append(atom)
    return "".join(written), at


def _multiplied(tokens: Sequence[str], at: int) -> bool:
    """Whether a factor follows."""
    rest = (token for token in tokens[at:] if not token.isspace() and token not in (r"\,", r"\;"))
    follows = next(rest, "")
    return bool(
        re.fullmatch(r"[\w(\[|]|\\(?!right|le$|ge$|ne$|quad|to$|in$|text|\\|end).+", follows)
    )


def _atom(tokens: Sequence[str], at: int) -> tuple[str, int]:
    """Write one token, or one command with its arguments."""
    while tokens[at].isspace():
        at += 1
    token = tokens[at]
    if token == "{":
        written, end = _sequence(tokens, at + 1, "}")
        return written, end + 1
    if not token.startswith("\\"):
        return token, at + 1
    name = token[1:]
    if name == "frac":
        above, at = _atom(tokens, at + 1)
        below, at = _atom(tokens, at)
        return f"{_grouped(above, _SUM)} / {_grouped(below, _TERM)}", at
    if name == "sqrt":
        inside, at = _atom(tokens, at + 1)
        return f"√{_grouped(inside, _TERM)}", at
    if name in _UPRIGHT:
        return _atom(tokens, at + 1)
    if name == "begin":
        return _cases(tokens, at)
    if name in _FUNCTIONS:
        return name, at + 1
    if name not in _NAMES:
        raise ValueError(f"latex must use commands that are known here, got {token}")
    return _NAMES[name], at + 1


def _cases(tokens: Sequence[str], at: int) -> tuple[str, int]:
    start, end = tokens.index("}", at) + 1, tokens.index(r"\end", at)
    rows: list[list[str]] = [[]]
    for token in tokens[start:end]:
        if token == r"\\":
            rows.append([])
        else:
            rows[-1].append(token)
    written = []
    for row in rows:
        split = row.index("&")
        parts = row[:split], row[split + 1 :]
        value, when = (_spaced(_sequence(part, 0, "")[0]) for part in parts)
        written.append(f"{value} {when}" if when in ("else", "otherwise") else f"{value} if {when}")
    return "{" + "; ".join(written) + "}", tokens.index("}", end) + 1


def _grouped(text: str, apart: str) -> str:
    """Put a term in brackets where it shows one of the signs outside of brackets."""
    text = _spaced(text)
    outside, inside = text, ""
    while outside != inside:
        outside, inside = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", outside), outside
    return f"({text})" if re.search(apart, outside) else text


def _raised(text: str) -> str:
    text = _spaced(text)
    if text == "ᵀ" or text == "'":
        return text
    short = text.replace(" ", "")
    if all(letter in _UP for letter in short):
        return "".join(_UP[letter] for letter in short)
    return f"^{text}" if len(text) == 1 else f"^({text})"


def _lowered(text: str) -> str:
    text = _spaced(text)
    short = text.replace(" ", "")
    if all(letter in _DOWN for letter in short):
        return "".join(_DOWN[letter] for letter in short)
    return f"_{text}" if re.fullmatch(r"\w+", text) else f"_({text})"
