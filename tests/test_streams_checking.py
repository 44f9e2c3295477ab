"""Each silent mistake is named with its tokens, and what is right passes without a word."""

import dataclasses
import math
import warnings

import pytest
import torch

import posenc_mm as pm
from posenc_mm import streams
from posenc_mm.frequencies import geometric, sections
from posenc_mm.streams import (
    Audio,
    Image,
    Layout,
    Points,
    Series,
    StreamWarning,
    Text,
    Together,
    Video,
    pack,
)

ROW = [Text(3), Video(frames=9, rows=2, columns=3), Text(4), Image(2, 2), Text(2)]
SECONDS = [
    Text(3),
    Together(Video([0.0, 0.5, 2.0], 2, 3), Audio([0.0, 0.4, 0.8]), Series([0.1, 0.2], 1)),
    Text(4),
]
RIGHT = {
    "qwen2_vl": streams.qwen2_vl(),
    "qwen3_vl": streams.qwen3_vl(),
    "video_rope": streams.video_rope(),
    "mrope_i": streams.mrope_i(),
    "mm_rope": streams.mm_rope(),
    "v2pe": streams.v2pe(),
    "cosmos3": streams.cosmos3(),
    "lumina2": streams.lumina2(),
    "flux1": streams.flux1(),
    "flux2": streams.flux2(),
    "qwen2_5_omni": streams.qwen2_5_omni(),
    "qwen3_omni": streams.qwen3_omni(),
    "default": Layout(),
}


def found(stream, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        findings = stream.check(*args)
    assert [str(w.message) for w in caught] == [finding.message for finding in findings]
    assert all(w.category is StreamWarning for w in caught)
    return findings


@pytest.mark.parametrize("name", RIGHT)
def test_published_designs_pass(name):
    rule = RIGHT[name]
    row = SECONDS if rule.time == "seconds" else ROW
    if rule.anchor == "none":  # where a moment of its own is all that keeps videos from text
        row = [Text(3), Image(2, 2), Image(2, 2, time=10.0)]
    batch = rule.batch([row, [Text(5)]], pad="left")
    assert found(batch) == []
    assert found(pack([batch])) == []


def test_text_inside_a_video():
    stream = streams.qwen2_vl("transformers>=5.3").batch([[Text(5)], ROW], pad="right")
    (first, *others) = found(stream)
    assert first.kind == "text inside" and first.row == 1 and others == []
    assert first.tokens == (57, 58, 59, 60)
    assert "text tokens 57 to 60 are at times 6 to 9, inside the 3 to 11" in first.message


def test_timed_text_is_inside_on_purpose():
    both = Together(Video([0.0, 1.0, 4.0], 1, 1), Text(2, times=[0.5, 1.0]))
    assert found(Layout()(Text(2), both, Text(1))) == []


def test_text_where_a_video_begins_is_not_inside():
    assert found(streams.flux1()(Text(2), Video([0.0, 1.0], 1, 2))) == []


def test_times_that_collapse():
    """Eight steps a second at two positions a second: four share one."""
    stream = streams.qwen2_5_vl(2.0)(Text(1), Video(frames=5, fps=4.0, rows=1, columns=2), Text(1))
    (finding,) = found(stream)
    assert finding.kind == "duplicates"
    assert finding.tokens == tuple(range(1, 9)), "the last step has a position for itself"
    assert found(Layout()(Points(torch.tensor([[1.0], [2.0], [1.0]]))))[0].tokens == (0, 2)


def test_variates_at_equal_times_are_no_duplicates():
    both = Together(Series([0.0, 1.0], 0), Series([0.0, 1.0], 1), order="time")
    assert found(Layout()(both)) == []


def test_pairs_that_share_a_position_are_told():
    (finding,) = found(Layout()(Text(2), Together(Text(1), Text(1)), Text(1)))
    assert (finding.kind, finding.tokens) == ("duplicates", (2, 3))


def test_a_cursor_or_text_that_goes_back():
    rule = Layout()
    stream = rule(*ROW)
    stale = dataclasses.replace(stream, cursor=torch.zeros(1, dtype=torch.float64))
    (finding,) = found(stale)
    assert finding.kind == "going back" and "cursor is at 0" in finding.message
    at_the_last = dataclasses.replace(stream, cursor=stream.coords[:, -1, 0].double())
    assert [finding.tokens for finding in found(at_the_last)] == [(stream.shape[1] - 1,)]
    second_turn = stream.join(rule.extend(stale, Text(2)))
    n = stream.shape[1]
    assert ("going back", (n, n + 1)) in [f[::2] for f in found(second_turn)]
    assert found(stream.join(rule.extend(stream, Text(2)))) == []
    assert found(stream[:, :5]) == []


def test_an_axis_beyond_its_longest_wavelength():
    fast = sections(geometric(6), (4, 1, 1))
    stream = Layout()(Text(3), Video([0.0, 900.0], 1, 2), Text(1))
    (finding,) = found(stream, fast)
    assert finding.kind == "wavelength" and finding.tokens == (0, 7)
    assert f"{2 * math.pi / fast[0][3]:g}" in finding.message
    assert found(stream, pm.Rotary(12, 3, frequencies=fast)) == [finding]
    assert found(stream, torch.tensor(fast).expand(2, 3, 6)) == found(stream, fast)
    assert found(stream, sections(geometric(6), (1, 1, 4)))[0].message.startswith("row 0: axis 0")
    slow = sections(geometric(6)[::-1], (1, 2, 3))
    assert [f for f in found(stream, slow) if "axis 0" in f.message] == []
    with pytest.raises(ValueError, match="3 axes"):
        stream.check(pm.Rotary(12, 1))


def test_layouts_that_are_no_rotation():
    stream = Layout().batch([[Text(3), Image(2, 3)], [Text(2)]], pad="left")
    wrong = pm.Rotary(24, 3, layout="vjepa2")
    findings = [f for f in found(stream, wrong) if f.kind == "no rotation"]
    assert [f.row for f in findings] == [0, 1]
    assert findings[0].tokens == tuple(range(1, 9)), "at 0 nothing turns"
    for layout in ("half", "interleaved"):
        assert found(stream, pm.Rotary(24, 3, layout=layout)) == []
    scaled = pm.Rotary(24, 3, scaling=pm.scaling.YaRN(4.0, original_length=64))
    assert [f for f in found(stream, scaled) if f.kind == "no rotation"] == []
    assert found(stream, pm.MixedRotary(24, heads=2, axes=3)) == []
    assert found(stream, pm.Sinusoidal(24, 3)) == []
