"""Mistakes that were made elsewhere: each is right here, or an error that says what to do."""

import pytest
import torch

import posenc_mm as pm
from posenc_mm import streams
from posenc_mm.streams import (
    Audio,
    Image,
    Layout,
    Points,
    Series,
    Text,
    Together,
    Video,
    from_hf,
    layout,
    pack,
    pad,
)


def times(stream):
    return stream.coords[0, :, 0].tolist()


def test_the_start_of_a_video_is_not_scaled_with_its_times():
    stream = streams.qwen2_5_vl(2.0)(Text(20), Video(frames=3, fps=1.0, rows=1, columns=1))
    assert times(stream)[20:] == [20, 22, 24]


def test_still_images_are_not_moved_by_seconds():
    for rule in (streams.qwen2_5_vl(25.0), streams.qwen3_omni(13.0), Layout(scale=(25.0,))):
        stream = rule(Text(3), Image(2, 2), Image(1, 1))
        assert times(stream) == [0, 1, 2, 3, 3, 3, 3, 5]


@pytest.mark.parametrize("fps", [3.0, 8.0, 30.0])
def test_no_frame_rate_makes_one_moment_of_a_video(fps):
    stream = streams.qwen3_omni(25.0)(Video(frames=60, fps=fps))
    assert len(set(times(stream))) == 60
    assert times(stream)[-1] == pytest.approx(59 * 25 / fps)


def test_seconds_that_are_missing_are_not_made_up():
    for rule, block in (
        (streams.qwen2_5_vl(2.0), Video(frames=3, rows=2, columns=2)),
        (streams.qwen2_5_omni(), Audio(count=3)),
        (Layout(clock=0.0), Series(count=3)),
    ):
        with pytest.raises(ValueError, match="give it times, fps or rate"):
            rule(block)
    with pytest.raises(ValueError, match="all have seconds"):
        layout(Together(Video(frames=3), Audio([0.0, 1.0])))


def test_positions_beyond_256_stay_apart_in_a_bfloat16_model():
    stream = streams.flux1()(Text(4), Image(3, 2048))
    columns = stream.coords[0, 4:, 2].unique()
    assert len(columns) == 2048 and columns.max() == 2047
    x = torch.ones(1, 1, 3, 4, dtype=torch.bfloat16)
    rotary = pm.Rotary(4, frequencies=[[1.0, 0.1]]).bfloat16()
    for near in ([256, 257, 258], [1003, 1004, 1005]):
        turned = pm.rotate(x, rotary(torch.tensor(near)[:, None].float()))[0, 0]
        assert len(turned.unique(dim=0)) == 3


def test_a_document_of_one_token_is_a_document():
    """Boundaries are written down, not read off positions that fall: 0 after 0 does not."""
    packed = pack([layout(Text(1)), layout(Text(1)), layout(Text(2))])
    assert packed.segment.tolist() == [[0, 1, 2, 2]]
    assert times(packed) == [0, 0, 0, 1]


def test_the_batch_comes_first_and_the_axes_last():
    stream = Layout().batch([[Text(4)], [Image(2, 2)]])
    halves = stream.coords.chunk(2, dim=0), stream.coords.chunk(2, dim=1)
    assert [part.shape for each in halves for part in each] == [(1, 4, 3)] * 2 + [(2, 2, 3)] * 2


def test_an_image_is_where_it_is_whatever_the_prompt_or_its_padding():
    rule = streams.qwen_image()
    image = Together(Image(3, 5, time=0.0))
    short, long = rule(image, Text(2)), rule(image, Text(5000))
    batch = pad([short, long])
    assert torch.equal(batch.coords[0, :17], batch.coords[1, :17])
    assert times(long)[-1] == 2 + 4999, "there is no table to run out of"


def test_a_temporal_patch_is_taken_into_account_once():
    """25 frames a second, 8 to a latent: latents are 0.32 s apart, not 0.04 and not 2.56."""
    video = Video(frames=33, fps=25.0, patch=8)
    assert times(layout(video)) == pytest.approx([0.0, 0.32, 0.64, 0.96, 1.28])


def test_text_of_any_length_is_counted():
    assert times(layout(Text(300_000)))[-1] == 299_999
    far = Layout().extend(layout(Text(2**20)), Text(3))
    assert times(far) == [2**20, 2**20 + 1, 2**20 + 2]


def test_nothing_is_read_back_from_the_device_to_continue():
    """A tensor on meta has no values that could be read."""
    rule = Layout(margin=3.0, quantise="cursor")
    stream = rule.batch([[Text(3), Image(2, 2)], [Text(1)]], pad="left").to("meta")
    more = (Text(1), Image(2, 3), Together(Video([0.0, 0.5], 1, 1), Audio([0.1]), order="time"))
    new = rule.extend(stream, *more)
    assert new.coords.device.type == "meta" and new.coords.shape == (2, 10, 3)
    assert stream.join(new)[:, 4:].keep(torch.zeros(2, 3).long()).repeat(2).shape == (4, 3)


def test_the_default_device_is_where_streams_are_made():
    with torch.device("meta"):
        assert layout(Text(2), Image(2, 2), Video([0.1], 1, 1)).cursor.device.type == "meta"
    assert layout(Text(2), device="meta").coords.device.type == "meta"


def test_lists_of_python_numbers_are_not_rounded():
    for given in ([0.0, 0.1], torch.tensor([0.0, 0.1], dtype=torch.float64), (0, 0.1)):
        assert times(layout(Audio(given)))[1] == 0.1
    unix = [1_700_000_000.25, 1_700_000_000.5]
    assert times(layout(Series(unix))) == [0, 0.25]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Text(-1), "count must be a whole number"),
        (lambda: Text(2, times=[0.0]), "one number for each of 2 tokens"),
        (lambda: Text(1, times=["now"]), "must be numbers"),
        (lambda: Image(0, 2), "rows must be a whole number"),
        (lambda: Image(2, 2, time=float("nan")), "time must be a finite number"),
        (lambda: Video(rows=2, columns=2), "either times or frames"),
        (lambda: Video([0.0], frames=1), "either times or frames"),
        (lambda: Video([0.0, float("inf")]), "finite"),
        (lambda: Video([[0.0]]), "sequence of finite numbers"),
        (lambda: Video([0.0], fps=2.0), "follow from times"),
        (lambda: Video([0.0], patch=2), "patch is for frames"),
        (lambda: Video(frames=2, fps=0.0), "fps must be a finite number above"),
        (lambda: Video(frames=2, start=1.0), "needs fps"),
        (lambda: Audio(True), "must be"),
        (lambda: Series([0.0], variate=-1), "variate must be"),
        (lambda: Points([[0.0]]), "must be a tensor"),
        (lambda: Points(torch.zeros(2, 2).half()), "rounded them already"),
        (lambda: Together(), "one or more"),
        (lambda: Together(Together(Text(1))), "of one level"),
        (lambda: Together(Text(1), order="row"), "order must be"),
        (lambda: Together(Text(1), chunk=2.0), "which alone takes a chunk"),
        (lambda: layout(Together(Text(1), Audio([0.0]), order="time")), "must all have times"),
        (lambda: layout("text"), "segments must be of Text, Image"),
        (lambda: Layout(axes=2)(Image(2, 2)), "need three axes"),
        (lambda: Layout(axes=2)(Points(torch.zeros(1, 3))), "points of 3 axes"),
        (lambda: Layout(scale=2.0), "one per axis"),
        (lambda: Layout(scale=(1.0, -1.0)), "scale must be a finite number above"),
        (lambda: Layout(scale=(1.0,) * 4), "3 axes at most"),
        (lambda: Layout(anchor="space"), "anchor must be 'all'"),
        (lambda: Layout(text=(3,)), "numbers of 3 axes"),
        (lambda: Layout(anchor=(0, 0)), "numbers of 3 axes"),
        (lambda: Layout(advance="all"), "advance must be one of"),
        (lambda: Layout(centre="middle"), "centre must be one of"),
        (lambda: Layout(span=0.0), "span must be"),
        (lambda: Layout(margin=-1.0), "margin must be"),
        (lambda: Layout(clock=0.0, time="frames"), "clock needs"),
        (lambda: Layout(dtype=torch.bfloat16), "dtype must be"),
        (lambda: Layout().batch([]), "at least one"),
        (lambda: from_hf(torch.tensor([[1, 1]]), [[1, 2, 2]]), "grid for each"),
        (lambda: from_hf(torch.tensor([[1]]), [[1, 4, 4]]), "3 tokens more"),
        (lambda: from_hf(torch.tensor([[0]]), [[1, 4, 4]]), "more than the blocks"),
        (lambda: from_hf(torch.tensor([[3]])), "got type 3"),
        (lambda: from_hf(torch.tensor([[0]]), [[4, 4]]), "time, rows, columns"),
        (lambda: from_hf(torch.tensor([[2]]), (), [[1, 2, 2]], seconds=[]), "one per video"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_was_wanted(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_grids_are_merged_by_what_is_said():
    (row,) = from_hf(torch.tensor([[0] + [1] * 6]), [[1, 6, 9]], merge=3)
    assert row[1:] == [Image(2, 3)]


def test_chunks_need_seconds():
    both = Together(Video([0.0, 1.0]), Audio([0.0]), order="time", chunk=2.0)
    with pytest.raises(ValueError, match="chunk is in seconds"):
        Layout(time="frames")(both)


def test_columns_that_do_not_fit_are_refused():
    stream = layout(Text(3))
    with pytest.raises(ValueError, match="segment must have shape"):
        type(stream)(**{**vars(stream), "segment": stream.segment[:, 1:]})
    with pytest.raises(ValueError, match="takes a device"):
        stream.to(torch.float64)
    with pytest.raises(IndexError):
        stream[1]
