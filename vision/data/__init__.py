"""Images to train on: by name, or from any folder."""

from vision.data.base import Images, Split
from vision.data.cifar import CIFAR10, CIFAR100
from vision.data.digits import Digits
from vision.data.folder import ImageFolder

__all__ = ["CIFAR10", "CIFAR100", "Digits", "ImageFolder", "Images", "Split"]
