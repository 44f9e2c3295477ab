"""Where images come from: embedded, by name, or any folder or archive of class folders."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("lightning")
from vision.data import Digits, ImageFolder
from vision.data import archives as archives_file

CLASSES = ("ant", "bee", "cat")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("POSENC_MM_DATA", raising=False)
    return tmp_path / "cache" / "posenc_mm"


def shade(label, number):
    """A colour that tells which image it is."""
    return (10 + 50 * label, 10 + number, 200)


def paint(folder, size=(6, 4), count=10, names=CLASSES):
    """Class folders of one-coloured images: size is width, height."""
    for label, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", size, shade(label, number)).save(folder / name / f"{number}.png")
    return folder


def load(data):
    data.prepare_data()
    data.setup("fit")
    return data.split


def identities(stored):
    """Which images these are, as (label, number)."""
    found = [(label, int(image[1, 0, 0]) - 10) for image, label in stored]
    for (image, label), (_, number) in zip(stored, found, strict=True):
        assert tuple(image[:, 0, 0].tolist()) == shade(label, number)
    return set(found)


def pack(folder, path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(folder.rglob("*.png")):
                archive.write(file, file.relative_to(folder.parent))
    else:
        with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w") as archive:
            archive.add(folder, folder.name)
    return path


def test_digits_are_split_the_same_always_and_each_class_alike():
    torch.manual_seed(1)
    first = load(Digits())
    torch.manual_seed(2)
    second = load(Digits())
    assert [len(part) for part in first] == [1258, 180, 359]
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one.rows, two.rows)
        shares = one.labels[one.rows].bincount() / len(one)
        assert (shares - 0.1).abs().max() < 0.01
    assert torch.cat([part.rows for part in first]).sort().values.equal(torch.arange(1797))


def test_digits_keep_their_pixels_and_are_normalised():
    from sklearn.datasets import load_digits

    split = load(Digits())
    grey = split.train.images[:, 0].double() * (16 / 255)
    assert np.array_equal(grey.round().numpy(), load_digits().images)
    data = Digits(batch_size=2000)
    (images, labels) = next(iter(data.val_dataloader()))
    assert images.shape == (180, 1, 8, 8) and labels.shape == (180,)
    assert images.dtype == torch.float32
    assert abs(images.mean()) < 0.05 and abs(images.std() - 1) < 0.05


def test_training_is_shuffled_and_augmentation_shifts_by_a_pixel():
    plain, shifted = Digits(), Digits(augmentation=True)
    load(plain), load(shifted)
    loader = plain.train_dataloader()
    assert not torch.equal(next(iter(loader))[1], next(iter(loader))[1])
    margins = torch.nn.functional.pad(plain.split.train.images, (1, 1, 1, 1))
    moved = shifted.train_dataloader().dataset
    windows = {(y, x): margins[..., y : y + 8, x : x + 8] for y in range(3) for x in range(3)}
    seen = set()
    for index in range(200):
        image, _ = moved[index]
        row = int(moved.rows[index])
        fits = [where for where, window in windows.items() if torch.equal(window[row], image)]
        assert fits
        seen |= set(fits)
    assert seen == windows.keys()
    still = shifted.val_dataloader().dataset
    assert torch.equal(still[0][0], plain.split.val[0][0])


def test_every_size_asked_for_is_tested():
    data = Digits(size=(8, 16), test_size=[8, (12, 20), (8, 16)])
    load(data)
    sizes = [next(iter(loader))[0].shape[-2:] for loader in data.test_dataloader()]
    assert sizes == [(8, 8), (12, 20), (8, 16)]
    assert next(iter(data.train_dataloader()))[0].shape == (32, 1, 8, 16)
    assert Digits(size=12).test_sizes == [(12, 12)]
    assert Digits(test_size=12).test_sizes == [(12, 12)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("size", 0), ("size", (8, 8, 8)), ("test_size", []), ("test_size", [8, 8])]
    + [("batch_size", 0), ("num_workers", -1)],
)
def test_wrong_arguments_are_refused(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must"):
        Digits(**{argument: value})


def test_workers_load_the_same_images():
    data = Digits(num_workers=1)
    load(data)
    alone = Digits()
    load(alone)
    for one, two in zip(data.val_dataloader(), alone.val_dataloader(), strict=True):
        assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])


def test_a_folder_without_splits_is_split_by_a_seed_and_says_so(tmp_path, caplog):
    path = paint(tmp_path / "images")
    caplog.set_level("INFO", logger="lightning.pytorch")
    data = ImageFolder(str(path), size=4)
    split = load(data)
    assert data.class_names == CLASSES and data.classes == 3
    parts = [identities(part) for part in split]
    assert [len(part) for part in parts] == [24, 3, 3]
    assert set.union(*parts) == {(label, number) for label in range(3) for number in range(10)}
    assert {label for label, _ in parts[1]} == {0, 1, 2}
    assert "80 % train, 10 % validate, 10 % test, by chance (split_seed=0)" in caplog.text
    again, other = (load(ImageFolder(str(path), size=4, split_seed=seed)) for seed in (0, 1))
    assert identities(again.val) == parts[1] != identities(other.val)


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Training", "valid", "testing")])
def test_folders_named_after_splits_are_taken_as_they_are(tmp_path, names):
    for name, count in zip(names, (5, 2, 3), strict=True):
        paint(tmp_path / "top" / name, count=count)
    split = load(ImageFolder(str(tmp_path), size=4))
    assert [len(identities(part)) for part in split] == [15, 6, 9]


def test_without_val_a_tenth_of_training_validates(tmp_path, caplog):
    caplog.set_level("INFO", logger="lightning.pytorch")
    paint(tmp_path / "train", count=20)
    paint(tmp_path / "test", count=2)
    split = load(ImageFolder(str(tmp_path), size=4))
    assert [len(part) for part in split] == [54, 6, 6]
    assert not identities(split.train) & identities(split.val)
    assert "a tenth of the training images validates" in caplog.text


def test_without_test_the_validation_images_test_too(tmp_path, caplog):
    caplog.set_level("INFO", logger="lightning.pytorch")
    paint(tmp_path / "train", count=5)
    paint(tmp_path / "val", count=2)
    split = load(ImageFolder(str(tmp_path), size=4))
    assert torch.equal(split.val.rows, split.test.rows)
    assert "those of val test too" in caplog.text


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.xz"])
def test_an_archive_is_a_folder_that_is_unpacked_once(tmp_path, cache, monkeypatch, ending):
    path = pack(paint(tmp_path / "source"), tmp_path / f"images{ending}")
    first = load(ImageFolder(str(path), size=4))
    assert identities(first.train) | identities(first.val) | identities(first.test) == {
        (label, number) for label in range(3) for number in range(10)
    }
    assert not list(cache.glob(".partial*"))

    def refuse(*args):
        raise AssertionError("this was unpacked and decoded before")

    monkeypatch.setattr(archives_file, "_unzip", refuse)
    monkeypatch.setattr(archives_file, "_untar", refuse)
    monkeypatch.setattr(archives_file, "tqdm", refuse)
    second = load(ImageFolder(str(path), size=4))
    assert identities(second.val) == identities(first.val)


def test_another_archive_of_the_same_name_is_unpacked_anew(tmp_path):
    first = pack(paint(tmp_path / "a" / "source"), tmp_path / "a" / "images.zip")
    second = pack(paint(tmp_path / "b" / "source", count=20), tmp_path / "b" / "images.zip")
    assert len(load(ImageFolder(str(first), size=4)).train) == 24
    assert len(load(ImageFolder(str(second), size=4)).train) == 48


@pytest.mark.parametrize("name", ["../escaped.png", "/escaped.png"])
@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_an_archive_cannot_write_outside_its_folder(tmp_path, cache, name, ending):
    path = tmp_path / f"evil{ending}"
    name = str(tmp_path / "escaped.png") if name.startswith("/") else name
    if ending == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"evil")
    else:
        with tarfile.open(path, "w") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ValueError, match="evil"):
        _ = ImageFolder(str(path)).class_names
    # An absolute name in a tar file is read as one inside the folder.
    assert all(cache in found.parents for found in tmp_path.rglob("escaped.png"))


@pytest.mark.parametrize("ending", [".zip", ".tar.xz"])
def test_half_an_archive_is_refused_and_leaves_nothing(tmp_path, cache, ending):
    path = pack(paint(tmp_path / "source"), tmp_path / f"half{ending}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match="must be a whole zip or tar archive"):
        _ = ImageFolder(str(path)).classes
    assert not list(cache.iterdir())


def test_images_of_any_shape_are_decoded_as_they_are_read(tmp_path):
    paint(tmp_path / "images", size=(9, 6), count=19)
    for name in CLASSES:
        Image.new("RGB", (5, 12)).save(tmp_path / "images" / name / "tall.jpg")
    data = ImageFolder(str(tmp_path / "images"), size=(4, 6), test_size=8, batch_size=4)
    split = load(data)
    assert {tuple(image.shape[-2:]) for image, _ in split.train} == {(6, 9), (12, 5)}
    assert next(iter(data.train_dataloader()))[0].shape == (4, 3, 4, 6)
    assert next(iter(data.val_dataloader()))[0].shape == (4, 3, 4, 6)
    assert next(iter(data.test_dataloader()[0]))[0].shape == (4, 3, 8, 8)


def test_a_smaller_shape_is_cut_from_the_middle(tmp_path):
    pixels = np.arange(6 * 12, dtype=np.uint8).reshape(6, 12)
    for name in CLASSES:
        (tmp_path / name).mkdir()
        for number in range(10):
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    data = ImageFolder(str(tmp_path), size=6, channels=1)
    load(data)
    image = next(iter(data.val_dataloader()))[0][0, 0] * 0.225 + 0.45
    np.testing.assert_allclose(image.numpy() * 255, pixels[:, 3:9], atol=1e-4)


def test_broken_folders_are_refused_plainly(tmp_path):
    with pytest.raises(ValueError, match="there is nothing at .*nowhere"):
        _ = ImageFolder(str(tmp_path / "nowhere")).classes
    (tmp_path / "text.txt").write_text("no archive")
    with pytest.raises(ValueError, match=r"end in one of .*text\.txt"):
        _ = ImageFolder(str(tmp_path / "text.txt")).classes
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(ValueError, match="at least two"):
        _ = ImageFolder(str(tmp_path / "empty")).classes
    (tmp_path / "empty" / "dog").mkdir()
    with pytest.raises(ValueError, match="must hold images"):
        load(ImageFolder(str(tmp_path / "empty")))
    (tmp_path / "empty" / "dog" / "0.png").write_bytes(b"not an image")
    with pytest.raises(ValueError, match=r"0\.png must be an image"):
        load(ImageFolder(str(tmp_path / "empty")))
    paint(tmp_path / "split" / "train")
    paint(tmp_path / "split" / "test", names=(*CLASSES, "newt"))
    with pytest.raises(ValueError, match=r"not \['newt'\]"):
        load(ImageFolder(str(tmp_path / "split")))
    with pytest.raises(ValueError, match="channels must be 1"):
        ImageFolder(str(tmp_path), channels=2)
