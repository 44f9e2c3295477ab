"""What all image data share: sizes, augmentation, normalisation and loaders."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, default_collate
from torchvision.transforms import InterpolationMode, v2

from vision.data.stored import Files, Memory

Size = int | tuple[int, int]


class Split(NamedTuple):
    """Images for training, for choosing among trained models, and for the final word."""

    train: Memory | Files
    val: Memory | Files
    test: Memory | Files


class Images(LightningDataModule, ABC):
    """Labelled images in three splits; training and validation see one size, tests any.

    Args:
        size: pixels to train at, one number or (height, width).
        test_size: pixels to test at; a list tests at each in turn (a non-square one is a pair in
            the list). ``size`` unless given.
        batch_size: images per step and process.
        num_workers: processes that load beside the training; small sets are held in memory and
            need none.
        augmentation: whether training images are varied at random.

    Attributes:
        class_names: what a label stands for.
        channels: of an image.
        interpolation: how images are brought to size, one of torchvision's names.
    """

    class_names: tuple[str, ...]
    channels: int = 3
    interpolation: str = "bilinear"
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    flip: bool = True

    def __init__(
        self,
        size: Size,
        test_size: int | list[Size] | None,
        batch_size: int,
        num_workers: int,
        augmentation: bool,
    ) -> None:
        super().__init__()
        self.size = as_pair("size", size)
        tested = test_size if isinstance(test_size, list) else [test_size or size]
        self.test_sizes = [as_pair("test_size", one) for one in tested]
        if not self.test_sizes or len(set(self.test_sizes)) != len(self.test_sizes):
            raise ValueError(f"test_size must list different sizes, got test_size={test_size}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got batch_size={batch_size}")
        if num_workers < 0:
            raise ValueError(f"num_workers must be at least 0, got num_workers={num_workers}")
        self.batch_size, self.num_workers = batch_size, num_workers
        self.augmentation = augmentation
        self.split: Split | None = None

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @abstractmethod
    def load(self) -> Split:
        """Read the images."""

    def setup(self, stage: str) -> None:
        if self.split is None:
            self.split = self.load()

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", self.size)

    def val_dataloader(self) -> DataLoader:
        return self._loader("val", self.size)

    def test_dataloader(self) -> list[DataLoader]:
        return [self._loader("test", size) for size in self.test_sizes]

    def predict_dataloader(self) -> list[DataLoader]:
        return self.test_dataloader()

    def _loader(self, name: str, size: tuple[int, int]) -> DataLoader:
        if self.split is None:
            self.setup(name)
        stored = getattr(self.split, name)
        vary = self.augmentation and name == "train"
        one, batch = [], [v2.ToDtype(torch.float32, scale=True), v2.Normalize(self.mean, self.std)]
        if isinstance(stored, Files):
            one.append(v2.RandomResizedCrop(size, (0.35, 1.0)) if vary else self._cover(size))
        else:
            # Whole batches are brought to size at once: the images are small and of one shape.
            if vary:
                margins = [max(1, side // 8) for side in reversed(stored.shape)]
                one.append(v2.RandomCrop(stored.shape, margins))
            if stored.shape != size:
                batch.insert(1, self._cover(size))
        if vary and self.flip:
            one.append(v2.RandomHorizontalFlip())
        return DataLoader(
            stored.with_transform(v2.Compose(one) if one else None),
            batch_size=self.batch_size,
            shuffle=name == "train",
            drop_last=name == "train" and len(stored) >= self.batch_size,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            collate_fn=Collate(v2.Compose(batch)),
        )

    def _cover(self, size: tuple[int, int]) -> "Cover":
        return Cover(size, self.interpolation)


class Collate:
    """Stack images and labels, and finish the images as one batch."""

    def __init__(self, finish: v2.Transform) -> None:
        self.finish = finish

    def __call__(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(samples)
        return self.finish(images), labels


class Cover(torch.nn.Module):
    """Scale images until they cover a size, then cut what sticks out on both sides."""

    def __init__(self, size: tuple[int, int], interpolation: str = "bilinear") -> None:
        super().__init__()
        self.size, self.mode = size, InterpolationMode(interpolation)

    def forward(self, images: Tensor) -> Tensor:
        (height, width), (rows, columns) = images.shape[-2:], self.size
        scale = max(rows / height, columns / width)
        covering = [max(rows, round(height * scale)), max(columns, round(width * scale))]
        if covering != [height, width]:
            images = v2.functional.resize(images, covering, self.mode, antialias=True)
            if images.is_floating_point():  # cubic weights leave the range of pixels
                images = images.clamp(0, 1)
        return v2.functional.center_crop(images, list(self.size))


def as_pair(name: str, size: Size) -> tuple[int, int]:
    """Read a size in pixels: one number or (height, width)."""
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or min(pair) < 1:
        raise ValueError(f"{name} must be pixels, one number or (height, width), got {size}")
    return pair
