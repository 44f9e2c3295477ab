"""Formulas, docstrings and explanations read as they are meant."""

import re

import pytest

from posenc_mm import Rotary
from posenc_mm.catalogue import entries, explain, find, plain
from posenc_mm.catalogue.docstrings import read, unmarked
from posenc_mm.catalogue.formulas import pieces

EVERY = entries()
OWN = [each for each in EVERY if each.group in ("additive", "rotary", "bias")]
every = pytest.mark.parametrize("entry", EVERY, ids=lambda each: each.full_name)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"e_{2i+1} = \cos(p \, b^{-2i/D})", "e₂ᵢ₊₁ = cos(p b^(-2i/D))"),
        (r"\sum_a p_a \, \omega_{hai}", "Σₐ pₐ ωₕₐᵢ"),
        (r"R(p)^\top R(r) \ne R(r - p)", "R(p)ᵀ R(r) ≠ R(r - p)"),
        (r"(I - S)(I + S)^{-1}", "(I - S)(I + S)⁻¹"),
        (r"\frac{a + b}{c}", "(a + b) / c"),
        (r"\frac{2 \pi}{L}", "2 π / L"),
        (r"\frac{d}{2 \ln b} x", "(d / (2 ln b)) x"),
        (r"\frac{i}{h} + 1", "i / h + 1"),
        (r"\ln \frac{L}{s}", "ln (L / s)"),
        (r"\sqrt{1 + \ln s}", "√(1 + ln s)"),
        (r"\sqrt{D}", "√D"),
        (r"-m_h \lVert p_i - p_j \rVert / \tau", "-mₕ ‖pᵢ - pⱼ‖ / τ"),
        (r"\min\left(1, \max\left(0, x\right)\right)", "min(1, max(0, x))"),
        (r"\lfloor\beta\rfloor + 1", "⌊β⌋ + 1"),
        (r"P_{\min}", "Pₘᵢₙ"),
        (r"p_{S_1}", "p_S₁"),
        (r"x_{n(p_i + \delta)}", "x_(n(pᵢ + δ))"),
        (r"e^{s_h}", "e^(sₕ)"),
        (r"\{-r, \ldots, r\}^A", "{-r, …, r}ᴬ"),
        (r"\pm 1/2", "±1/2"),
        (r"a \bmod w", "a mod w"),
        (r"f_i'", "fᵢ'"),
        (r"\mathrm{round}(x)", "round(x)"),
        (r"\begin{cases} a & L \le M \\ b & \text{else} \end{cases}", "{a if L ≤ M; b else}"),
    ],
)
def test_a_formula_as_text(latex, text):
    assert plain(latex) == text


def test_what_quad_keeps_apart_stays_apart():
    assert pieces(r"a = b, \quad c = d") == ("a = b,", "c = d")
    assert plain(r"a = b, \quad c = d") == "a = b,   c = d"


@pytest.mark.parametrize("latex", [r"\unheardof x", r"{a"])
def test_latex_that_is_not_known_is_refused(latex):
    with pytest.raises((ValueError, IndexError)):
        plain(latex)


def test_markup_is_taken_off():
    said = unmarked("``a = 1``\n  and **never** :class:`~x.y.Z`, :func:`x.f`, :math:`p_a`")
    assert said == "a = 1 and never Z, x.f, pₐ"
    assert unmarked("**pass** ``(H * D) ** -0.5``") == "pass (H * D) ** -0.5"


class Documented:
    r"""Says one thing.

    .. math:: a_i = \frac{1}{2}
        + b

    A paragraph about :math:`a`
    on two lines.

    Traps: the first.

    References:
        One, Two, Three: A Title: With a Colon (1999), https://example.org/a_(b); for two: Four,
        Five: Other (2001), in section 3 of Six: Last (2002), https://example.org/c; no year here

    Args:
        first: the meaning,
            going on.
        second: another.

    Raises:
        ValueError: never.
    """


def test_a_docstring_taken_apart():
    doc = read(Documented)
    assert doc.summary == "Says one thing."
    assert doc.formulas == (r"a_i = \frac{1}{2} + b",)
    assert doc.body[1] == "A paragraph about a on two lines."
    assert doc.traps == "the first."
    assert doc.arguments == (("first", "the meaning, going on."), ("second", "another."))
    first, second = doc.references
    assert (first.note, first.short, first.years) == ("", "One et al.", (1999,))
    assert first.url == "https://example.org/a_(b)"
    assert (second.note, second.short, second.years) == ("for two", "Four, Five", (2001, 2002))
    assert second.url == "https://example.org/c"


def test_what_has_no_docstring_is_refused():
    with pytest.raises(ValueError, match="must have a docstring"):
        read(type("Silent", (), {}))


@every
def test_every_explanation_is_complete_and_fits_a_terminal(entry):
    said = explain(entry)
    assert max(map(len, said.splitlines())) <= 100
    assert not re.search(r"\\[a-zA-Z]|:math:|:class:|``", said), "markup is left"
    assert said.startswith(f"{entry.name}: ")
    assert "\nPapers\n" in said and "\nPython\n" in said and "\nYAML" in said
    assert entry.file in said
    for source in entry.doc.references:
        assert source.url in said.replace("\n    ", " ").replace(" ", "") or source.url in said
    names = [name for name, _ in entry.doc.arguments]
    assert all(re.search(rf"^    {name}( =|:)", said, re.M) for name in names)


@every
def test_formulas_are_kept_in_latex_on_request(entry):
    for formula in entry.doc.formulas:
        assert formula in explain(entry, latex=True)
        assert pieces(formula)[0] in explain(entry).replace("\n    ", " ")


@pytest.mark.parametrize("entry", OWN, ids=lambda each: each.name)
def test_every_encoding_tells_its_traps_and_its_formula(entry):
    assert len(entry.doc.traps.split()) >= 8
    assert "\nTraps\n" in explain(entry)
    assert entry.doc.formulas or entry.name == "OnCalendar"


def test_what_is_known_of_rotary_is_told():
    said = explain(find("rotary")[0])
    assert "θₐᵢ = pₐ bₐ^(-2i / (w / A))" in said
    assert "    slot      rotary\n" in said and "positions relative" in said
    assert "axes = 1: number of axes A." in said and "base = None: b," in said
    assert "Su et al.: RoFormer" in said and "(2021)" in said
    assert "python -m posenc_mm plot Rotary" in said


def test_the_arguments_shown_are_those_of_the_class():
    import inspect

    shown = dict(read(Rotary).arguments)
    assert shown.keys() == set(inspect.signature(Rotary).parameters)
