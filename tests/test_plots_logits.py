"""What pictures of biases, of a year and of streams show, read back and computed once more."""

import math
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import oracles
import pytest

pytest.importorskip("matplotlib")

import matplotlib
import numpy as np
import torch
from matplotlib.dates import date2num

import posenc_mm as pm
from posenc_mm import plots
from posenc_mm.streams import Audio, Image, Layout, Text, Video, pack


def line(axes, index=0):
    drawn = axes.get_lines()[index]
    return np.asarray(drawn.get_xdata(), float), np.asarray(drawn.get_ydata(), float)


def test_a_bias_is_drawn_from_the_middle_one_head_a_line():
    made = plots.bias(pm.ALiBi(4), pm.sequence(9))
    axes = made.axes[0]
    for head, slope in enumerate((1 / 4, 1 / 16, 1 / 64, 1 / 256)):
        away, added = line(axes, head)
        assert list(away) == list(range(-4, 5))
        np.testing.assert_allclose(added, [-slope * abs(d) for d in range(-4, 5)])
    assert axes.get_xlabel() == "key less query (tokens)"
    assert axes.get_ylabel() == "added to the logit (no unit)"
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "head 3"


def test_many_heads_have_a_bar_of_colours():
    made = plots.bias(pm.ALiBi(12), pm.sequence(5))
    assert made.axes[0].get_legend() is None
    assert made.axes[1].get_ylabel() == "head (number)"
    colours = {each.get_color() for each in made.axes[0].get_lines()}
    assert len(colours) == 12


def test_what_is_to_the_right_is_to_the_right():
    t5 = pm.T5Bias(2)
    added = line(plots.bias(t5, pm.sequence(21)).axes[0], 1)[1]
    wanted = oracles.t5([10], range(21), t5.weight.detach())[1, 0]
    np.testing.assert_allclose(added, wanted)
    assert not np.allclose(added, added[::-1])


def test_a_bias_on_a_grid_is_a_map_per_head():
    made = plots.bias(pm.ALiBi(2, distance="l2"), pm.grid(3, 5))
    for axes, slope in zip(made.axes[:2], (1 / 16, 1 / 256), strict=True):
        found = np.asarray(axes.images[0].get_array())
        for row, column in np.ndindex(3, 5):
            wanted = -slope * math.hypot(row - 1, column - 2)
            assert found[row, column] == pytest.approx(wanted, abs=1e-12)
    both = {axes.images[0].norm for axes in made.axes[:2]}
    assert len(both) == 1  # one scale for all heads


def test_heads_that_are_alike_are_drawn_once_and_zeros_are_said_to_be():
    made = plots.bias(pm.IRPE(3, 1), pm.sequence(9))
    assert [each.get_label() for each in made.axes[0].get_lines()] == ["all 3 heads"]
    assert "all zero" in made.get_suptitle()
    assert "all zero" not in plots.bias(pm.ALiBi(3), pm.sequence(9)).get_suptitle()
    assert "all 3 heads" in plots.bias(pm.IRPE(3, 2, std=0.1), pm.grid(3, 4)).get_suptitle()


@pytest.mark.parametrize(
    "make", [lambda: pm.DeBERTaBias(2, 4, 4, 8), lambda: pm.TransformerXLBias(2, 4)]
)
def test_a_contextual_bias_is_drawn_by_its_size(make):
    """As random queries and keys have it, in a draw of many."""
    bias = make()
    with torch.no_grad():
        for each in bias.parameters():
            each.normal_()
    found = [line(plots.bias(bias, pm.sequence(7)).axes[0], head)[1] for head in range(2)]
    q, k = torch.randn(40_000, 2, 1, 4), torch.randn(40_000, 2, 7, 4)
    with torch.no_grad():
        logits = bias(pm.sequence(1, offset=3), pm.sequence(7)).logits(q, k)
    np.testing.assert_allclose(found, logits.square().mean(0).sqrt()[:, 0], rtol=0.03)


def test_a_contextual_bias_of_one_table_has_the_sizes_of_its_vectors():
    shaw = pm.ShawBias(1, 4, 2, 2)
    rows = next(shaw.parameters()).detach().double().reshape(5, 4)
    size = [math.sqrt(sum(x * x for x in row)) / 2 for row in rows.tolist()]
    added = line(plots.bias(shaw, pm.sequence(5)).axes[0])[1]
    np.testing.assert_allclose(sorted(added), sorted(size), rtol=1e-6)


def test_erpe_says_that_it_acts_after_the_softmax():
    assert "after the softmax" in plots.bias(pm.ERPE(2, 5), pm.sequence(5)).axes[0].get_ylabel()


@pytest.mark.parametrize(
    ("zone", "year"),
    [("Europe/London", 2024), ("Australia/Lord_Howe", 2023), ("Pacific/Apia", 2011), ("UTC", 2024)],
)
def test_clock_changes_are_those_of_the_zone(zone, year):
    made = plots.seasons(zone, year)
    start, source = datetime(year, 1, 1, tzinfo=timezone.utc), ZoneInfo(zone)
    hours = [start + timedelta(hours=h) for h in range(8784 if year % 4 == 0 else 8760)]
    east = [moment.astimezone(source).utcoffset() for moment in hours]
    wanted = {
        (f"{now.day} {now:%b}", (after - was) / timedelta(hours=1))
        for now, was, after in zip(hours[1:], east, east[1:], strict=False)
        if after != was
    }
    said = [text.get_text() for text in made.axes[0].texts if text.get_text().endswith(" h")]
    found = {(text.split(", ")[0], float(text.split(", ")[1][:-2])) for text in said}
    assert found == wanted
    phases = np.asarray(made.axes[0].images[0].get_array())
    assert phases.shape == (48, len(hours) // 24) and made.axes[0].images[0].origin == "lower"
    for half, day in ((0, 0), (17, 100), (40, 200), (47, 364)):
        moment = start + timedelta(days=day, minutes=15 + 30 * half)
        there = moment.astimezone(source)
        share = (there.hour * 3600 + there.minute * 60 + there.second) / 86_400
        assert phases[half, day] == pytest.approx(share, abs=1e-9)


def test_seasons_of_a_zone_and_of_an_encoding():
    below = plots.seasons("Europe/London", 2023).axes[1]
    shown = {each.get_label(): each for each in below.get_lines()[:3]}
    assert list(shown) == ["year", "quarter", "month"]
    year = np.asarray(shown["year"].get_ydata())
    np.testing.assert_allclose(year[[0, 364]], [0.5 / 365, 364.5 / 365], rtol=1e-9)
    seasonal = pm.Seasonal({"day": 1, "year": 1}, zone="Asia/Tokyo", unit="ms")
    image = np.asarray(plots.seasons(seasonal, 2023).axes[1].images[0].get_array())
    assert image.shape == (4, 365)
    turn = 2 * math.pi * 21 / 24  # noon in UTC is nine in the evening
    np.testing.assert_allclose(image[:2], np.repeat([[math.sin(turn)], [math.cos(turn)]], 365, 1))
    noon = plots.seasons("Europe/London", 2024).axes[0].get_lines()[0]
    days = np.asarray(noon.get_xdata()) - date2num(datetime(2024, 3, 31))
    stepped = days[1:][np.diff(np.asarray(noon.get_ydata())) == -1]
    np.testing.assert_allclose(stepped, [1 / 24])  # when clocks are set, not a day later
    with pytest.raises(ValueError, match="seasons is for a zone, or an encoding that has one"):
        plots.seasons(pm.Sinusoidal(4))
    with pytest.raises(ValueError, match="year must be from 1 to 9998"):
        plots.seasons("UTC", 9999)


def test_a_stream_is_drawn_axis_by_axis_and_modality_by_modality():
    rule = Layout(scale=(2.0,))
    rows = [[Text(3), Image(2, 3), Video([0.0, 1.5], 1, 2), Audio([0.5]), Text(1)], [Text(4)]]
    batch = rule.batch(rows, pad="left")
    made = plots.stream(batch)
    assert [axes.get_ylabel().split()[0] for axes in made.axes] == ["time", "row", "column"]
    shown = {
        each.get_label(): line(made.axes[0], i) for i, each in enumerate(made.axes[0].get_lines())
    }
    assert list(shown["image"][0]) == [3, 4, 5, 6, 7, 8] and set(shown["image"][1]) == {3}
    # The video begins after the image's largest coordinate, 3 + 2, and two positions are a second.
    assert list(shown["video"][1]) == [6, 6, 9, 9]
    assert list(shown["audio"][1]) == [10]
    assert set(shown) == {"text", "image", "video", "audio", "cursor"}
    assert shown["cursor"][1][0] == float(batch.cursor[0])
    short = plots.stream(batch, row=1).axes[0]
    assert [len(each.get_xdata()) for each in short.get_lines()] == [4, 2]  # no padding
    two = plots.stream(pack([rule(Text(2)), rule(Text(3))])).axes[0]
    assert [1.5, 1.5] in [list(each.get_xdata()) for each in two.get_lines()]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.stream(pm.sequence(3)), "stream is for what a Layout returns"),
        (lambda: plots.stream(Layout()(Text(2)), row=1), "row must be below 1"),
        (lambda: plots.stream(Layout()(Text(0))), "has no token"),
    ],
)
def test_what_is_no_stream_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_dates_do_not_depend_on_the_reader():
    with matplotlib.rc_context({"timezone": "Asia/Tokyo"}):
        there = plots.seasons("UTC", 2024).axes[0].images[0].get_extent()
    assert there == plots.seasons("UTC", 2024).axes[0].images[0].get_extent()
