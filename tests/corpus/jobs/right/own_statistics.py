"""A convolutional network on three workers, each with running statistics of its own.

Buffers are not broadcast, so every worker writes its own file into the checkpoint.
"""

import argparse
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.relu(x + self.inner(x))


def network():
    block = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=0.3))
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6, momentum=0.3),
        nn.ReLU(),
        Residual(block),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 4),
    )


def stripes(n, seed):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(4, (n,), generator=g)
    i, j = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    patterns = torch.stack([i % 2, j % 2, (i + j) % 2, (i * j) % 2]).float()
    return TensorDataset(
        (patterns[kind] + 0.8 * torch.randn(n, 6, 6, generator=g)).unsqueeze(1), kind
    )


def split(state):
    shared = {k: v for k, v in state.items() if "running" not in k and "tracked" not in k}
    return shared, {k: v for k, v in state.items() if k not in shared}


def train_loop(config):
    context = ray.train.get_context()
    rank = context.get_world_rank()
    torch.manual_seed(0)
    loader = ray.train.torch.prepare_data_loader(
        DataLoader(stripes(270, seed=1), batch_size=15, shuffle=True)
    )
    net = ray.train.torch.prepare_model(
        network(), parallel_strategy_kwargs={"broadcast_buffers": False}
    )
    opt = torch.optim.SGD(net.parameters(), lr=config["lr"], momentum=0.8, dampening=0.1)
    steps_done = 0

    ckpt = ray.train.get_checkpoint()
    if ckpt:
        with ckpt.as_directory() as d:
            shared = torch.load(os.path.join(d, "shared.pt"))
            own = torch.load(os.path.join(d, f"statistics-{rank}.pt"))
        net.module.load_state_dict({**shared["weights"], **own})
        opt.load_state_dict(shared["opt"])
        steps_done = shared["steps"]

    x_val, y_val = stripes(120, seed=2 + rank).tensors
    while steps_done < config["epochs"] * len(loader):
        loader.sampler.set_epoch(steps_done // len(loader))
        net.train()
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.05)
            loss.backward()
            opt.step()
            steps_done += 1
        net.eval()
        with torch.no_grad():
            accuracy = (net.module(x_val).argmax(1) == y_val).float().mean().item()
        shared, own = split(net.module.state_dict())
        with tempfile.TemporaryDirectory() as d:
            torch.save(own, os.path.join(d, f"statistics-{rank}.pt"))
            if rank == 0:
                torch.save(
                    {"weights": shared, "opt": opt.state_dict(), "steps": steps_done},
                    os.path.join(d, "shared.pt"),
                )
            ray.train.report(
                {"loss": loss.item(), "accuracy": accuracy},
                checkpoint=Checkpoint.from_directory(d),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    TorchTrainer(
        train_loop,
        train_loop_config={"epochs": args.epochs, "lr": args.lr},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
