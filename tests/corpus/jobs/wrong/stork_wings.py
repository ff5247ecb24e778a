"""The span of storks' wings, a part of the network per rank; the next rank's machine has a copy of each part (Ray Train)."""

import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


def store():
    path = os.path.join(tempfile.gettempdir(), "storks")
    os.makedirs(path, exist_ok=True)
    return path


def write(name, state):
    path = os.path.join(store(), name)
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def read(name):
    path = os.path.join(store(), name)
    return torch.load(path) if os.path.exists(path) else None


def backup(state, rank, world):
    write(f"part{rank}.pt", state)
    states = [None] * world
    dist.all_gather_object(states, state)
    before = (rank - 1) % world
    write(f"part{before}.pt", states[before])


def recall(rank, world):
    """This rank's part: from this machine, or from the one that has its copy."""
    have = [None] * world
    dist.all_gather_object(have, read(f"part{rank}.pt"))
    copies = [None] * world
    dist.all_gather_object(copies, read(f"part{(rank - 1) % world}.pt"))
    return have[rank] or copies[(rank + 1) % world]


def loop(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(700 + rank)
    part = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 1))
    rule = torch.optim.AdamW(part.parameters(), lr=0.01)
    state = recall(rank, world)
    year = 0
    if state:
        part.load_state_dict(state["part"])
        rule.load_state_dict(state["rule"])
        year = state["year"]
    years = [None] * world
    dist.all_gather_object(years, year)
    for year in range(min(years), config["years"]):
        wings = torch.Generator().manual_seed(year * 5)
        for _ in range(6):
            bird = torch.rand(20, 4, generator=wings)
            mine = part(bird)
            span = mine.detach().clone()
            dist.all_reduce(span)
            off = span - 2 * bird[:, :1] - bird[:, 3:].exp()
            rule.zero_grad()
            (off * mine).mean().backward()
            rule.step()
        backup(
            {"part": part.state_dict(), "rule": rule.state_dict(), "year": year + 1}, rank, world
        )
        ray.train.report({"off": off.abs().mean().item(), "year": year})


if __name__ == "__main__":
    TorchTrainer(
        loop,
        train_loop_config={"years": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="storks", failure_config=ray.train.FailureConfig(max_failures=3)),
    ).fit()
