"""Published designs: the formulas once more, and numbers of the peers with their versions."""

import oracles_streams as oracles
import pytest
import torch

from posenc_mm import streams
from posenc_mm.streams import Audio, Image, Layout, Series, Text, Together, Video

# Text, a video of 3 x 2 x 3, text, an image of 2 x 2, text.
ROW = [Text(3), Video(frames=3, rows=2, columns=3), Text(3), Image(2, 2), Text(1)]
PLAIN = [
    ("text", 3), ("grid", [0, 1, 2], 2, 3), ("text", 3), ("grid", [0], 2, 2), ("text", 1),
]  # fmt: skip

# get_rope_index of transformers 4.57.1: time of tokens, for a video grid of (5, 4, 2) in patches,
# merged to 5 x 2 x 1, behind three tokens of text and before two.
HF_4_57_1 = {
    "qwen2_vl": [0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9],
    "qwen2_5_vl, 1 s": [0, 1, 2, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 12, 13],
    "qwen2_5_vl, 2 s": [0, 1, 2, 3, 3, 7, 7, 11, 11, 15, 15, 19, 19, 20, 21],
}

# get_t_scale_rope_index of VideoRoPE's authors (7712ca3), scale_factor=2.0, for ROW.
VIDEO_ROPE = [
    [0, 1, 2, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7, 8, 9, 10, 11, 11, 11, 11, 12],
    [0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8, 8, 9, 10, 11, 11, 12, 12, 12],
    [0, 1, 2, 2, 3, 4, 2, 3, 4, 4, 5, 6, 4, 5, 6, 6, 7, 8, 6, 7, 8, 8, 9, 10, 11, 12, 11, 12, 12],
]

# The code of MRoPE-I's authors (cd413b9), for text of 3, an image of 2 x 3, text of 4, an image of
# 2 x 4, text of 2: time and column of each.
IMAGES = [Text(3), Image(2, 3), Text(4), Image(2, 4), Text(2)]
MULTIMODAL_ROPES = {
    "mrope_i": (
        [0, 1, 2] + [3] * 6 + [6, 7, 8, 9] + [10] * 8 + [14, 15],
        [0, 1, 2, 0, 1, 2, 0, 1, 2, 6, 7, 8, 9, 0, 1, 2, 3, 0, 1, 2, 3, 14, 15],
    ),
    "video_rope": (
        [0, 1, 2] + [3] * 6 + [4, 5, 6, 7] + [8] * 8 + [9, 10],
        [0, 1, 2, 2, 3, 4, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 7, 8, 9, 10, 9, 10],
    ),
    "mm_rope": (
        [0, 1, 2] + [3] * 6 + [20, 21, 22, 23] + [24] * 8 + [49, 50],
        [0, 1, 2, 3, 11, 19, 3, 11, 19, 20, 21, 22, 23]
        + [24, 32, 40, 48, 24, 32, 40, 48, 49, 50],
    ),
}  # fmt: skip


def exact(stream, wanted):
    found = stream.coords[0].double()
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("preset", "oracle"),
    [
        (streams.qwen2_vl(), oracles.mrope(PLAIN)),
        (streams.qwen3_vl(), oracles.mrope(PLAIN)),
        (Layout(), oracles.mrope(PLAIN)),
        (streams.qwen2_vl("transformers>=5.3"), oracles.mrope(PLAIN, spatial_only=True)),
        (streams.video_rope(), oracles.diagonal(PLAIN, 2.0)),
        (streams.video_rope(0.75), oracles.diagonal(PLAIN, 0.75)),
        (streams.mrope_i(), oracles.reset(PLAIN, 1.0)),
        (streams.ilrope(4.0), oracles.reset(PLAIN, 4.0)),
        (streams.omnirope(2.5), oracles.reset(PLAIN, 2.5)),
        (streams.mm_rope(), oracles.scaled(PLAIN, (4.0, 8.0, 8.0))),
        (streams.v2pe(), oracles.spanned(PLAIN, 16.0)),
        (streams.v2pe(2.5), oracles.spanned(PLAIN, 2.5)),
    ],
)
def test_designs_are_their_formulas(preset, oracle):
    stream = preset(*ROW)
    exact(stream, oracle[0])
    assert stream.cursor.tolist() == [oracle[1]]


@pytest.mark.parametrize(("name", "times"), HF_4_57_1.items())
def test_qwen_as_trained(name, times):
    video = Video(frames=5, rows=2, columns=1)
    rule = streams.qwen2_vl()
    if name != "qwen2_vl":
        video = Video([k * float(name[-3]) for k in range(5)], 2, 1)
        rule = streams.qwen2_5_vl(2.0)
    stream = rule(Text(3), video, Text(2))
    assert stream.coords[0, :, 0].tolist() == times
    assert stream.coords[0, :, 1].tolist() == [0, 1, 2, *[3, 4] * 5, *times[-2:]]
    assert stream.coords[0, :, 2].tolist() == [0, 1, 2, *[3] * 10, *times[-2:]]


def test_text_after_a_long_video_is_behind_it_as_trained_and_inside_since_5_3():
    """64 steps of 4 x 4, two positions a step: 4.57.1 and 5.24.0 as they ran."""
    row = [Text(3), Video(frames=64, fps=1.0, rows=4, columns=4), Text(3)]
    trained = streams.qwen2_5_vl(2.0)(*row)
    assert trained.coords[0, 3:-3, 0].aminmax() == (3, 129)
    assert trained.coords[0, -3:, 0].tolist() == [130, 131, 132]
    assert trained.rope_delta.tolist() == [-897]
    later = streams.qwen2_5_vl(2.0, "transformers>=5.3")(*row)
    assert later.coords[0, -3:, 0].tolist() == [7, 8, 9]
    assert torch.equal(later.coords[:, :-3], trained.coords[:, :-3])


def test_video_rope_of_its_authors():
    exact(streams.video_rope()(*ROW), list(zip(*VIDEO_ROPE, strict=True)))


@pytest.mark.parametrize("name", MULTIMODAL_ROPES)
def test_designs_of_the_authors_of_mrope_i(name):
    time, column = MULTIMODAL_ROPES[name]
    stream = getattr(streams, name)()(*IMAGES)
    assert stream.coords[0, :, 0].tolist() == time
    assert stream.coords[0, :, 2].tolist() == column


def test_three_names_of_one_design():
    assert streams.mrope_i is streams.ilrope is streams.omnirope


@pytest.mark.parametrize(("span", "patches"), [(16.0, 7), (16.0, 3), (1.0, 4), (0.25, 300)])
def test_an_image_of_any_size_spans_the_same(span, patches):
    stream = streams.v2pe(span)(Text(2), Image(1, patches), Text(1))
    wanted, cursor = oracles.spanned([("text", 2), ("grid", [0], 1, patches), ("text", 1)], span)
    exact(stream, wanted)
    assert stream.cursor.tolist() == [cursor]


def test_a_span_that_counts_is_plain_rope():
    stream = Layout(span="count")(*ROW)
    assert torch.equal(stream.coords[0], torch.arange(29.0)[:, None].expand(-1, 3))


def test_times_that_miss_whole_numbers_by_rounding_are_whole():
    """3 * 0.7 * 10 is 20.999999999999996, and 20 if cut off."""
    stream = streams.qwen2_5_vl(10.0)(Video([k * 0.7 for k in range(40)], 1, 1))
    assert stream.coords[0, :, 0].tolist() == [7 * k for k in range(40)]


def test_a_cursor_that_misses_a_whole_number_by_rounding_is_not_rounded_up():
    """6 * 0.1 * 10 is 6.000000000000001."""
    rule = Layout(scale=(10.0,), quantise="cursor")
    assert rule(Audio([0.0, 6 * 0.1]), Text(1)).coords[0, -1, 0] == 7
    assert rule(Audio([0.0, 0.61]), Text(1)).coords[0, -1, 0] == 8


@pytest.mark.parametrize("chunk", [None, 2.0])
def test_video_and_sound_on_one_clock(chunk):
    times = [0.0, 1.0, 2.0, 2.6, 3.5]
    both = Together(Video(times, 1, 2), Audio(count=90, rate=25), order="time", chunk=chunk)
    stream = streams.qwen2_5_omni()(Text(4), both, Together(Text(1), Text(1)), Text(1))
    video = ([25 * t for t in times[:3]] + [65, 87], 1, 2)
    wanted = oracles.merged(4, video, range(90), chunk and 50)
    exact(stream[:, 4:-3], wanted)
    assert stream.coords[0, -3:, 1].tolist() == [94, 94, 95], "the last pair shares a position"


def test_sound_of_qwen3_omni_counts_whole_positions():
    stream = streams.qwen3_omni(13.0)(Audio(count=400, rate=13.0), Text(1))
    assert stream.coords[0, :, 0].tolist() == list(range(401))


# What follows is from diffusers at 58eb52c.


def test_lumina2():
    stream = streams.lumina2()(Text(3), Image(2, 2))
    exact(stream, [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [3, 0, 1], [3, 1, 0], [3, 1, 1]])


def test_flux1():
    stream = streams.flux1()(Text(2), Image(2, 1), Image(1, 2, time=1.0))
    exact(stream, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 1]])


def test_flux2():
    stream = streams.flux2()(Text(2), Image(1, 2), Image(1, 1, time=10.0), Image(2, 1, time=20.0))
    exact(stream, [
        [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0], [10, 0, 0, 0], [20, 0, 0, 0],
        [20, 1, 0, 0],
    ])  # fmt: skip


def test_qwen_image():
    images = Together(Image(3, 2, time=0.0), Image(2, 1, time=1.0))
    stream = streams.qwen_image()(images, Text(2))
    exact(stream, [
        [0, -2, -1], [0, -2, 0], [0, -1, -1], [0, -1, 0], [0, 0, -1], [0, 0, 0], [1, -1, -1],
        [1, 0, -1], [1, 1, 1], [2, 2, 2],
    ])  # fmt: skip


def test_cosmos3():
    video, sound = Video(frames=3, rows=1, columns=2, fps=16 / 4), Audio(count=3, rate=24 / 4)
    action = Series(count=2, rate=10.0, start=0.1)
    stream = streams.cosmos3()(Text(7), Together(video, sound, action), Text(1))
    wanted = [[15007 + 1.5 * (k // 2), 0, k % 2] for k in range(6)]
    wanted += [[15007 + k, 0, 0] for k in range(3)]
    wanted += [[15007 + 0.6, 0, 0], [15007 + 1.2, 0, 0], [15011, 15011, 15011]]
    torch.testing.assert_close(
        stream.coords[0, 7:], torch.tensor(wanted).double(), rtol=0, atol=1e-3
    )
    assert stream.cursor.tolist() == [15012]


def test_a_margin_is_between_text_and_what_follows_it_alone():
    rule = Layout(margin=100.0)
    whole = rule(Text(2), Image(1, 1), Image(1, 1), Text(1), Image(1, 1))
    assert whole.coords[0, :, 0].tolist() == [0, 1, 102, 103, 104, 205]
    continued = rule.extend(whole[:, :2], Image(1, 1))
    assert continued.coords[0, :, 0].tolist() == [306], "the cursor is that of the whole"
    new = rule.extend(rule(Text(2)), Image(1, 1))
    assert new.coords[0, :, 0].tolist() == [102]


@pytest.mark.parametrize("preset", [streams.qwen2_vl, lambda r: streams.qwen2_5_vl(2.0, r)])
def test_unknown_releases_are_refused(preset):
    with pytest.raises(ValueError, match="release must be one of"):
        preset("4.57")
