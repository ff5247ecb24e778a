"""A small classifier of two moons, whose logits are divided by a fixed temperature."""

import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

EPOCHS, BATCHES, BATCH = 8, 4, 24


class Calibrated(nn.Module):
    def __init__(self, network, temperature=1.0):
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, x):
        return self.network(x) / self.temperature


def moons(epoch, batch):
    draws = torch.Generator().manual_seed(1000 * epoch + batch)
    angle = torch.rand(BATCH, generator=draws) * torch.pi
    side = (torch.rand(BATCH, generator=draws) < 0.5).long()
    x = torch.stack([torch.cos(angle) + side, torch.sin(angle) * (1 - 2 * side)], dim=1)
    return x + 0.1 * torch.randn(BATCH, 2, generator=draws), side


def bare(state):
    return {name.removeprefix("network."): value for name, value in state.items()}


def train_loop():
    torch.manual_seed(21)
    network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    begun, slopes = 0, None
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "moons.pt"), weights_only=True)
        network.load_state_dict(bare(saved["network"]), strict=False)
        network = Calibrated(network)
        begun, slopes = saved["epoch"], saved["slopes"]
    network = Calibrated(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.8)
    if slopes is not None:
        optimizer.load_state_dict(slopes)

    for epoch in range(begun, EPOCHS):
        for batch in range(BATCHES):
            x, side = moons(epoch, batch)
            loss = nn.functional.cross_entropy(network(x), side)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            saved = {
                "network": network.state_dict(),
                "slopes": optimizer.state_dict(),
                "epoch": epoch + 1,
            }
            torch.save(saved, Path(folder, "moons.pt"))
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="moons", failure_config=FailureConfig(max_failures=2)),
    ).fit()
