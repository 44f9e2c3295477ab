"""Handwritten digits that ship inside scikit-learn: real images without a download."""

import torch

from vision.data.base import Images, Size, Split
from vision.data.stored import Memory, shuffled_split


class Digits(Images):
    """1,797 grey images of 8x8 pixels of the digits 0 to 9.

    70 % train, 10 % validate and 20 % test, the same ones always.

    Args:
        size: pixels to train at, one number or (height, width).
        test_size: pixels to test at; a list tests at each in turn.
        batch_size: images per step and process.
        num_workers: processes that load beside the training.
        augmentation: shift training images by up to one pixel.
    """

    class_names = tuple("0123456789")
    channels = 1
    mean, std = (0.305,), (0.376,)
    flip = False

    def __init__(
        self,
        size: Size = 8,
        test_size: int | list[Size] | None = None,
        batch_size: int = 32,
        num_workers: int = 0,
        augmentation: bool = False,
    ) -> None:
        super().__init__(size, test_size, batch_size, num_workers, augmentation)

    def load(self) -> Split:
        from sklearn.datasets import load_digits

        digits = load_digits()
        grey = torch.from_numpy(digits.images)  # 0 to 16
        images = (grey * (255 / 16)).round().to(torch.uint8).unsqueeze(1)
        stored = Memory(images, torch.from_numpy(digits.target))
        return Split(*map(stored.select, shuffled_split(stored.labels, (0.7, 0.1), seed=0)))
