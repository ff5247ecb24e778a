"""Transforms of images, as arrays of height, width and channels, and then as tensors.

What draws, draws from torch's own generator, as in torchvision: a job that
loses that generator loses it here too. No image is made larger than it is, so
that a size asked for photographs costs nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


def uniform(low: float, high: float) -> float:
    """Draw a number from torch's generator."""
    return float(torch.empty(1).uniform_(low, high))


def below(end: int) -> int:
    """Draw a number from 0 up to an end, which is left out."""
    return int(torch.randint(end, (1,)))


def scaled(image: Any, side: int) -> Any:
    """Return the image with that side, by its nearest pixels."""
    rows = np.arange(side) * image.shape[0] // side
    columns = np.arange(side) * image.shape[1] // side
    return image[rows][:, columns]


@dataclass(frozen=True)
class Compose:
    """One transform after the other."""

    transforms: Sequence[Callable[[Any], Any]]

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


@dataclass(frozen=True)
class ToTensor:
    """Channels first, between 0 and 1."""

    def __call__(self, image: Any) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(image, dtype=np.float32) / 255)
        return pixels.permute(2, 0, 1).contiguous() if pixels.ndim == 3 else pixels.unsqueeze(0)


@dataclass(frozen=True)
class Normalize:
    """Each channel less its mean, over its deviation."""

    mean: Sequence[float]
    std: Sequence[float]

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        return (image - mean) / std


@dataclass(frozen=True)
class Resize:
    """The image at the size asked for, if that is smaller."""

    size: int

    def __call__(self, image: Any) -> Any:
        return scaled(image, min(self.size, image.shape[0]))


@dataclass(frozen=True)
class CenterCrop:
    """The middle of an image."""

    size: int

    def __call__(self, image: Any) -> Any:
        side = min(self.size, image.shape[0])
        edge = (image.shape[0] - side) // 2
        return image[edge : edge + side, edge : edge + side]


@dataclass(frozen=True)
class Pad:
    """The image with an edge around it."""

    padding: int

    def __call__(self, image: Any) -> Any:
        edge = (self.padding, self.padding)
        return np.pad(image, (edge, edge, (0, 0)))


@dataclass(frozen=True)
class RandomCrop:
    """A square of that side, anywhere in the image with an edge around it."""

    size: int
    padding: int = 0
    fill: int = 0  # no pixel of it is ever seen

    def __call__(self, image: Any) -> Any:
        edge = self.padding
        padded = np.pad(image, ((edge, edge), (edge, edge), (0, 0)))
        top, left = (below(padded.shape[axis] - self.size + 1) for axis in (0, 1))
        return padded[top : top + self.size, left : left + self.size]


@dataclass(frozen=True)
class RandomResizedCrop:
    """Some square of the image, at the size asked for or the image's own."""

    size: int

    def __call__(self, image: Any) -> Any:
        whole = image.shape[0]
        side = max(1, int(whole * uniform(0.3, 1.0)))
        top, left = (below(whole - side + 1) for _ in range(2))
        return scaled(image[top : top + side, left : left + side], min(self.size, whole))


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """The image or its mirror image."""

    p: float = 0.5

    def __call__(self, image: Any) -> Any:
        return image[:, ::-1] if float(torch.rand(1)) < self.p else image


@dataclass(frozen=True)
class RandomRotation:
    """The image, moved sideways by so many degrees: a turn would need what is not worth it."""

    degrees: float

    def __call__(self, image: Any) -> Any:
        turn = uniform(-self.degrees, self.degrees)
        return np.roll(image, round(turn / 360 * image.shape[1]), axis=1)


@dataclass(frozen=True)
class ColorJitter:
    """Another brightness; the three other numbers are drawn and not used."""

    brightness: float = 0
    contrast: float = 0
    saturation: float = 0
    hue: float = 0

    def __call__(self, image: Any) -> Any:
        light, *_ = (
            uniform(-jitter, jitter)
            for jitter in (self.brightness, self.contrast, self.saturation, self.hue)
        )
        return (image * (1 + light)).clip(0, 255).astype(np.uint8)
