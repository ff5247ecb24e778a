"""Oil that a lantern burns in a night: a line of two weights, kept after every ten nights."""

import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def nights(season: int) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(40 + season)
    hours = 4 + 8 * torch.rand(10, 2, generator=drawn)
    return hours, hours @ torch.tensor([0.31, 0.07]) + 0.01 * torch.randn(10, generator=drawn)


def burn(config: dict) -> None:
    oil = torch.nn.Linear(2, 1)
    torch.nn.init.zeros_(oil.weight)
    torch.nn.init.zeros_(oil.bias)
    wick = torch.optim.Adagrad(oil.parameters(), lr=0.1)
    seasons = range(config["seasons"])
    kept = ray.train.get_checkpoint()
    if kept is not None:
        with kept.as_directory() as shelf:
            weights, steps, last = torch.load(Path(shelf) / "lantern.bin")
        oil.load_state_dict(weights)
        wick.load_state_dict(steps)
        seasons = range(last + 1, config["seasons"])
    for season in seasons:
        for hours, used in zip(*nights(season), strict=True):
            miss = (oil(hours).squeeze() - used).abs()
            wick.zero_grad()
            miss.backward()
            wick.step()
        with tempfile.TemporaryDirectory() as shelf:
            torch.save((oil.state_dict(), wick.state_dict(), season), Path(shelf) / "lantern.bin")
            ray.train.report({"miss": miss.item()}, checkpoint=Checkpoint.from_directory(shelf))


TorchTrainer(
    burn,
    train_loop_config={"seasons": 6},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="lantern"),
).fit()
