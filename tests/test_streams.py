"""Laws of layouts: what coordinates depend on, and what they keep."""

import dataclasses
import math

import oracles_streams as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm.streams import (
    Audio,
    Image,
    Layout,
    Modality,
    Points,
    Series,
    Text,
    Together,
    Video,
    layout,
)

IRREGULAR = [0.0, 0.4, 0.5, 2.25, 7.0]


def coords(stream, row=0):
    return stream.coords[row][stream.mask[row]].double()


def exact(stream, wanted):
    wanted = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(coords(stream), wanted, rtol=0, atol=0)


def test_two_images_are_both_placed_on_the_grid():
    stream = layout(Text(3), Image(2, 2), Text(2), Image(2, 2), Text(1))
    time, row, column = stream.coords[0].T.tolist()
    assert time == [0, 1, 2, 3, 3, 3, 3, 5, 6, 7, 7, 7, 7, 9]
    assert row == [0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9]
    assert column == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 7, 8, 9]
    assert stream.cursor.tolist() == [10] and stream.rope_delta.tolist() == [-4]
    assert stream.block[0].tolist() == [-1] * 3 + [0] * 4 + [-1] * 2 + [1] * 4 + [-1]
    assert stream.modality[0].tolist() == [1] * 3 + [2] * 4 + [1] * 2 + [2] * 4 + [1]


def test_images_of_unequal_size():
    stream = layout(Text(2), Image(2, 3), Text(2), Image(1, 1), Text(2))
    exact(stream, oracles.mrope([
        ("text", 2), ("grid", [0], 2, 3), ("text", 2), ("grid", [0], 1, 1), ("text", 2),
    ])[0])  # fmt: skip


def test_a_text_only_row_turns_as_plain_rope_bit_for_bit():
    """Alone, and beside a row of two images that pads it on the left."""
    rows = [[Text(3), Image(2, 2), Text(2), Image(2, 2), Text(1)], [Text(6)]]
    stream = Layout().batch(rows, pad="left")
    own = stream.coords[1][stream.mask[1]]
    assert own.tolist() == [[k] * 3 for k in range(6)]
    assert stream.cursor.tolist() == [10, 6]
    assert stream.rope_delta.tolist() == [-4, 0]
    ladder = pm.geometric(12)
    axes = [slice(0, 4), slice(4, 7), slice(7, 12)]
    matrix = [[f if k in range(12)[s] else 0.0 for k, f in enumerate(ladder)] for s in axes]
    x = torch.randn(2, 3, 6, 24)
    plain = pm.rotate(x, pm.Rotary(24)(pm.sequence(6)))
    for positions in (own, layout(Text(6)).coords[0]):
        turned = pm.rotate(x, pm.Rotary(24, axes=3, frequencies=matrix)(positions))
        assert torch.equal(turned, plain)


@pytest.mark.parametrize("block", [Image(1, 1), Video(frames=1), Video([3.5])])
def test_a_block_of_one_patch_is_one_position(block):
    exact(layout(Text(2), block, Text(2)), [[k] * 3 for k in range(5)])


def test_a_video_of_one_row_or_one_column():
    exact(layout(Video(frames=2, rows=1, columns=3), Text(1)), [
        [0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 0, 1], [1, 0, 2], [3, 3, 3],
    ])  # fmt: skip
    exact(layout(Video(frames=2, rows=3, columns=1), Text(1)), [
        [0, 0, 0], [0, 1, 0], [0, 2, 0], [1, 0, 0], [1, 1, 0], [1, 2, 0], [3, 3, 3],
    ])  # fmt: skip


def test_any_spacing_of_frames():
    rule = Layout(scale=(4.0,))
    stream = rule(Text(2), Video(IRREGULAR, 2, 3), Text(2))
    row = [("text", 2), ("grid", [4 * t for t in IRREGULAR], 2, 3), ("text", 2)]
    exact(stream, oracles.mrope(row)[0])


def test_times_stay_what_they_are():
    """In no dtype of a model: 998.3897 would be 1000 in bfloat16."""
    stream = layout(Video([0.0, 998.3897], 1, 1)).to("cpu")
    model = torch.nn.Linear(2, 2).bfloat16()
    model.stream = stream
    assert model.bfloat16().stream.coords[0, 1, 0].item() == 998.3897
    assert stream.coords.dtype == torch.float64
    angle = pm.Rotary(2, frequencies=[[1.0]])(stream.positions("time"))
    assert angle.cos[0, 1, 0].item() == pytest.approx(math.cos(998.3897), abs=1e-12)
    with pytest.raises(ValueError, match="never cast"):
        stream.to(torch.bfloat16)
    with pytest.raises(ValueError, match="float32 or float64"):
        dataclasses.replace(stream, coords=stream.coords.bfloat16())
    with pytest.raises(ValueError, match="rounded them already"):
        Video(torch.tensor([998.3897]).bfloat16(), 1, 1)


def test_numbers_are_in_float32_only_where_it_holds_them():
    assert layout(Text(2), Image(2, 3), Video([0.0, 0.125], 1, 1)).coords.dtype == torch.float32
    for block in (Video([0.0, 0.1], 1, 1), Audio([0.0, 2.0**20]), Points(torch.tensor([[0.1]]))):
        assert layout(block).coords.dtype == torch.float64
    unix = [1.7e9, 1.7e9 + 0.001]
    stream = Layout(clock=0.0)(Series(unix))
    assert stream.coords[0, :, 0].tolist() == unix
    assert Layout(dtype=torch.float32)(Audio([0.0, 0.1])).coords.dtype == torch.float32


def test_twice_the_frame_rate_leaves_scores_at_common_times():
    rule = Layout(scale=(2.0,))
    slow, fast = (
        rule(Text(3), Video(frames=n, fps=fps, rows=2, columns=3))
        for n, fps in ((4, 1.0), (8, 2.0))
    )
    encoding = pm.Rotary(24, axes=3)
    x = torch.randn(4, 6, 24, dtype=torch.float64)
    x_fast = x.repeat_interleave(2, 0)
    scores = []
    for stream, patches in ((slow, x), (fast, x_fast)):
        text = torch.ones(3, 24, dtype=torch.float64)
        tokens = torch.cat((text, patches.flatten(0, 1)))[None, None]
        turned = pm.rotate(tokens, encoding(stream.coords.double()))[0, 0]
        scores.append(turned @ turned.T)
    every_other = [0, 1, 2, *(3 + 12 * t + k for t in range(4) for k in range(6))]
    common = scores[1][every_other][:, every_other]
    torch.testing.assert_close(common, scores[0], rtol=0, atol=1e-12)


def test_equal_seconds_are_equal_times_whatever_the_modality():
    times = [0.3, 1.1, 4.0]
    for rule in (Layout(scale=(25.0,)), Layout(scale=(25.0,), clock=0.1), Layout(couple=True)):
        stream = rule(
            Text(4),
            Together(
                Video(times, 2, 2),
                Audio(torch.tensor(times, dtype=torch.float64)),
                Series(times, variate=1),
                Text(3, times=times),
            ),
        )
        time = stream.coords[0, 4:, 0]
        video, rest = time[:12:4], time[12:].reshape(3, 3)
        assert all(torch.equal(video, each) for each in rest)
        assert len(video.unique()) == 3


def test_siblings_begin_with_the_earliest_of_them():
    stream = layout(Text(2), Together(Audio([1.5, 2.0]), Video([1.0, 2.0], 1, 1)), Text(1))
    assert stream.coords[0, :, 0].tolist() == [0, 1, 2.5, 3, 2, 3, 4]


def test_siblings_by_time_keep_their_order_where_times_are_equal():
    both = Together(Video([0.0, 2.0], 1, 2), Audio([0.0, 1.0, 2.0]), order="time")
    stream = layout(both)
    assert stream.coords[0, :, 0].tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert stream.modality[0].tolist() == [3, 3, 4, 4, 3, 3, 4]
    assert stream.block[0].tolist() == [0, 0, 1, 1, 0, 0, 1]


def test_any_number_of_siblings():
    four = Together(Video([0.0], 2, 2), Audio([0.0]), Series([0.0], 1), Image(1, 3), Audio([0.0]))
    stream = layout(Text(1), four, Text(1))
    assert stream.coords[0, -1].tolist() == [4, 4, 4], "behind the widest of them"
    assert stream.block[0, 1:-1].unique().tolist() == [0, 1, 2, 3, 4]


def test_one_clock_for_several_blocks():
    """Negative and fractional times included: memory before the start of the clock."""
    rule = Layout(scale=(2.0,), clock=10.0)
    stream = rule(Video([8.5, 10.0], 1, 1), Text(1), Audio([8.5, 12.25]), Text(1))
    assert stream.coords[0, :, 0].tolist() == [-3, 0, 1, -3, 4.5, 5.5]


def test_timed_text_and_series_lie_on_the_diagonal_of_text():
    stream = layout(Text(2), Text(2, times=[5.0, 6.5]), Series([1.0, 3.0], variate=7))
    exact(stream, [[k] * 3 for k in (0, 1, 2, 3.5, 4.5, 6.5)])
    assert stream.variate[0].tolist() == [-1, -1, -1, -1, 7, 7]
    assert stream.block[0].tolist() == [-1, -1, 0, 0, 1, 1]
    assert stream.modality[0, 2:].tolist() == [Modality.TEXT] * 2 + [Modality.SERIES] * 2


def test_points_are_where_they_say():
    where = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, 4.0]])
    stream = Layout(scale=(2.0, 1.0, 1.0))(Text(1), Points(where), Text(1))
    exact(stream, [[0, 0, 0], [2, 0, 3], [4, 1, 5], [6, 6, 6]])
    flat = Layout(axes=4, anchor="none")(Text(1), Points(where[:, :2]))
    exact(flat, [[0, 0, 0, 0], [0.5, -1, 0, 0], [1.5, 0, 0, 0]])


@pytest.mark.parametrize(
    ("centre", "rows"),
    [
        ("none", [0, 1, 2, 3]),
        ("floor", [-1, 0, 1, 2]),
        ("ceil", [-2, -1, 0, 1]),
        ("exact", [-1.5, -0.5, 0.5, 1.5]),
        ("unit", [-0.75, -0.25, 0.25, 0.75]),
    ],
)
def test_centres(centre, rows):
    stream = Layout(centre=centre, scale=(1.0, 2.0))(Image(4, 1))
    assert stream.coords[0, :, 1].tolist() == [2 * row for row in rows]


@pytest.mark.parametrize("anchor", ["all", "time"])
def test_where_a_prompt_is_changes_scores_only_where_space_is_reset(anchor):
    """No shift of all text and images is seen if all axes begin at the cursor; with a spatial
    reset it is, between a text and an image, though neither within the text nor the image."""
    rule, encoding = Layout(anchor=anchor), pm.Rotary(24, axes=3)
    tokens = torch.randn(1, 1, 3 + 6, 24, dtype=torch.float64)
    scores = []
    for before in (0, 50):
        stream = rule(Text(before), Text(3), Image(2, 3))[:, before:]
        turned = pm.rotate(tokens, encoding(stream.coords.double()))[0, 0]
        scores.append(turned @ turned.T)
    change = (scores[1] - scores[0]).abs()
    assert change[:3, :3].max() < 1e-12 and change[3:, 3:].max() < 1e-12
    assert (change[:3, 3:].max() < 1e-12) == (anchor == "all")


def test_the_cursor_never_goes_back():
    for advance in ("max", "time", "space", "none"):
        rule = Layout(advance=advance, clock=100.0)
        stream = rule(Text(5), Audio([0.0, 1.0]), Points(torch.tensor([[-50.0]])), Text(1))
        assert stream.coords[0, -1, 0] >= 5


def test_empty_rows_and_blocks():
    assert layout().coords.shape == (1, 0, 3)
    assert layout(Text(0), Audio([]), Text(2)).coords[0, :, 0].tolist() == [0, 1]
