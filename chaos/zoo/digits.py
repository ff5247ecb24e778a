"""What the zoo's train loops share, as any project's do: images, network, average, validation.

The images are made, not loaded: ten patterns of 8 x 8 pixels under noise, so
that nothing needs to be installed or fetched.
"""

import copy
from typing import Any

import ray.train
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PIXELS, CLASSES = 64, 10
HELD_OUT = 64


def images(count: int, *, noise: float, seed: int) -> TensorDataset:
    """Give that many labelled images; the patterns are the same for every seed."""
    patterns = torch.rand(CLASSES, PIXELS, generator=torch.Generator().manual_seed(0))
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=draws)
    pixels = patterns[labels] + noise * torch.randn(count, PIXELS, generator=draws)
    return TensorDataset(pixels, labels)


def training_batches(config: dict[str, Any]) -> DataLoader:
    """Give this rank's batches: `steps_per_epoch` of them, shuffled anew by `set_epoch`."""
    world = ray.train.get_context().get_world_size()
    count = config["steps_per_epoch"] * config["batch_size"] * world
    dataset = images(count, noise=0.5, seed=1)
    return DataLoader(
        dataset,
        batch_size=config["batch_size"],
        sampler=DistributedSampler(dataset, seed=config["seed"]),
        generator=torch.Generator(),  # else every epoch takes a number from the global one
    )


def network() -> nn.Module:
    """Give an untrained network."""
    return nn.Sequential(nn.Linear(PIXELS, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, CLASSES))


def optimizer_of(model: nn.Module, config: dict[str, Any]) -> torch.optim.Optimizer:
    """Give the optimizer that the config names: `adam`, or `sgd` with momentum."""
    if config["optimizer"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return torch.optim.Adam(model.parameters(), lr=0.02)


class MovingAverage:
    """A second network whose weights follow those in training, which it is validated by."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).eval()
        self.updates = 0

    def update(self, model: nn.Module) -> None:
        """Move a part of the way towards the weights in training, smaller ones later."""
        self.updates += 1
        part = max(0.1, 1 / (1 + self.updates))
        with torch.no_grad():
            for mean, weight in zip(self.model.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, part)

    def state_dict(self) -> dict[str, Any]:
        """Give everything that a checkpoint needs of it."""
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


def validate(average: MovingAverage, *, noise: float = 0.5) -> float:
    """Give the mean loss on images that training never sees."""
    pixels, labels = images(HELD_OUT, noise=noise, seed=2).tensors
    with torch.no_grad():
        return float(nn.functional.cross_entropy(average.model(pixels), labels))
