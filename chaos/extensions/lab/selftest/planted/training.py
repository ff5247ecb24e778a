"""Images, network, optimizer, average and validation of every planted loop.

The images are made, not loaded: ten patterns of 8 x 8 pixels under noise, so
that nothing needs to be installed or fetched.
"""

import copy
from typing import Any

import ray.train
import ray.train.torch
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import chaos

PIXELS, CLASSES = 64, 10
HELD_OUT = 64


def make_images(count: int, *, noise: float, seed: int) -> TensorDataset:
    """Return that many labelled images; the patterns are the same for every seed."""
    patterns = torch.rand(CLASSES, PIXELS, generator=torch.Generator().manual_seed(0))
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=draws)
    pixels = patterns[labels] + noise * torch.randn(count, PIXELS, generator=draws)
    return TensorDataset(pixels, labels)


def build_batches(config: dict[str, Any]) -> DataLoader:
    """Return this rank's batches: `steps_per_epoch` of them, shuffled anew by `set_epoch`."""
    world = ray.train.get_context().get_world_size()
    count = config["steps_per_epoch"] * config["batch_size"] * world
    dataset = make_images(count, noise=0.5, seed=1)
    return DataLoader(
        dataset,
        batch_size=config["batch_size"],
        sampler=DistributedSampler(dataset, seed=config["seed"]),
        generator=torch.Generator(),  # otherwise every epoch takes a number from the global one
    )


def build_network() -> nn.Module:
    """Return an untrained network."""
    return nn.Sequential(nn.Linear(PIXELS, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, CLASSES))


def build_optimizer(model: nn.Module, config: dict[str, Any]) -> torch.optim.Optimizer:
    """Return the optimizer that the config names: `adam`, or `sgd` with momentum."""
    if config["optimizer"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return torch.optim.Adam(model.parameters(), lr=0.02)


class MovingAverage:
    """A second network, used for validation, whose weights follow those in training."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).eval()
        self.updates = 0

    def update(self, model: nn.Module) -> None:
        """Move towards the weights in training, by a share that decreases with time."""
        self.updates += 1
        part = max(0.1, 1 / (1 + self.updates))
        with torch.no_grad():
            for mean, weight in zip(self.model.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, part)

    def follow(self, model: nn.Module) -> None:
        """Copy the weights of a model."""
        self.model.load_state_dict(model.state_dict())
        self.updates = 0

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs of it."""
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


def validate(average: MovingAverage, *, noise: float = 0.5) -> float:
    """Return the mean loss on images that training never sees."""
    pixels, labels = make_images(HELD_OUT, noise=noise, seed=2).tensors
    with torch.no_grad():
        return float(cross_entropy(average.model(pixels), labels))


class Training:
    """One rank's network, optimizer, schedule, average and batches."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.job = config["job"]
        rank = ray.train.get_context().get_world_rank()
        torch.manual_seed(config["seed"])
        self.model = ray.train.torch.prepare_model(build_network())
        # Ranks start equal and drop out differently.
        torch.manual_seed(1000 * config["seed"] + rank)
        self.optimizer = build_optimizer(self.model, config)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.optimizer, T_max=config["epochs"] * config["steps_per_epoch"]
        )
        self.average = MovingAverage(self.model.module)
        chaos.declare("ema", self.average)
        self.batches = build_batches(config)

    def step(self, pixels: torch.Tensor, labels: torch.Tensor) -> float:
        """Take one optimizer step and return its loss."""
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(pixels), labels)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.average.update(self.model.module)
        return float(loss.item())

    def epoch(self) -> tuple[float, int]:
        """Take the steps of an epoch and return their mean loss and their number."""
        total = 0.0
        for pixels, labels in self.batches:
            total += self.step(pixels, labels)
        return total / len(self.batches), len(self.batches)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs of it."""
        return {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "average": self.average.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.model.module.load_state_dict(state["model"])
        if self.job != "loses momentum":
            self.optimizer.load_state_dict(state["optimizer"])
        if self.job != "restarts its schedule":
            self.schedule.load_state_dict(state["schedule"])
        if self.job == "resets its average":
            self.average.follow(self.model.module)
        else:
            self.average.load_state_dict(state["average"])
