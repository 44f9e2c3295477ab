"""Every encoding has the pictures that fit it, readable on light and on dark."""

import re

import pytest

pytest.importorskip("matplotlib")

import torch
from every_encoding import ENCODINGS
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.text import Text

import posenc_mm as pm
from posenc_mm import plots
from posenc_mm.plots.fitting import pictures
from posenc_mm.plots.theme import THEMES
from posenc_mm.streams import Audio, Image, Layout, Video
from posenc_mm.streams import Text as Words

# Drawn on an image, in the colour that is seen on it: dark on light, light on dark.
ON_AN_IMAGE = {"noon", "midnight"}
WITH_UNIT = re.compile(r".*\(.+\).*|channel.*|date .*|", re.S)


def luminance(colour):
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, two):
    """Of the Web Content Accessibility Guidelines 2, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def readable(made, background):
    """All that is written can be read, every panel has its labels, and all are drawn."""
    made.canvas.draw()
    written = [text for text in made.findobj(Text) if text.get_visible() and text.get_text()]
    assert written
    for text in written:
        if text.get_text() not in ON_AN_IMAGE:
            assert contrast(text.get_color(), background) >= 4.5, text.get_text()
    for axes in made.axes:
        assert isinstance(axes, Axes)
        if axes.get_visible():
            assert to_rgb(axes.get_facecolor()) == to_rgb(background)
            for label in (axes.get_xlabel(), axes.get_ylabel()):
                assert WITH_UNIT.fullmatch(label), label


def at(case):
    if case.moments:
        return 1_704_067_200 + 3600 * torch.arange(30)[:, None]
    return pm.sequence(9) if case.axes == 1 else pm.grid(*(3, 4, 2, 2)[: case.axes])


def draw(name, encoding, positions, theme):
    if name == "wavelengths":
        return plots.wavelengths(encoding, trained=8, wanted=16, theme=theme)
    if name == "seasons":
        return plots.seasons(encoding, 1970, theme=theme)
    return getattr(plots, name)(encoding, positions, theme=theme)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("case", ENCODINGS, ids=str)
def test_every_encoding_has_its_pictures(case, theme):
    encoding = case.make()
    positions = at(case) if case.name != "holidays" else 3600 * torch.arange(30)[:, None]
    kinds = {
        "additive": ["heatmap", "similarity"],
        "rotary": ["decay"],
        "bias": ["bias"],
    }[case.kind]
    fitting = pictures(encoding)
    assert set(kinds) <= set(fitting)
    for name in fitting:
        readable(draw(name, encoding, positions, theme), THEMES[theme].background)


@pytest.mark.parametrize("theme", THEMES)
def test_what_is_no_single_encoding(theme):
    stream = Layout()(Words(3), Image(2, 2), Video(frames=2), Audio(count=2), Words(2))
    for made in (
        plots.seasons("Europe/London", 2024, theme=theme),
        plots.stream(stream, theme=theme),
        plots.overview(theme=theme),
    ):
        readable(made, THEMES[theme].background)


@pytest.mark.parametrize("theme", THEMES)
def test_lines_are_seen_on_the_background_and_told_apart(theme):
    look = THEMES[theme]
    for count in (1, 2, 7, 8, 16, 40):
        colours = [to_rgb(colour) for colour in look.shades(count)]
        assert len(set(colours)) == count
        # 2: a line is wider than a letter's stroke, and its legend says which it is.
        assert all(contrast(colour, look.background) >= 2 for colour in colours)


@pytest.mark.parametrize("theme", THEMES)
def test_zero_is_the_background_and_both_signs_are_seen_as_well(theme):
    look = THEMES[theme]
    assert contrast(look.signed(0.5), look.background) < 1.2
    ends = [contrast(look.signed(end), look.background) for end in (0.0, 1.0)]
    assert min(ends) > 8


def test_a_conditional_encoding_has_none():
    assert pictures(pm.Conditional(8)) == ()
    with pytest.raises(ValueError, match="heatmap is for encodings that are added to the tokens"):
        plots.heatmap(pm.Conditional(8), pm.grid(2, 3))
