"""Labelled images as they lie in memory or on disk."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

Transform = Callable[[Tensor], Tensor]


class Labelled(Dataset):
    """Labelled images, of which some rows can be chosen and each can be transformed.

    Args:
        labels: ``(N,)``
        rows: ``(K,)`` which of the images these are; all unless given.
    """

    def __init__(self, labels: Sequence[int] | Tensor, rows: Tensor | None = None) -> None:
        self.labels = torch.as_tensor(labels, dtype=torch.int64)
        self.rows = torch.arange(len(self.labels)) if rows is None else rows
        self.transform: Transform | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        row = int(self.rows[index])
        image = self.read(row)
        if self.transform is not None:
            image = self.transform(image)
        return image, int(self.labels[row])

    def read(self, row: int) -> Tensor:
        raise NotImplementedError

    def select(self, rows: Tensor) -> Any:
        """Choose some of these images."""
        chosen = copy.copy(self)
        chosen.rows = self.rows[rows]
        return chosen

    def with_transform(self, transform: Transform | None) -> Any:
        """Apply a transform to each image as it is read."""
        transformed = copy.copy(self)
        transformed.transform = transform
        return transformed


class Memory(Labelled):
    """Images of one shape, held in memory.

    Args:
        images: ``(N, C, height, width)`` uint8.
        labels: ``(N,)``
    """

    def __init__(self, images: Tensor, labels: Sequence[int] | Tensor) -> None:
        super().__init__(labels)
        self.images = images

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.images.shape[-2:])

    def read(self, row: int) -> Tensor:
        return self.images[row]


class Files(Labelled):
    """Images of any shape, decoded as they are read.

    Args:
        paths: of the images.
        labels: ``(N,)``
        channels: 1 for grey, 3 for colour.
    """

    def __init__(self, paths: Sequence[Path], labels: Sequence[int], channels: int) -> None:
        super().__init__(labels)
        self.paths, self.channels = list(paths), channels

    def read(self, row: int) -> Tensor:
        return torch.from_numpy(decode(self.paths[row], self.channels))


def decode(path: Path, channels: int) -> np.ndarray:
    """Read an image file as ``(C, height, width)`` uint8.

    Args:
        path: of the file.
        channels: 1 for grey, 3 for colour.

    Returns:
        The pixels.

    Raises:
        ValueError: the file is not a readable image.
    """
    try:
        with Image.open(path) as image:
            pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
    except OSError as error:
        raise ValueError(f"{path} must be an image that Pillow can read: {error}") from error
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def shuffled_split(labels: Tensor, fractions: Sequence[float], seed: int) -> list[Tensor]:
    """Split rows at random, with the same share of each class in each part.

    Args:
        labels: ``(N,)``
        fractions: of the rows that the parts get; the last part gets what is left.
        seed: of the shuffle, which does not touch the global random state.

    Returns:
        The rows of each part, one more part than fractions.
    """
    generator = torch.Generator().manual_seed(seed)
    parts: list[list[Tensor]] = [[] for _ in range(len(fractions) + 1)]
    for label in labels.unique():
        rows = torch.nonzero(labels == label).flatten()
        rows = rows[torch.randperm(len(rows), generator=generator)]
        ends = [round(sum(fractions[: i + 1]) * len(rows)) for i in range(len(fractions))]
        for part, chosen in zip(parts, torch.tensor_split(rows, ends), strict=True):
            part.append(chosen)
    return [torch.cat(part).sort().values for part in parts]
