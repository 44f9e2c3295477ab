"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32x32 pixels."""

import os
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torchvision import datasets

from vision.data.archives import ARCHIVES
from vision.data.base import Images, Size, Split
from vision.data.folder import ImageFolder
from vision.data.stored import Memory, shuffled_split


class CIFAR10(Images):
    """CIFAR-10: 50,000 images to train, 10,000 to test, ten classes.

    Looks on this machine first: for torchvision's layout, for the archive it is made from, and for
    ``cifar10`` as a folder or an archive of class folders; then downloads. A tenth of the training
    images validates, the same ones always.

    Args:
        path: the folder to look in and to download to, or the archive or folder itself;
            ``$POSENC_MM_DATA`` or ``data`` unless given.
        download: whether to try, where nothing is found.
        size: pixels to train at, one number or (height, width).
        test_size: pixels to test at; a list tests at each in turn.
        batch_size: images per step and process.
        num_workers: processes that load beside the training.
        augmentation: shift training images by up to four pixels and flip them.

    Raises:
        FileNotFoundError: it is neither here nor to be had.
    """

    source: type[datasets.CIFAR10] = datasets.CIFAR10
    count = 10
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

    def __init__(
        self,
        path: str | None = None,
        download: bool = True,
        size: Size = 32,
        test_size: int | list[Size] | None = None,
        batch_size: int = 128,
        num_workers: int = 0,
        augmentation: bool = True,
    ) -> None:
        super().__init__(size, test_size, batch_size, num_workers, augmentation)
        self.path = Path(path or os.environ.get("POSENC_MM_DATA") or "data").expanduser()
        self.download = download

    @property
    def classes(self) -> int:
        return self.count

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        folder = self._folder()
        return folder.class_names if folder else tuple(self._read(train=False).classes)

    def prepare_data(self) -> None:
        if self._folder() is not None or self._complete():
            return
        name, url = self.source.__name__, self.source.url
        missing = (
            f"{name} is not in {self.path.resolve()}: neither {self.source.base_folder} nor "
            f"{self.source.filename} nor {name.lower()} as a folder or archive of class folders. "
            f"Fetch {url} into that folder, or give data.path"
        )
        if not self.download:
            raise FileNotFoundError(f"{missing}, or data.download=true")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._read(train=True, download=True)
        except (OSError, RuntimeError) as error:
            raise FileNotFoundError(f"{missing}. Downloading failed: {error}") from error

    def load(self) -> Split:
        folder = self._folder()
        if folder is not None:
            if folder.classes != self.count:
                raise ValueError(
                    f"{folder.path} must hold {self.count} classes, found {folder.classes}"
                )
            return folder.load()
        train, test = map(_in_memory, (self._read(train=True), self._read(train=False)))
        kept, held = shuffled_split(train.labels, (0.9,), seed=0)
        return Split(train.select(kept), train.select(held), test)

    def _folder(self) -> ImageFolder | None:
        """Find class folders, plain or in an archive."""
        name = self.source.__name__.lower()
        inside = [self.path / f"{name}{ending}" for ending in ("", *ARCHIVES)]
        itself = self.path.is_file() or (self.path / "train").is_dir()
        found = [path for path in ([self.path] if itself else inside) if path.exists()]
        if not found or found[0].name == self.source.filename:
            return None
        return ImageFolder(str(found[0]), size=self.size)

    def _root(self) -> Path:
        names = (self.source.base_folder, self.source.filename)
        return self.path.parent if self.path.name in names else self.path

    def _complete(self) -> bool:
        return (self._root() / self.source.base_folder).is_dir()

    def _read(self, train: bool, download: bool = False) -> Any:
        with warnings.catch_warnings():
            # The files are pickles of an old NumPy, whose dtypes a new one complains of.
            warnings.filterwarnings("ignore", message=r"dtype\(\): align should be passed")
            return self.source(self._root(), train=train, download=download)


class CIFAR100(CIFAR10):
    """CIFAR-100: 50,000 images to train, 10,000 to test, a hundred classes.

    Looks on this machine first: for torchvision's layout, for the archive it is made from, and for
    ``cifar100`` as a folder or an archive of class folders; then downloads. A tenth of the training
    images validates, the same ones always.

    Args:
        path: the folder to look in and to download to, or the archive or folder itself;
            ``$POSENC_MM_DATA`` or ``data`` unless given.
        download: whether to try, where nothing is found.
        size: pixels to train at, one number or (height, width).
        test_size: pixels to test at; a list tests at each in turn.
        batch_size: images per step and process.
        num_workers: processes that load beside the training.
        augmentation: shift training images by up to four pixels and flip them.

    Raises:
        FileNotFoundError: it is neither here nor to be had.
    """

    source = datasets.CIFAR100
    count = 100
    mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


def _in_memory(dataset: Any) -> Memory:
    images = torch.from_numpy(dataset.data).permute(0, 3, 1, 2).contiguous()
    return Memory(images, dataset.targets)
