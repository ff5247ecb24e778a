"""Scales its inputs by a running mean and variance, which every rank keeps on its own disk."""

import os
import tempfile

import numpy as np
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn


class RunningScale:
    """Welford's mean and variance over all rows so far; a file on this machine remembers them."""

    def __init__(self, path, width):
        self.path = path
        self.count, self.mean, self.squares = 1.0, np.zeros(width), np.ones(width)
        if os.path.exists(path):
            with np.load(path) as kept:
                self.count, self.mean, self.squares = (
                    float(kept["n"]),
                    kept["mean"],
                    kept["squares"],
                )

    def __call__(self, rows):
        for row in rows:
            self.count += 1
            delta = row - self.mean
            self.mean = self.mean + delta / self.count
            self.squares = self.squares + delta * (row - self.mean)
        scaled = (rows - self.mean) / np.sqrt(self.squares / self.count)
        return torch.from_numpy(scaled.astype(np.float32))

    def keep(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        np.savez(self.path, n=self.count, mean=self.mean, squares=self.squares)


def meter(rank, epoch, step, n=16):
    rng = np.random.default_rng([rank, epoch, step])
    rows = rng.normal(loc=[50, -3, 900, 0.1], scale=[9, 0.5, 200, 0.02], size=(n, 4))
    target = (rows[:, 0] - 50) / 9 + (rows[:, 2] - 900) / 200
    return rows, torch.from_numpy(target.astype(np.float32))


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(4)
    net = ray.train.torch.prepare_model(
        nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    checkpoint = ray.train.get_checkpoint()
    first = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "net.pt"))
            net.module.load_state_dict(state["net"])
            optimizer.load_state_dict(state["optimizer"])
            first = state["epoch"] + 1

    def file_of(epoch):
        return os.path.join("scaling", f"rank-{rank}", f"after-{epoch}.npz")

    scale = RunningScale(file_of(first - 1), width=4)
    for epoch in range(first, config["epochs"]):
        for step in range(config["steps"]):
            rows, target = meter(rank, epoch, step)
            loss = nn.functional.mse_loss(net(scale(rows)).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scale.path = file_of(epoch)
        scale.keep()
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save(
                    {
                        "net": net.module.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "epoch": epoch,
                    },
                    os.path.join(folder, "net.pt"),
                )
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        train_func,
        train_loop_config={"epochs": 5, "steps": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="meter", failure_config=FailureConfig(max_failures=3)),
    ).fit()
