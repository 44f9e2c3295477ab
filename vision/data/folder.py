"""Images in folders named after their classes, plain or in an archive."""

from functools import cached_property
from pathlib import Path

import torch
from lightning.pytorch.utilities import rank_zero_info
from torchvision.datasets.folder import IMG_EXTENSIONS

from vision.data.archives import ARCHIVES, decoded, is_archive, unpacked
from vision.data.base import Images, Size, Split
from vision.data.stored import Files, Labelled, Memory, shuffled_split

NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}


class ImageFolder(Images):
    """Images in folders named after their classes, or a zip or tar archive of such folders.

    Folders ``train``, ``val`` and ``test`` above the classes are taken as they are. Without
    ``val``, a tenth of the training images validates; without ``test``, the images of ``val``
    test too; with no such folders at all, 80 % train, 10 % validate and 10 % test. What is split
    here is split at random by ``split_seed``, each class alike, and stated.

    Small images of one shape are decoded once and held in memory; training images are then
    shifted by up to an eighth of their size, and else cropped and resized at random.

    Args:
        path: the folder or the archive. An archive is unpacked once, into the user's cache.
        size: pixels to train at, one number or (height, width).
        test_size: pixels to test at; a list tests at each in turn.
        batch_size: images per step and process.
        num_workers: processes that load beside the training.
        augmentation: whether training images are varied at random.
        flip: whether that includes left for right.
        channels: 1 for grey, 3 for colour.
        split_seed: of the split, where there is one to make.

    Raises:
        ValueError: there is nothing at ``path``, it holds no class folders, or a split knows a
            class that training does not.
    """

    def __init__(
        self,
        path: str,
        size: Size = 224,
        test_size: int | list[Size] | None = None,
        batch_size: int = 128,
        num_workers: int = 0,
        augmentation: bool = True,
        flip: bool = True,
        channels: int = 3,
        split_seed: int = 0,
    ) -> None:
        super().__init__(size, test_size, batch_size, num_workers, augmentation)
        if channels not in (1, 3):
            raise ValueError(f"channels must be 1 (grey) or 3 (colour), got channels={channels}")
        self.path, self.flip = Path(path).expanduser(), flip
        self.channels, self.split_seed = channels, split_seed
        if channels == 1:
            self.mean, self.std = (0.45,), (0.225,)

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Where the class folders of each split are; only ``train`` where there is no split."""
        path = self.path
        if not path.exists():
            raise ValueError(f"path must be a folder or an archive, but there is nothing at {path}")
        if path.is_file():
            if not is_archive(path):
                raise ValueError(f"path must be a folder or end in one of {ARCHIVES}, got {path}")
            path = unpacked(path)
        inside = _folders(path)
        while len(inside) == 1 and not any(_images(path, deep=False)):  # a folder around it all
            path = inside[0]
            inside = _folders(path)
        named = {folder.name.lower(): folder for folder in inside}
        found = {
            split: named[name] for split, names in NAMES.items() for name in names if name in named
        }
        return found if "train" in found and len(found) > 1 else {"train": path}

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        names = tuple(folder.name for folder in _folders(self.folders["train"]))
        if len(names) < 2:
            raise ValueError(
                f"path must hold one folder of images per class, at least two; found "
                f"{list(names)} in {self.folders['train']}"
            )
        return names

    def load(self) -> Split:
        found: list[tuple[str, int, Path]] = []
        for split, folder in self.folders.items():
            unknown = {inside.name for inside in _folders(folder)} - set(self.class_names)
            if unknown:
                raise ValueError(f"{folder} must hold classes of training, not {sorted(unknown)}")
            for label, name in enumerate(self.class_names):
                found += [(split, label, path) for path in _images(folder / name)]
        if not found:
            raise ValueError(f"path must hold images ({' '.join(IMG_EXTENSIONS)}), got {self.path}")
        splits, labels, paths = zip(*found, strict=True)
        pixels = decoded(paths, self.channels)
        if pixels is None:
            stored: Labelled = Files(paths, labels, self.channels)
        else:
            stored = Memory(torch.from_numpy(pixels), labels)
        return self._split(stored, splits)

    def _split(self, stored: Labelled, splits: tuple[str, ...]) -> Split:
        parts = {
            split: stored.select(torch.tensor([i for i, s in enumerate(splits) if s == split]))
            for split in self.folders
        }
        train = parts["train"]
        labels = stored.labels[train.rows]
        how = f"by chance (split_seed={self.split_seed})"
        if len(parts) == 1:
            rest = shuffled_split(labels, (0.8, 0.1), self.split_seed)
            parts = dict(zip(NAMES, map(train.select, rest), strict=True))
            rank_zero_info(f"{self.path}: 80 % train, 10 % validate, 10 % test, {how}.")
        elif "val" not in parts:
            kept, held = shuffled_split(labels, (0.9,), self.split_seed)
            parts |= {"train": train.select(kept), "val": train.select(held)}
            rank_zero_info(f"{self.path}: a tenth of the training images validates, {how}.")
        elif "test" not in parts:
            parts["test"] = parts["val"]
            rank_zero_info(f"{self.path}: has no test images; those of val test too.")
        empty = [name for name, part in parts.items() if not len(part)]
        if empty:
            raise ValueError(f"path must hold images to {' and '.join(empty)}, got {self.path}")
        return Split(**parts)


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def _images(path: Path, deep: bool = True) -> list[Path]:
    if not path.is_dir():
        return []
    inside = path.rglob("*") if deep else path.iterdir()
    # macOS leaves files of the same name beside the real ones
    return sorted(
        p for p in inside if p.suffix.lower() in IMG_EXTENSIONS and not p.name.startswith("._")
    )
