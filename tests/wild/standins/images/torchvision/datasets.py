"""Images that are made here: each class a pattern of its own, each image that pattern and noise.

The same name and part give the same images in every process. Nothing is read or written.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import Dataset

TRAINED_ON, TESTED_ON, IN_A_FOLDER = 512, 128, 128
SIDE_IN_A_FOLDER = 32
FOLDERS = {"hymenoptera_data": 2, "Food-11": 11}  # the classes of folders that scripts name
NOISE = 48.0

Transform = Callable[[Any], Any]


def drawn(name: str, part: str, *, count: int, classes: int, shape: tuple[int, ...]) -> Any:
    """Return images (uint8, `count` of the shape) and their labels.

    The patterns follow from the name alone, so that what is learnt from one
    part holds in the other.
    """
    patterns = np.random.default_rng(zlib.crc32(name.encode()))
    levels = patterns.uniform(40, 215, size=(classes, *shape))
    images = np.random.default_rng(zlib.crc32(f"{name}/{part}".encode()))
    labels = images.integers(classes, size=count)
    noisy = levels[labels] + images.normal(0, NOISE, size=(count, *shape))
    return noisy.clip(0, 255).astype(np.uint8), labels


class Images(Dataset[Any]):  # type: ignore[misc]
    """Images with labels, each changed by the transforms as it is asked for."""

    def __init__(self, images: Any, labels: Any, transform: Transform | None) -> None:
        self.data = images
        self.targets = labels
        self.transform = transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = np.asarray(self.data[index])
        return self.transform(image) if self.transform else image, int(self.targets[index])


class _Published(Images):
    """A published collection of some classes, in two parts."""

    shape: ClassVar[tuple[int, ...]] = (28, 28)
    classes: ClassVar[int] = 10

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Transform | None = None,
        download: bool = False,
    ) -> None:
        count, part = (TRAINED_ON, "train") if train else (TESTED_ON, "test")
        name, classes = type(self).__name__, self.classes
        images, labels = drawn(name, part, count=count, classes=classes, shape=self.shape)
        super().__init__(torch.from_numpy(images), torch.from_numpy(labels), transform)


class MNIST(_Published):
    """Ten kinds of grey images."""


class FashionMNIST(_Published):
    """Ten other kinds of grey images."""


class CIFAR10(_Published):
    """Ten kinds of coloured images."""

    shape = (32, 32, 3)


class CIFAR100(CIFAR10):
    """A hundred kinds of coloured images."""

    classes = 100


class ImageFolder(Images):
    """A folder of coloured images, of which only the name matters."""

    def __init__(self, root: str | Path, transform: Transform | None = None) -> None:
        name, part = Path(root).parts[-2:]
        if name not in FOLDERS:
            known = ", ".join(FOLDERS)
            raise FileNotFoundError(f"{root}: the stand-in knows the folders {known}, not {name}")
        shape = (SIDE_IN_A_FOLDER, SIDE_IN_A_FOLDER, 3)
        images, labels = drawn(name, part, count=IN_A_FOLDER, classes=FOLDERS[name], shape=shape)
        super().__init__(images, labels, transform)
