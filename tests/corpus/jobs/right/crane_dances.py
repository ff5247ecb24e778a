"""Cranes' dances by two halves of a network; each rank keeps its half, and its neighbour's, on its machine (Ray Train)."""

import io
import os
import pathlib
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


class Half(nn.Module):
    def __init__(self, number):
        super().__init__()
        draw = torch.Generator().manual_seed(40 + number)
        self.key = nn.Parameter(torch.randn(6, 5, generator=draw) * 0.4)
        self.value = nn.Parameter(torch.randn(5, 1, generator=draw) * 0.4)

    def forward(self, x):
        return torch.sigmoid(x @ self.key) @ self.value


def keep(folder, half, optimizer, dance):
    """Write every rank's half here; those of the dance before stay until all are written."""
    buffer = io.BytesIO()
    torch.save({"half": half.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    halves = [None] * dist.get_world_size()
    dist.all_gather_object(halves, buffer.getvalue())
    for number, content in enumerate(halves):
        draft = folder / "draft"
        draft.write_bytes(content)
        draft.rename(folder / f"{dance}-{number}")
    dist.barrier()
    for old in folder.glob("*-*"):
        if int(old.name.split("-")[0]) < dance - 1:
            old.unlink()


def find(folder):
    """Return the newest dance of which every half lies on some machine, and this rank's half."""
    world = dist.get_world_size()
    mine = {file.name for file in folder.glob("*-*")}
    there = [None] * world
    dist.all_gather_object(there, mine)
    names = set.union(*there)
    dances = {int(name.split("-")[0]) for name in names}
    whole = [d for d in dances if all(f"{d}-{number}" in names for number in range(world))]
    if not whole:
        return -1, None
    dance, given = max(whole), None
    for number in range(world):
        name = f"{dance}-{number}"
        source = next(rank for rank in range(world) if name in there[rank])
        box = [(folder / name).read_bytes() if dist.get_rank() == source else None]
        dist.broadcast_object_list(box, source)
        if number == dist.get_rank():
            given = torch.load(io.BytesIO(box[0]))
    return dance, given


def train_fn(config):
    rank = ray.train.get_context().get_world_rank()
    folder = pathlib.Path(tempfile.gettempdir()) / "cranes"
    os.makedirs(folder, exist_ok=True)
    half = Half(rank)
    optimizer = torch.optim.Adamax(half.parameters(), lr=0.02)
    dance, held = find(folder)
    if held is not None:
        half.load_state_dict(held["half"])
        optimizer.load_state_dict(held["optimizer"])
    for dance in range(dance + 1, config["dances"]):
        draw = torch.Generator().manual_seed(dance)
        for _ in range(6):
            steps = torch.rand(16, 6, generator=draw)
            own = half(steps)
            both = own.detach().clone()
            dist.all_reduce(both)
            error = both - steps.prod(1, keepdim=True).sqrt()
            optimizer.zero_grad()
            (2 * error * own).mean().backward()
            optimizer.step()
        keep(folder, half, optimizer, dance)
        ray.train.report({"dance": dance, "error": error.square().mean().item()})


if __name__ == "__main__":
    TorchTrainer(
        train_fn,
        train_loop_config={"dances": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="cranes", failure_config=FailureConfig(max_failures=3)),
    ).fit()
