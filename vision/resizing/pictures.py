"""The pictures that a model is measured on: class folders, any folder, or two photographs."""

import copy
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from torchvision.datasets.folder import IMG_EXTENSIONS

from vision.data import ImageFolder
from vision.data.archives import ARCHIVES, decoded, is_archive, unpacked
from vision.data.base import Images, Split
from vision.data.folder import _folders as folders_in
from vision.data.folder import _images as images_in
from vision.data.stored import Files, Labelled, Memory

Pair = tuple[int, int]


class Pictures(Images):
    """Pictures of a folder, all of them to be measured.

    Args:
        paths: of the pictures.
        labels: of each; all 0 where there are none.
        class_names: what they stand for; empty where there are none.
        size: pixels, (height, width).
        batch_size: pictures at a time.
        channels: 1 for grey, 3 for colour.
    """

    def __init__(
        self,
        paths: list[Path],
        labels: list[int],
        class_names: tuple[str, ...],
        size: Pair,
        batch_size: int,
        channels: int,
    ) -> None:
        super().__init__(size, None, batch_size, 0, False)
        self.paths, self.labels = paths, labels
        self.class_names, self.channels = class_names, channels

    def load(self) -> Split:
        pixels = decoded(self.paths, self.channels)
        if pixels is None:
            stored: Labelled = Files(self.paths, self.labels, self.channels)
        else:
            stored = Memory(torch.from_numpy(pixels), self.labels)
        none = stored.select(torch.arange(0))
        return Split(none, none, stored)


class Photographs(Images):
    """scikit-learn's two photographs, a temple and a flower, cut into overlapping squares.

    Args:
        size: pixels, (height, width).
        batch_size: pictures at a time.
    """

    class_names: tuple[str, ...] = ()
    cut = 260
    step = 55

    def __init__(self, size: Pair, batch_size: int) -> None:
        super().__init__(size, None, batch_size, 0, False)

    def load(self) -> Split:
        from sklearn.datasets import load_sample_images

        whole = torch.stack([torch.tensor(one) for one in load_sample_images().images])
        cells = whole.unfold(1, self.cut, self.step).unfold(2, self.cut, self.step)
        pieces = cells.reshape(-1, *cells.shape[3:]).contiguous()
        stored = Memory(pieces, [0] * len(pieces))
        none = stored.select(torch.arange(0))
        return Split(none, none, stored)


def find(
    path: Path | None, size: Pair, *, batch_size: int, channels: int, limit: int, training: bool
) -> Images:
    """Find the pictures and choose which of them are measured.

    Args:
        path: a folder or an archive; None for the photographs.
        size: pixels, (height, width).
        batch_size: pictures at a time.
        channels: 1 for grey, 3 for colour.
        limit: how many are measured at most: as many of each class, the first ones by name.
        training: whether some are trained on; else, where no ``test`` folder says otherwise, all
            can be measured.

    Returns:
        The pictures, read; ``class_names`` is empty where there are no labels.

    Raises:
        ValueError: there are none.
    """
    data = _found(path, size, batch_size, channels, training)
    if path is None and channels != 3:
        raise ValueError(f"the photographs have 3 channels, the model takes {channels}: --images")
    data.setup("test")
    split: Any = data.split
    data.split = split._replace(test=first_of_each(split.test, limit))
    return data


def at_size(data: Images, size: Pair) -> DataLoader:
    """The measured pictures at a size.

    Args:
        data: the pictures, left as they are.
        size: pixels, (height, width).

    Returns:
        Batches of pictures and labels, in order.
    """
    sized = copy.copy(data)
    sized.test_sizes = [size]
    return sized.test_dataloader()[0]


def first_of_each(stored: Labelled, limit: int) -> Any:
    """Choose at most so many images, as many of each class, the first ones.

    Args:
        stored: labelled images.
        limit: how many.

    Returns:
        Those chosen.
    """
    if len(stored) <= limit:
        return stored
    labels = stored.labels[stored.rows]
    rank = torch.empty(len(labels), dtype=torch.int64)
    for label in labels.unique():
        own = torch.nonzero(labels == label).flatten()
        rank[own] = torch.arange(len(own))
    chosen = torch.argsort(rank, stable=True)[:limit]
    return stored.select(chosen.sort().values)


def _found(path: Path | None, size: Pair, batch_size: int, channels: int, training: bool) -> Images:
    if path is None:
        return Photographs(size, batch_size)
    place = path.expanduser()
    if not place.exists():
        raise ValueError(f"--images must be a folder or an archive, there is nothing at {place}")
    if place.is_file() and not is_archive(place):
        raise ValueError(f"--images must be a folder or end in one of {ARCHIVES}, got {place}")
    folder = unpacked(place) if place.is_file() else place
    labelled = ImageFolder(str(folder), size, None, batch_size, channels=channels)
    above = labelled.folders["train"]
    names = tuple(inside.name for inside in folders_in(above))
    if len(names) > 1 and (training or len(labelled.folders) > 1):
        return labelled
    found = [(p, label) for label, name in enumerate(names) for p in images_in(above / name)]
    if len(names) < 2:
        names, found = (), [(p, 0) for p in images_in(folder)]
    if not found:
        raise ValueError(
            f"--images must hold pictures ({' '.join(IMG_EXTENSIONS)}), found none in {place}"
        )
    paths, labels = (list(each) for each in zip(*found, strict=True))
    return Pictures(paths, labels, names, size, batch_size, channels)
