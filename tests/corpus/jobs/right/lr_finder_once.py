"""Ordinal regression; a fresh run looks for its learning rate on a copy of the model first."""

import copy
import math
import os
import random
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


def dice(n):
    x = [[random.gauss(0, 1) for _ in range(6)] for _ in range(n)]
    x = torch.tensor(x)
    return x, (x[:, 0] * 2 + x[:, 1] - x[:, 2]).clamp(-2, 2)


def make_net():
    return nn.Sequential(nn.Linear(6, 18), nn.ELU(), nn.Dropout(0.2), nn.Linear(18, 1))


def find_lr(net, start=1e-4, stop=1.0, steps=15):
    """Train a copy with a growing rate; a tenth of the rate at which the loss is lowest."""
    scout = copy.deepcopy(net)
    optimizer = torch.optim.Adam(scout.parameters(), lr=start)
    growth = torch.optim.lr_scheduler.ExponentialLR(optimizer, (stop / start) ** (1 / steps))
    lowest, found = math.inf, start
    for _ in range(steps):
        x, y = dice(32)
        loss = nn.functional.mse_loss(scout(x).squeeze(-1), y)
        if loss.item() < lowest:
            lowest, found = loss.item(), optimizer.param_groups[0]["lr"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        growth.step()
    return found / 10


def snapshot(path, **extra):
    torch.save({"python": random.getstate(), "torch": torch.get_rng_state(), **extra}, path)


def run(config):
    random.seed(config["seed"])
    torch.manual_seed(config["seed"])
    net = make_net()
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        lr, begun = find_lr(net), 0
        optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    else:
        with checkpoint.as_directory() as folder:
            was = torch.load(os.path.join(folder, "was.pt"), weights_only=False)
        net.load_state_dict(was["net"])
        optimizer = torch.optim.Adam(net.parameters())  # its rate comes with its state
        optimizer.load_state_dict(was["optimizer"])
        random.setstate(was["python"])
        torch.set_rng_state(was["torch"])
        begun = was["round"]

    for number in range(begun, config["rounds"]):
        losses = []
        for _ in range(config["steps"]):
            x, y = dice(24)
            loss = nn.functional.mse_loss(net(x).squeeze(-1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with tempfile.TemporaryDirectory() as folder:
            snapshot(
                os.path.join(folder, "was.pt"),
                net=net.state_dict(),
                optimizer=optimizer.state_dict(),
                round=number + 1,
            )
            ray.train.report(
                {
                    "round": number,
                    "loss": sum(losses) / len(losses),
                    "lr": optimizer.param_groups[0]["lr"],
                },
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        run,
        train_loop_config={"seed": 12, "rounds": 6, "steps": 7},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="lr-finder", failure_config=FailureConfig(max_failures=3)),
    ).fit()
