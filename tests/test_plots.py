"""What pictures of additive and rotary encodings show, read back and computed once more."""

import cmath
import math

import pytest

pytest.importorskip("matplotlib")

import matplotlib
import numpy as np
import torch

import posenc_mm as pm
from posenc_mm import plots
from posenc_mm.plots.theme import THEMES
from posenc_mm.scaling import DynamicNTK, YaRN


def line(axes, index=0):
    drawn = axes.get_lines()[index]
    return np.asarray(drawn.get_xdata(), float), np.asarray(drawn.get_ydata(), float)


def array(axes):
    return np.asarray(axes.images[0].get_array().filled(np.nan), float)


def sinusoid(position, dim, base=10_000.0):
    row = []
    for i in range(dim // 2):
        angle = position / base ** (2 * i / dim)
        row += [math.sin(angle), math.cos(angle)]
    return row


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def speeds(head_dim, base=10_000.0):
    return [base ** (-2 * i / head_dim) for i in range(head_dim // 2)]


def test_a_heat_map_has_channels_across_and_positions_down():
    made = plots.heatmap(pm.Sinusoidal(6), pm.sequence(5, offset=3))
    axes = made.axes[0]
    wanted = [sinusoid(p, 6) for p in range(3, 8)]
    np.testing.assert_allclose(array(axes), wanted, atol=1e-12)
    assert axes.images[0].get_extent() == [-0.5, 5.5, 7.5, 2.5]  # a pixel is centred on its number
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "channel (interleaved layout)",
        "position (tokens)",
    )
    assert axes.images[0].norm.vmin == -axes.images[0].norm.vmax


def test_channels_stay_where_they_are_unless_they_are_to_be_sorted():
    at = pm.sequence(9)
    half, mixed = pm.Sinusoidal(8, layout="half"), pm.Sinusoidal(8)
    plain, straight = (array(plots.heatmap(each, at).axes[0]) for each in (half, mixed))
    assert not np.allclose(plain, straight)
    made = plots.heatmap(half, at, order="speed").axes[0]
    np.testing.assert_allclose(array(made), straight)
    assert made.get_xlabel() == "channel, the fastest first"
    learned = pm.Learned(3, 4)
    with torch.no_grad():
        learned.table.copy_(torch.tensor([[0.0, 9, 1], [0, 8, 3], [0, 9, 5], [0, 8, 7]]))
    sped = array(plots.heatmap(learned, pm.sequence(4), order="speed").axes[0])
    np.testing.assert_allclose(sped[0], [1, 9, 0])


def test_a_heat_map_of_patches_names_rows_and_one_of_moments_dates():
    axes = plots.heatmap(pm.Sinusoidal(8, axes=2), pm.grid(3, 4)).axes[0]
    assert [each.get_text() for each in axes.get_yticklabels()] == ["(0, 0)", "(1, 0)", "(2, 0)"]
    assert list(axes.get_yticks()) == [0, 4, 8]
    hours = 1_704_067_200 + 3600 * torch.arange(48)[:, None]
    axes = plots.heatmap(pm.Seasonal({"day": 1}), hours).axes[0]
    low, high = sorted(axes.images[0].get_extent()[2:])
    day = matplotlib.dates.date2num(np.datetime64("2024-01-01"))
    np.testing.assert_allclose([low, high], [day - 1 / 48, day + 2 - 1 / 48], atol=1e-9)
    assert axes.get_ylabel() == "time (UTC)"


def test_irregular_tokens_are_numbered():
    at = torch.tensor([[0.0], [1.0], [5.0]])
    axes = plots.heatmap(pm.Sinusoidal(4), at).axes[0]
    assert axes.get_ylabel().startswith("token") and axes.images[0].get_extent()[2:] == [2.5, -0.5]


def test_similarity_is_the_cosine_of_all_pairs_and_of_the_middle_one():
    made = plots.similarity(pm.Sinusoidal(8), pm.sequence(7))
    rows = [sinusoid(p, 8) for p in range(7)]
    wanted = np.array([[cosine(a, b) for b in rows] for a in rows])
    matrix, curve = made.axes[0], made.axes[1]
    np.testing.assert_allclose(array(matrix), wanted, atol=1e-12)
    at, alike = line(curve)
    np.testing.assert_allclose(at, range(7), atol=1e-12)
    np.testing.assert_allclose(alike, wanted[3], atol=1e-12)


@pytest.mark.parametrize("shuffled", [False, True])
def test_on_a_grid_similarity_is_a_map_of_maps(shuffled):
    at = pm.grid(3, 4)
    at = at[torch.randperm(12)] if shuffled else at
    axes = plots.similarity(pm.Sinusoidal(8, axes=2), at).axes[0]
    found = array(axes)
    assert found.shape == (3 * 4 - 1, 4 * 5 - 1)  # a line of nothing between two maps
    for i, j, y, x in np.ndindex(3, 4, 3, 4):
        one, two = ([*sinusoid(r, 4), *sinusoid(c, 4)] for r, c in ((i, j), (y, x)))
        assert found[4 * i + y, 5 * j + x] == pytest.approx(cosine(one, two), abs=1e-12)
    assert np.isnan(found[3::4]).all() and np.isnan(found[:, 4::5]).all()


def test_a_table_of_numbered_patches_is_a_grid_if_one_says_so():
    learned, at = pm.Learned(16, 12), pm.sequence(12)
    found = array(plots.similarity(learned, at, size=(3, 4), most=2).axes[0])
    table = learned.table.detach().double().tolist()
    assert found.shape == (2 * 4 - 1, 2 * 5 - 1)  # the first and the last of rows and of columns
    assert found[4 + 1, 0] == pytest.approx(cosine(table[8], table[4]), abs=1e-12)
    with pytest.raises(ValueError, match="size must be rows and columns of 12 tokens"):
        plots.similarity(learned, at, size=(5, 4))


def test_where_nothing_is_added_there_is_no_cosine():
    days = 86_400 * torch.arange(4)[:, None]
    found = array(plots.similarity(pm.Holidays(dates=["1970-01-03"]), days).axes[0])
    assert found[2, 2] == 1 and np.isnan(found).sum() == 15


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_decay_is_the_mean_cosine_and_beside_it_the_bound(layout):
    made = plots.decay(pm.Rotary(16, layout=layout), pm.sequence(20, offset=7))
    away, score = line(made.axes[0])
    assert list(away) == list(range(20))
    wanted = [sum(math.cos(d * w) for w in speeds(16)) / 8 for d in range(20)]
    np.testing.assert_allclose(score, wanted, atol=1e-12)
    sums = [
        [sum(cmath.exp(1j * d * w) for w in speeds(16)[: j + 1]) for j in range(8)]
        for d in range(20)
    ]
    bound = [sum(abs(each) for each in row) / 8 for row in sums]
    np.testing.assert_allclose(line(made.axes[1])[1], bound, atol=1e-12)
    assert (np.abs(score) <= np.asarray(bound) + 1e-12).all()  # as it must for equal pairs
    assert made.axes[0].get_xlabel() == "distance (tokens)"


def test_decay_of_each_head_and_of_a_basis():
    mixed = pm.MixedRotary(8, 3, axes=1)
    with torch.no_grad():
        mixed.frequencies.mul_(torch.tensor([1.0, 0.5, 0.25])[:, None, None])
    made = plots.decay(mixed, pm.sequence(6))
    for head in range(3):
        own = mixed.frequencies[head, 0].double().tolist()
        wanted = [sum(math.cos(d * w) for w in own) / 4 for d in range(6)]
        np.testing.assert_allclose(line(made.axes[0], head)[1], wanted, atol=1e-6)
    turned, plain = pm.CayleySTRING(8, 1, std=0.5), pm.Rotary(8)
    one, two = (line(plots.decay(each, pm.sequence(6)).axes[0])[1] for each in (turned, plain))
    np.testing.assert_allclose(one, two, atol=1e-6)  # no basis changes the mean over directions


def test_decay_of_xpos_fades_with_each_pairs_own_rate():
    score = line(plots.decay(pm.XPos(8), pm.sequence(400)).axes[0])[1]
    fading = [((2 * i / 8 + 0.4) / 1.4) ** (1 / 512) for i in range(4)]
    wanted = [
        sum(z**d * math.cos(d * w) for z, w in zip(fading, speeds(8), strict=True)) / 4
        for d in range(400)
    ]
    np.testing.assert_allclose(score, wanted, atol=1e-9)


def test_decay_on_a_grid_is_a_map_around_its_middle_and_on_more_axes_a_panel_each():
    found = array(plots.decay(pm.Rotary(8, axes=2), pm.grid(3, 5)).axes[0])
    for row, column in np.ndindex(3, 5):
        wanted = sum(math.cos((row - 1) * w) + math.cos((column - 2) * w) for w in speeds(4)) / 4
        assert found[row, column] == pytest.approx(wanted, abs=1e-12)
    made = plots.decay(pm.Rotary(12, axes=3), pm.grid(2, 3, 5))
    assert [axes.get_xlabel() for axes in made.axes] == [
        f"key less query along {name} (cells)" for name in ("time", "row", "column")
    ]
    away, score = line(made.axes[2])
    assert list(away) == [-2, -1, 0, 1, 2]
    wanted = [(2 + 2 + sum(math.cos(d * w) for w in speeds(4))) / 6 for d in away]
    np.testing.assert_allclose(score, wanted, atol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved", "axis_half"])
def test_in_the_plane_a_rotation_keeps_the_length_and_a_sinusoid_does_not(layout):
    made = plots.plane(pm.Rotary(8, layout=layout), pm.sequence(9), pair=1, token=(3.0, 4.0))
    added, turned = (np.asarray(axes.collections[0].get_offsets()) for axes in made.axes[:2])
    for p in range(9):
        angle = p * speeds(8)[1]
        np.testing.assert_allclose(added[p], [3 + math.sin(angle), 4 + math.cos(angle)])
        along = complex(3, 4) * cmath.exp(1j * angle)
        np.testing.assert_allclose(turned[p], [along.real, along.imag])
    assert made.axes[1].get_title() == "turned: length 5.00 throughout"
    assert "throughout" not in made.axes[0].get_title()


def test_pairs_of_the_second_axis_lie_in_its_block():
    rotary = pm.Rotary(8, axes=2, layout="axis_half", base=100.0)
    at = torch.tensor([[5.0, p] for p in range(9)])
    turned = np.asarray(plots.plane(rotary, at, pair=3).axes[1].collections[0].get_offsets())
    wanted = [complex(1, 0.5) * cmath.exp(1j * p * speeds(4, 100.0)[1]) for p in range(9)]
    np.testing.assert_allclose(turned, [[w.real, w.imag] for w in wanted], atol=1e-12)


def test_a_pair_that_turns_in_a_basis_of_its_own_is_drawn_there():
    made = plots.plane(pm.CayleySTRING(8, 1, std=0.5), pm.sequence(9), pair=2)
    turned = np.asarray(made.axes[1].collections[0].get_offsets())
    wanted = [complex(1, 0.5) * cmath.exp(1j * p * speeds(8)[2]) for p in range(9)]
    np.testing.assert_allclose(turned, [[w.real, w.imag] for w in wanted], atol=1e-5)


def test_wavelengths_before_and_after_a_scaling():
    made = plots.wavelengths(pm.Rotary(16, scaling=YaRN(4.0, 512)))
    axes = made.axes[0]
    plain = [2 * math.pi / w for w in speeds(16)]
    np.testing.assert_allclose(line(axes)[1], plain)
    after = line(axes, 1)[1]
    assert after[0] == pytest.approx(plain[0]) and after[-1] == pytest.approx(4 * plain[-1])
    assert [line(axes, index)[1][0] for index in (2, 3)] == [512, 2048]
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "wavelength (tokens)")
    moving = plots.wavelengths(pm.Rotary(16, scaling=DynamicNTK(2.0, 512), length=1536)).axes[0]
    assert [each.get_label() for each in moving.get_lines()[2:]] == [
        "trained: 512",
        "wanted: 1,536",
    ]


def test_wavelengths_by_axis_and_without_pairs_that_do_not_turn():
    frequencies = [[1.0, 0.0, 0.3, 0.0], [0.0, 0.5, 0.4, 0.0]]
    axes = plots.wavelengths(pm.Rotary(8, 2, frequencies=frequencies)).axes[0]
    found = {each.get_label(): line(axes, i) for i, each in enumerate(axes.get_lines())}
    for name, pair, speed in (("row", 0, 1.0), ("column", 1, 0.5), ("several axes", 2, 0.5)):
        np.testing.assert_allclose(found[name], [[pair], [2 * math.pi / speed]])
    assert len(found) == 3
    mixed = plots.wavelengths(pm.MixedRotary(8, heads=2)).axes[0].get_lines()
    assert [each.get_label() for each in mixed] == ["all 2 heads, several axes"], "not a row's"


def test_a_figure_is_nobodys_business_but_its_own():
    before = matplotlib.rcParams.copy()
    made = plots.heatmap(pm.Sinusoidal(4), pm.sequence(3), theme="dark")
    assert matplotlib.rcParams == before
    assert made.get_facecolor() == matplotlib.colors.to_rgba(THEMES["dark"].background)
    with matplotlib.rc_context({"axes.facecolor": "red", "text.color": "red"}):
        made = plots.heatmap(pm.Sinusoidal(4), pm.sequence(3))
    assert made.axes[0].get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.heatmap(pm.ALiBi(2), pm.sequence(3)), "for biases: bias.*got ALiBi"),
        (lambda: plots.similarity(pm.Rotary(4), pm.sequence(3)), "for rotations: decay"),
        (lambda: plots.decay(pm.Sinusoidal(4), pm.sequence(3)), "heatmap, similarity"),
        (lambda: plots.bias(pm.Rotary(4), pm.sequence(3)), "for rotations: decay"),
        (lambda: plots.wavelengths(pm.ALiBi(2)), "bias if it is added to logits"),
        (lambda: plots.wavelengths(pm.Rotary(4), trained=0), "trained must be a positive length"),
        (lambda: plots.plane(pm.LieRE(8, block=4), pm.grid(2, 3)), "pairs of channels"),
        (lambda: plots.plane(pm.Rotary(4), pm.sequence(3), pair=2), "pair must be below 2"),
        (lambda: plots.plane(pm.Rotary(4), pm.sequence(3), head=1), "head must be below 1"),
        (lambda: plots.heatmap(pm.Sinusoidal(4), pm.sequence(3), order="up"), "order must be"),
        (lambda: plots.heatmap(pm.Sinusoidal(4), pm.sequence(3), theme="blue"), "theme must be"),
        (lambda: plots.heatmap(pm.Sinusoidal(4), pm.sequence(3)[None]), "positions must be"),
        (lambda: plots.heatmap(pm.Sinusoidal(4), pm.sequence(0)), "positions must be"),
        (lambda: plots.similarity(pm.Sinusoidal(4), pm.sequence(3), most=0), "most must be"),
        (lambda: plots.similarity(pm.Sinusoidal(4), pm.sequence(9999)), "4,096 at most.*got 9,999"),
    ],
)
def test_wrong_input_is_refused_by_what_would_fit(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_a_name_that_is_no_picture():
    with pytest.raises(AttributeError, match="no attribute 'histogram'"):
        plots.histogram  # noqa: B018
