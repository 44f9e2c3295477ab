"""Position ids of transformers' own models, as installed (5.24 and later)."""

from types import SimpleNamespace

import pytest
import torch

from posenc_mm import streams
from posenc_mm.streams import Audio, Image, Text, Together, Video, from_hf

pytest.importorskip("transformers")

VISION, IMAGE, VIDEO, SOUND, SOUND_START, WORD = 1, 2, 3, 5, 6, 9
SINCE = "transformers>=5.3"
# Text, an image, text, a video, text: token types, grids before merging by 2.
TYPES = [0] * 3 + [1] * 6 + [0] * 2 + [2] * (5 * 2 * 3) + [0] * 4
IMAGES, VIDEOS = torch.tensor([[1, 4, 6]]), torch.tensor([[5, 4, 6]])


def model(kind, **vision):
    config = {
        "vision_config": SimpleNamespace(spatial_merge_size=2, **vision),
        "image_token_id": IMAGE,
        "video_token_id": VIDEO,
        "audio_token_id": SOUND,
        "vision_start_token_id": VISION,
        "audio_start_token_id": SOUND_START,
        "position_id_per_seconds": vision.get("tokens_per_second"),
        "seconds_per_chunk": 2,
        "audio_config": SimpleNamespace(n_window=50),
    }
    stub = SimpleNamespace(config=SimpleNamespace(**config), spatial_merge_size=2)
    for name in ("get_vision_position_ids", "get_llm_pos_ids_for_vision", "get_chunked_index"):
        if hasattr(kind, name):
            setattr(stub, name, getattr(kind, name).__get__(stub))
    return kind.get_rope_index.__get__(stub)


def padded_batch():
    """The row, and a text alone padded on the left."""
    types = torch.tensor([TYPES, [0] * len(TYPES)])
    mask = torch.ones_like(types)
    mask[1, :-7] = 0
    return types, mask


def near(stream, ids, deltas):
    found = stream.to_hf()
    torch.testing.assert_close(found, ids.to(found.dtype), rtol=0, atol=1e-4)
    assert stream.rope_delta.tolist() == pytest.approx(deltas.flatten().tolist(), abs=1e-4)


def test_qwen2_vl():
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    types, mask = padded_batch()
    ids, deltas = model(Qwen2VLModel)(types, types, IMAGES, VIDEOS, mask)
    rows = from_hf(types, IMAGES, VIDEOS, mask=mask)
    # Deltas are behind all tokens, as decoding goes on; 5.24's cursor for text is not.
    stream = streams.qwen2_vl(SINCE).batch(rows, pad="left")
    assert torch.equal(stream.to_hf(), ids)
    assert (ids[:, 0].max() + 1 - len(TYPES)).item() == deltas[0].item()
    assert stream.rope_delta[1].item() == deltas[1].item() == 0


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0, 3.0, 4.0, 7.0, 12.5, 23.976, 29.97, 30.0])
@pytest.mark.parametrize("per_second", [2, 4, 25])
def test_qwen2_5_vl_at_any_frame_rate(rate, per_second):
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

    steps = 40
    types = torch.tensor([[0] * 3 + [2] * (steps * 6) + [0] * 4])
    grid, step = torch.tensor([[steps, 4, 6]]), torch.tensor([2 / rate])
    peer = model(Qwen2_5_VLModel, tokens_per_second=per_second)
    ids, _ = peer(types, types, None, grid, step)
    rule = streams.qwen2_5_vl(per_second, SINCE)
    for video in (
        from_hf(types, (), grid, seconds=step)[0][1],
        Video(frames=2 * steps, fps=rate, patch=2, rows=2, columns=3),
    ):
        assert torch.equal(rule(Text(3), video, Text(4)).to_hf(), ids)


def test_qwen3_vl_has_an_image_for_each_time_step():
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

    types = torch.tensor([[0] * 3 + [2] * 6 + [0] * 4 + [2] * 6 + [0] * 2])
    ids, deltas = model(Qwen3VLModel)(types, types, None, torch.tensor([[2, 4, 6]]))
    row = [Text(3), Image(2, 3), Text(4), Image(2, 3), Text(2)]
    near(streams.qwen3_vl()(*row), ids, deltas)


def test_ernie_merges_frames_in_time():
    from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie

    types = torch.tensor([[0] * 3 + [2] * (3 * 2 * 3) + [0] * 4])
    peer = model(ernie.Ernie4_5_VLMoeModel, temporal_merge_size=2)
    ids, _ = peer(types, types, None, torch.tensor([[6, 4, 6]]))
    video = Video(frames=6, patch=2, rows=2, columns=3)
    assert torch.equal(streams.qwen2_vl(SINCE)(Text(3), video, Text(4)).to_hf(), ids)


def tokens(*parts):
    return torch.tensor([[kind for kind, count in parts for _ in range(count)]])


def test_qwen2_5_omni_video_with_its_sound():
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
        Qwen2_5OmniPreTrainedModelForConditionalGeneration as Omni,
    )

    sound = 130
    ids_in = tokens(
        (WORD, 3), (VISION, 1), (SOUND_START, 1), (VIDEO, 5 * 6), (SOUND, sound), (WORD, 2),
        (WORD, 3),
    )  # fmt: skip
    features = torch.tensor([4 * sound])
    peer = model(Omni, tokens_per_second=25)
    mask = torch.ones_like(ids_in)
    ids, deltas = peer(ids_in, None, VIDEOS, mask, True, features, torch.tensor([1.0]))
    pair = Together(Text(1), Text(1))
    video = Video(frames=5, fps=1.0, rows=2, columns=3)
    both = Together(video, Audio(count=sound, rate=25), order="time", chunk=2.0)
    near(streams.qwen2_5_omni()(Text(3), pair, both, pair, Text(3)), ids, deltas)


@pytest.mark.parametrize("step", [1.0, 0.4])
def test_qwen3_omni_video_with_its_sound(step):
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as omni

    features = torch.tensor([600])
    sound = int(omni._get_feat_extract_output_lengths(features, 50))
    ids_in = tokens(
        (WORD, 3), (VISION, 1), (SOUND_START, 1), (VIDEO, 5 * 6), (SOUND, sound), (WORD, 2),
        (WORD, 3),
    )  # fmt: skip
    kind = omni.Qwen3OmniMoePreTrainedModelForConditionalGeneration
    peer = model(kind, tokens_per_second=13)
    mask = torch.ones_like(ids_in)
    ids, deltas = peer(ids_in, None, VIDEOS, mask, True, features, torch.tensor([step]))
    video = Video(frames=5, fps=1 / step, rows=2, columns=3)
    both = Together(video, Audio(count=sound, rate=13), order="time")
    near(streams.qwen3_omni(13)(Text(5), both, Text(5)), ids, deltas)


@pytest.mark.parametrize("image", [(1, 4, 6), (1, 2, 2), (1, 2, 8)])
def test_qwen3_omni_with_an_image(image):
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as omni

    kind = omni.Qwen3OmniMoePreTrainedModelForConditionalGeneration
    rows, columns = image[1] // 2, image[2] // 2
    ids_in = tokens((WORD, 3), (VISION, 1), (IMAGE, rows * columns), (WORD, 4))
    mask = torch.ones_like(ids_in)
    ids, deltas = model(kind, tokens_per_second=13)(ids_in, torch.tensor([image]), None, mask)
    near(streams.qwen3_omni(13)(Text(4), Image(rows, columns), Text(4)), ids, deltas)
