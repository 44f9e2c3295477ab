"""Pictures of what diagnostics found show the numbers that were found."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

import posenc_mm as pm
from posenc_mm.diagnostics import (
    AttentionMap,
    ContentShift,
    EffectiveContext,
    PositionShift,
)
from posenc_mm.diagnostics import attention_by_distance as sort
from posenc_mm.plots import diagnostics as plots

THEMES = ("light", "dark")


def distances(layers, heads=3):
    maps = [
        AttentionMap(f"blocks.{n}.attn", torch.rand(2, heads, 8, 8).softmax(-1))
        for n in range(layers)
    ]
    return sort(maps, pm.sequence(8))


def labelled(panel):
    return panel.get_xlabel() and panel.get_ylabel() and panel.get_title()


@pytest.mark.parametrize("theme", THEMES)
def test_attention_by_distance(theme):
    found = distances(2)
    picture = plots.attention_by_distance(found, unit="patches", theme=theme)
    first, *others = picture.axes
    assert "(patches)" in first.get_ylabel() and len(others) == 2
    points = first.collections[0].get_offsets()[:, 1]
    np.testing.assert_allclose(points, found.layers[0].mean)
    np.testing.assert_allclose(
        first.lines[0].get_ydata()[1:-1], [x.even_mean for x in found.layers]
    )
    for panel, layer in zip(others, found.layers, strict=True):
        values = [patch.get_data().values for patch in panel.patches]
        np.testing.assert_allclose(values, [*layer.mass.tolist(), layer.even.tolist()])
        assert panel.get_xlabel() == "distance (patches)" and layer.layer in panel.get_title()
    (told,) = first.get_legend().get_texts()
    assert told.get_text() == "even attention"  # over the points, it was not to be read
    picture.canvas.draw()


def test_a_layer_is_a_whole_number():
    panel = plots.attention_by_distance(distances(1)).axes[0]
    assert [x for x in panel.get_xticks() if 0.6 <= x <= 1.4] == [1.0]


def test_many_layers_are_chosen_evenly_and_the_title_says_so():
    picture = plots.attention_by_distance(distances(9), most=3)
    titles = [panel.get_title().partition(":")[0] for panel in picture.axes[1:]]
    assert titles == ["1", "5", "9"] and "3 of 9 layers" in picture.get_suptitle()
    assert len(picture.axes[0].collections) == 9
    with pytest.raises(ValueError, match="most must be"):
        plots.attention_by_distance(distances(1), most=0)


@pytest.mark.parametrize("theme", THEMES)
def test_effective_context(theme):
    losses = torch.tensor([3.0, 2.0, 1.995, 1.99])
    found = EffectiveContext((1, 4, 64, 70), losses, 0.01, 4, 16)
    (panel,) = plots.effective_context(found, theme=theme).axes
    assert labelled(panel) and "4 tokens" in panel.get_title() and "16 tokens" in panel.get_ylabel()
    assert [4.0, 4.0] in [list(line.get_xdata()) for line in panel.lines]
    curve = next(line for line in panel.lines if len(line.get_xdata()) == 4)
    np.testing.assert_allclose(curve.get_ydata(), losses)
    one = plots.effective_context(found._replace(effective=1), theme=theme).axes[0]
    assert one.get_title() == "Effective context: 1 token"
    # 64 would be written over 70.
    assert sorted(panel.get_xticks()) == [1, 4, 70]


@pytest.mark.parametrize("theme", THEMES)
def test_shift(theme):
    found = PositionShift((1, 2, 64), torch.tensor([0.0, 1e-7, 0.3]))
    (panel,) = plots.shift(found, unit="rows", theme=theme).axes
    assert labelled(panel) and "(rows)" in panel.get_xlabel()
    np.testing.assert_allclose(panel.lines[1].get_xydata()[:, 1], found.changes)
    moved = ContentShift(((1, 0), (-1, 1)), torch.tensor([0.1, 0.2]), torch.tensor([0.9, 1.1]))
    (panel,) = plots.shift(moved, theme=theme).axes
    assert labelled(panel)
    np.testing.assert_allclose([bar.get_height() for bar in panel.patches], moved.errors)
    ends = np.array(panel.collections[0].get_segments())
    np.testing.assert_allclose(ends[:, :, 1], moved.stayed[:, None].expand(-1, 2))
    assert (ends[1:, 0, 0] > ends[:-1, 1, 0]).all(), "each stands over its own bar"
    assert [label.get_text() for label in panel.get_xticklabels()] == ["+1, 0", "−1, +1"]


def test_what_is_no_finding_is_refused():
    with pytest.raises(ValueError, match="shift_positions or shift_contents"):
        plots.shift(EffectiveContext((1,), torch.ones(1), 0.01, 1, 1))
    with pytest.raises(ValueError, match="theme must be"):
        plots.shift(PositionShift((1,), torch.ones(1)), theme="sepia")
