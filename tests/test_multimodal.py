"""Rows of speech, pictures and text: nothing leaks, and answers are what was said and shown."""

import io
import math
import tarfile
import urllib.request
import wave

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from multimodal import data, designs, rows
from multimodal.data import Material
from multimodal.model import Answerer
from multimodal.rows import KINDS, Setting, draw, log_mel
from posenc_mm.streams import Modality


def wav(samples, rate=8000):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(np.asarray(samples, dtype="<i2").tobytes())
    return file.getvalue()


def tone(digit, seconds=0.5):
    """A hum by which a digit is told: 250 Hz and 300 more for each."""
    return torch.sin(2 * math.pi * (250 + 300 * digit) * torch.arange(int(8000 * seconds)) / 8000)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "made" / "recordings"
    made.mkdir(parents=True)
    for digit in range(10):
        for speaker in ("ann", "bob"):
            for index in range(12):
                loud = 100 + 20 * index + (3000 if speaker == "bob" else 0)
                content = wav((loud * tone(digit, 0.1)).numpy())
                (made / f"{digit}_{speaker}_{index}.wav").write_bytes(content)
    return made


@pytest.fixture
def material():
    """Each digit is a hum of its own, and a picture of one grey of its own."""
    every = torch.arange(10)
    grey = (every / 10)[:, None, None].expand(10, 8, 8)
    return Material(("",) * 10, tuple(tone(d) for d in range(10)), every, grey, every)


def test_nothing_tested_was_trained_on(folder):
    parts = data.load(str(folder))
    assert {part: len(own.sounds) for part, own in parts.items()} == {
        "train": 140, "validation": 20, "test": 40,
    }  # fmt: skip
    names = [name for own in parts.values() for name in own.names]
    assert len(set(names)) == len(names) == 200
    indices = {part: {int(name[6:-4]) for name in own.names} for part, own in parts.items()}
    assert indices == {"train": set(range(3, 10)), "validation": {2}, "test": {0, 1}}
    for own in parts.values():
        assert [int(name[0]) for name in own.names] == own.said.tolist()
        assert len(own.pictures) == len(own.shown)
    from sklearn.datasets import load_digits

    pictures = torch.cat([parts[part].pictures for part in ("train", "validation", "test")])
    assert torch.equal(pictures, torch.tensor(load_digits().images / 16, dtype=torch.float32))


def test_the_real_recordings_are_those_of_the_published_archive(data_dir):
    found = data.find(str(data_dir))
    files = data._files(found)
    assert len(files) == 600 and data.digest(files) == data.SHA256
    parts = data.load(str(data_dir))
    assert [len(parts[part].sounds) for part in ("train", "validation", "test")] == [420, 60, 120]
    for part in parts.values():
        assert part.said.bincount().tolist() == [len(part.said) // 10] * 10
    heard = [sound.numpy().tobytes() for part in parts.values() for sound in part.sounds]
    assert len(set(heard)) == 600, "no recording is there twice under two names"


def test_an_archive_is_read_as_its_folder_is(folder, tmp_path):
    with tarfile.open(tmp_path / "spoken_digits.tar.xz", "w:xz") as archive:
        archive.add(folder, "spoken_digits")
    one, other = data.load(str(folder))["test"], data.load(str(tmp_path))["test"]
    assert one.names == other.names
    assert all(map(torch.equal, one.sounds, other.sounds))
    assert torch.stack(one.sounds).square().mean(1).sub(1).abs().max() < 1e-3


def test_what_is_not_here_is_fetched_whole_or_told(folder, tmp_path, monkeypatch):
    archive = tmp_path / "there.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(folder, "free-spoken-digit-dataset/recordings")
    monkeypatch.setattr(data, "ARCHIVE", archive.as_uri())
    here = tmp_path / "here"
    with pytest.raises(FileNotFoundError, match=r"SHA-256 differs"):
        data.load(str(here))
    assert not list(here.iterdir())
    monkeypatch.setattr(data, "SHA256", data.digest(data._files(folder)))
    assert len(data.load(str(here))["test"].sounds) == 40
    assert [file.name for file in here.iterdir()] == ["spoken_digits.tar.gz"]

    def refuse(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(FileNotFoundError, match=r"--data.*no network"):
        data.load(str(tmp_path / "elsewhere"))


def test_recordings_of_another_kind_are_refused(folder):
    (folder / "3_ann_4.wav").write_bytes(wav([0] * 100, rate=16000))
    with pytest.raises(ValueError, match=r"3_ann_4\.wav must be of 8 kHz"):
        data.load(str(folder))
    for file in folder.glob("3_*"):
        file.unlink()
    with pytest.raises(ValueError, match="all ten digits"):
        data.load(str(folder))


@pytest.mark.parametrize(
    "setting",
    [Setting(dropped=0.0), Setting(rate=10.0, dropped=0.0), Setting(rate=40.0, words=9)],
)
def test_answers_are_what_was_said_and_shown_at_that_second(material, setting):
    drawn = draw(material, setting, 6, 3)
    seconds = drawn.stream.coords[..., 0] / 20.0
    modality = drawn.stream.modality
    bands = 10 * [None]
    for digit in range(10):
        bands[digit] = int(log_mel(tone(digit), torch.tensor([0.25])).argmax())
    assert len(set(bands)) == 10
    asked = 0
    for row in range(6):
        frames = (modality[row] == Modality.AUDIO).nonzero()[:, 0]
        patches = (modality[row] == Modality.IMAGE).nonzero()[:, 0]
        for token in (drawn.kind[row] >= 0).nonzero()[:, 0]:
            kind, at = KINDS[drawn.kind[row, token]], seconds[row, token]
            if kind == "said 1 s ago":
                at = at - 1.0
            near = patches if kind == "shown" else frames
            nearest = near[(seconds[row, near] - at).abs().argmin()]
            found = drawn.content[row, nearest]
            heard = bands.index(int(found.argmax())) if kind != "shown" else found[0] * 10
            assert round(float(heard)) == drawn.answer[row, token]
            asked += 1
    assert asked == 6 * 2 * setting.words


def test_rows_are_as_long_and_as_thin_as_asked(material):
    few = draw(material, Setting(dropped=0.6, words=8), 20, 0)
    many = draw(material, Setting(dropped=0.0, words=8), 20, 0)
    frames = [int((each.stream.modality == Modality.AUDIO).sum()) for each in (few, many)]
    assert frames[0] / frames[1] == pytest.approx(0.4, abs=0.03)
    whole = many.stream.coords[..., 0].where(many.stream.modality == Modality.AUDIO, torch.nan)
    assert (0 < whole[:, 0]).all() and (whole[:, 0] < 1).all(), "second 0 is the row's"
    step = whole[0].diff().nanmean()
    assert step.item() == pytest.approx(1.0), "a frame is one position at 20 frames a second"
    assert (many.stream.modality == Modality.IMAGE).sum(1).tolist() == [32] * 20
    assert few.content.isfinite().all() and few.content.abs().max() < 4
    again = draw(material, Setting(dropped=0.6, words=8), 20, 0)
    assert torch.equal(few.content, again.content) and torch.equal(few.answer, again.answer)
    other = draw(material, Setting(dropped=0.6, words=8), 20, 1)
    assert not torch.equal(few.answer, other.answer)


def test_real_frames_are_finite_and_differ(data_dir):
    drawn = draw(data.load(str(data_dir))["test"], Setting(), 8, 0)
    frames = drawn.content[drawn.stream.modality == Modality.AUDIO]
    assert frames.isfinite().all() and frames.min() >= 0 and 1 < frames.max() < 4
    loud = frames[frames.amax(1) > 0.5]
    assert len(loud) > 0.25 * len(frames), "words, and silence between them"
    assert len(loud.unique(dim=0)) == len(loud)


def test_bands_of_a_frame_follow_from_its_own_samples():
    track = torch.randn(4000, generator=torch.Generator().manual_seed(0))
    times = torch.tensor([0.11, 0.25, 0.4])
    found = log_mel(track, times)
    for number, moment in enumerate(times.tolist()):
        first = round(moment * 8000) - 256
        samples = track[first : first + 512].double().numpy()
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512)
        power = np.abs(np.fft.rfft(samples * window)) ** 2 / 512
        mel = np.linspace(1127 * math.log(1 + 60 / 700), 1127 * math.log(1 + 4000 / 700), 34)
        hertz = 700 * (np.exp(mel / 1127) - 1)
        for band in range(32):
            triangle = np.interp(np.arange(257) * 4000 / 256, hertz[band : band + 3], [0, 1, 0])
            expected = math.log(1 + 100 * (power * triangle).sum() / triangle.sum()) / 4
            assert float(found[number, band]) == pytest.approx(expected, abs=1e-4)


def test_each_design_says_what_its_name_says(material):
    drawn = draw(material, Setting(words=3), 5, 7)
    stream = drawn.stream
    said = {name: place(stream) for name, place in designs.DESIGNS.items()}
    for row in range(5):
        real = [token for token in range(stream.shape[1]) if stream.mask[row, token]]
        times = [float(stream.coords[row, token, 0]) for token in real]
        counted = dict.fromkeys(range(7), 0)
        for token, time in zip(real, times, strict=True):
            modality = int(stream.modality[row, token])
            before = sum(o < time or (o == time and r < token) for r, o in enumerate(times))
            expected = {"streams": time, "row_by_time": before, "row_by_modality": token,
                        "per_modality": counted[modality], "none": 0}  # fmt: skip
            counted[modality] += 1
            for name, first in expected.items():
                assert float(said[name][row, token, 0]) == first, name
    for coords in said.values():
        assert torch.equal(coords[..., 1:], stream.coords[..., 1:])


def test_only_seconds_stay_what_they_are_when_frames_are_lost(material):
    stream = draw(material, Setting(dropped=0.0), 3, 0).stream
    lost = torch.arange(stream.shape[1]) % 2 == 1
    kept = ~lost | (stream.modality != Modality.AUDIO)
    fewer = stream.select(kept)
    for name, place in designs.DESIGNS.items():
        before, after = place(stream), place(fewer)
        same = all(
            torch.equal(before[row, kept[row] & stream.mask[row]], after[row, fewer.mask[row]])
            for row in range(3)
        )
        assert same == (name in ("streams", "none")), name


def test_a_model_reads_differences_of_seconds_and_no_padding(material):
    drawn = draw(material, Setting(words=2), 4, 0)
    model = Answerer(dim=32, depth=2, heads=2).eval()
    with torch.no_grad():
        whole = model(drawn.content, designs.streams(drawn.stream), drawn.stream)
        later = designs.streams(drawn.stream) + torch.tensor([37.25, 0.0, 0.0])
        assert torch.allclose(whole, model(drawn.content, later, drawn.stream), atol=1e-4)
        apart = designs.streams(drawn.stream) * torch.tensor([1.5, 1.0, 1.0])
        assert not torch.allclose(whole, model(drawn.content, apart, drawn.stream), atol=1e-2)
        for row in range(4):
            own = drawn.part(torch.tensor([row]))
            alone = model(own.content, designs.streams(own.stream), own.stream)
            assert torch.allclose(alone[0], whole[row, : alone.shape[1]], atol=1e-5)


def test_positions_of_a_trained_frame_are_one_apart():
    assert rows.LAYOUT.scales[0] == rows.PER_SECOND == Setting().rate
