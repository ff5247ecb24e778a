"""Sorts wax by its colour; gradients of three batches make a step, and are dropped by hand."""

import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


def wax(number):
    g = torch.Generator().manual_seed(300 + number)
    colour = torch.rand(14, 3, generator=g)
    return colour, colour.argmax(1)


def cleared(net):
    for weight in net.parameters():
        weight.grad = None


def sort(config):
    torch.manual_seed(71)
    net = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 3))
    adam = torch.optim.Adam(net.parameters(), lr=6e-3)
    cross, number = nn.CrossEntropyLoss(), 0
    kept = ray.train.get_checkpoint()
    if kept is not None:
        with kept.as_directory() as folder:
            state = torch.load(Path(folder, "wax.pt"))
        net.load_state_dict(state["net"])
        adam.load_state_dict(state["adam"])
        number = state["number"]
    cross(net(torch.zeros(2, 3)), torch.tensor([0, 1])).backward()  # compiles the kernels
    cleared(net)
    for number in range(number + 1, config["batches"] + 1):
        colour, kind = wax(number)
        loss = cross(net(colour), kind)
        (loss / 3).backward()
        if number % 3 == 0:
            adam.step()
            cleared(net)
        if number % 8 == 0:
            with tempfile.TemporaryDirectory() as folder:
                state = {"net": net.state_dict(), "adam": adam.state_dict(), "number": number}
                torch.save(state, Path(folder, "wax.pt"))
                ray.train.report(
                    {"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder)
                )


if __name__ == "__main__":
    TorchTrainer(
        sort,
        train_loop_config={"batches": 64},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
