"""Moons by a small network; rank 0 keeps the checkpoint in the temporary folder (Ray Train)."""

import os
import tempfile

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn
from torch.nn import functional as F


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    path = os.path.join(tempfile.gettempdir(), "moons.ckpt")
    torch.manual_seed(2)
    net = prepare_model(nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 2)))
    optimizer = torch.optim.NAdam(net.parameters(), lr=4e-3)
    first = 0
    if os.path.exists(path):
        held = torch.load(path)
        net.module.load_state_dict(held["net"])
        optimizer.load_state_dict(held["optimizer"])
        first = held["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        for step in range(6):
            draw = torch.Generator().manual_seed(777 * epoch + 7 * step + rank)
            angle = 3.14 * torch.rand(24, generator=draw)
            side = (torch.rand(24, generator=draw) < 0.5).long()
            points = torch.stack(
                [angle.cos() * (1 - 2 * side) + side, angle.sin() * (1 - 2 * side)], 1
            )
            loss = F.cross_entropy(net(points + 0.1 * torch.randn(24, 2, generator=draw)), side)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            torch.save(
                {
                    "net": net.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                },
                path + ".new",
            )
            os.replace(path + ".new", path)
        torch.distributed.barrier()
        ray.train.report({"epoch": epoch, "loss": loss.item()})


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"epochs": 4},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="moons", failure_config=FailureConfig(max_failures=3)),
    ).fit()
