"""CIFAR by name: what is on this machine first, then a download, else a plain error."""

import pickle
import urllib.error

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("lightning")
from vision.data import CIFAR10, CIFAR100, ImageFolder


def load(data):
    data.prepare_data()
    data.setup("fit")
    return data.split


def write_batches(folder, monkeypatch):
    """CIFAR-10 in torchvision's layout, of fifty images in place of sixty thousand."""
    names = [f"data_batch_{i}" for i in range(1, 6)]
    (folder / CIFAR10.source.base_folder).mkdir(parents=True)
    generator = np.random.default_rng(0)
    pixels = {}
    for name in [*names, "test_batch"]:
        pixels[name] = generator.integers(0, 256, (20, 3072), dtype=np.uint8)
        entry = {"data": pixels[name], "labels": [i % 10 for i in range(20)]}
        (folder / CIFAR10.source.base_folder / name).write_bytes(pickle.dumps(entry))
    meta = {"label_names": list("abcdefghij")}
    (folder / CIFAR10.source.base_folder / "batches.meta").write_bytes(pickle.dumps(meta))
    # The checksums are those of the real files.
    for attribute, value in (
        ("train_list", [[name, None] for name in names]),
        ("test_list", [["test_batch", None]]),
        ("meta", {**CIFAR10.source.meta, "md5": None}),
    ):
        monkeypatch.setattr(CIFAR10.source, attribute, value)
    return pixels


@pytest.mark.parametrize("inside", [False, True], ids=["the folder", "the folder around it"])
def test_torchvision_layout(tmp_path, monkeypatch, inside):
    pixels = write_batches(tmp_path, monkeypatch)
    path = tmp_path / CIFAR10.source.base_folder if inside else tmp_path
    data = CIFAR10(str(path), download=False)
    split = load(data)
    assert [len(part) for part in split] == [90, 10, 20]
    assert data.class_names == tuple("abcdefghij") and data.classes == 10
    image, label = split.test[13]
    assert label == 3
    assert np.array_equal(image.numpy(), pixels["test_batch"][13].reshape(3, 32, 32))


def test_class_folders_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for part, count in (("train", 10), ("test", 2)):
        for name in "abcdefghij":
            folder = tmp_path / "data" / "cifar10" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32)).save(folder / f"{number}.jpg")
    monkeypatch.setenv("POSENC_MM_DATA", str(tmp_path / "data"))
    for data in (CIFAR10(), CIFAR10(str(tmp_path / "data" / "cifar10"))):
        assert [len(part) for part in load(data)] == [90, 10, 20]
        assert data.class_names == tuple("abcdefghij")
    with pytest.raises(ValueError, match="must hold 100 classes, found 10"):
        load(CIFAR100(str(tmp_path / "data" / "cifar10")))


@pytest.mark.parametrize("source", [CIFAR10, CIFAR100])
def test_what_is_missing_and_where_to_get_it_is_said(tmp_path, monkeypatch, source):
    monkeypatch.delenv("POSENC_MM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    name = source.source.__name__
    with pytest.raises(FileNotFoundError, match=f"{name} is not in .*data: .*Fetch https://"):
        source(download=False).prepare_data()

    def unreachable(*args, **kwargs):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(FileNotFoundError, match="Fetch https://.*failed: .*no route to host"):
        source().prepare_data()


def test_the_real_archive(data_dir):
    path = data_dir / "cifar10.tar.xz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    split = load(ImageFolder(str(path), size=32))
    assert [len(part) for part in split] == [45_000, 5_000, 10_000]
    assert split.test.labels[split.test.rows].bincount().tolist() == [1_000] * 10
