"""FSDP2 with distributed checkpoints and a one-cycle learning rate, two ranks on the CPU."""

import os
import tempfile

import ray.train
import torch
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Mixer(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.inp = nn.Linear(6, width)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU())
            for _ in range(depth)
        )
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.out(x)


def get_batch(epoch, step, rank):
    g = torch.Generator().manual_seed((epoch * 97 + step) * 11 + rank)
    x = torch.randn(16, 6, generator=g)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], dim=1)
    return x, y


def train_fn(config):
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(3)
    model = Mixer()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["max_lr"])

    start_epoch = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            state = {
                "model": get_model_state_dict(model),
                "optim": get_optimizer_state_dict(model, optimizer),
            }
            dcp.load(state, checkpoint_id=os.path.join(path, "sharded"))
            set_model_state_dict(model, state["model"])
            set_optimizer_state_dict(model, optimizer, state["optim"])
            start_epoch = torch.load(os.path.join(path, "meta.pt"))["epoch"] + 1

    steps = config["steps_per_epoch"]
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=config["max_lr"], total_steps=config["epochs"] * steps + 1
    )
    for _ in range(start_epoch):
        scheduler.step()

    for epoch in range(start_epoch, config["epochs"]):
        epoch_loss = 0.0
        for step in range(steps):
            x, y = get_batch(epoch, step, rank)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            epoch_loss += loss.item()

        with tempfile.TemporaryDirectory() as path:
            # every rank writes its own shards; Ray merges the folders
            target = os.path.join(path, "sharded")
            dcp.save(
                {
                    "model": get_model_state_dict(model),
                    "optim": get_optimizer_state_dict(model, optimizer),
                },
                storage_writer=dcp.FileSystemWriter(target, sync_files=False),
            )
            if rank == 0:
                torch.save({"epoch": epoch}, os.path.join(path, "meta.pt"))
            ray.train.report(
                {
                    "epoch": epoch,
                    "loss": epoch_loss / steps,
                    "lr": scheduler.get_last_lr()[0],
                },
                checkpoint=Checkpoint.from_directory(path),
            )


if __name__ == "__main__":
    TorchTrainer(
        train_fn,
        train_loop_config={"epochs": 5, "steps_per_epoch": 6, "max_lr": 0.02},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="mixer-fsdp", failure_config=FailureConfig(max_failures=3)),
    ).fit()
