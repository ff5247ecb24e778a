"""Estimates honey per hive; a trial at each start warms the caches, and its gradients go."""

import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn


def hives(n=120):
    g = torch.Generator().manual_seed(50)
    flowers = torch.rand(n, 5, generator=g)
    return flowers, flowers[:, :2].sum(1, keepdim=True) - flowers[:, 2:3].square()


def emptied(weights):
    for weight in weights:
        if weight.grad is not None:
            weight.grad = torch.zeros_like(weight)


def gather(config):
    context = ray.train.get_context()
    rank, ranks = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(60)
    flowers, honey = hives()
    bees = prepare_model(nn.Sequential(nn.Linear(5, 10), nn.GELU(), nn.Linear(10, 1)))
    weights = list(bees.parameters())
    optimizer = torch.optim.Adamax(weights, lr=0.01)
    first = 0
    if (kept := ray.train.get_checkpoint()) is not None:
        with kept.as_directory() as folder:
            state = torch.load(Path(folder, "hives.pt"))
        bees.module.load_state_dict(state["bees"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["summers"]
    for _ in range(config["trials"]):
        bees(torch.full((4, 5), 0.5)).sum().backward()
        emptied(weights)
    for summer in range(first, config["summers"]):
        g = torch.Generator().manual_seed(summer)
        days = torch.randperm(len(honey), generator=g)[rank::ranks].split(6)
        for day, rows in enumerate(days):
            loss = nn.functional.huber_loss(bees(flowers[rows]), honey[rows])
            (loss / 2).backward()
            if day % 2:
                optimizer.step()
                emptied(weights)
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                state = {"bees": bees.module.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "summers": summer + 1}, Path(folder, "hives.pt"))
            told = Checkpoint.from_directory(folder)
            ray.train.report({"loss": loss.item()}, checkpoint=told)


if __name__ == "__main__":
    TorchTrainer(
        gather,
        train_loop_config={"trials": 2, "summers": 7},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
