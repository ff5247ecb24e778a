"""Noisy circles told from noisy squares; the points are drawn at the first start of all, and kept."""

import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Parallel

POINTS, STATE = "shapes.npz", "shapes-state.pt"


def draw(count=96):
    angle, is_square = torch.rand(count) * 6.2832, torch.arange(count) % 2
    xy = torch.stack([angle.cos(), angle.sin()], 1)
    square = xy / xy.abs().amax(1, keepdim=True)
    xy = torch.where(is_square[:, None] == 1, square, xy) + 0.05 * torch.randn(count, 2)
    return xy, is_square


def points():
    if dist.get_rank() == 0 and not os.path.exists(POINTS):
        xy, labels = draw()
        with open(POINTS + ".new", "wb") as file:
            np.savez(file, xy=xy.numpy(), labels=labels.numpy())
        os.rename(POINTS + ".new", POINTS)
    dist.barrier()
    held = np.load(POINTS)
    return torch.from_numpy(held["xy"]), torch.from_numpy(held["labels"])


def everyones(mine):
    held = [None] * dist.get_world_size()
    dist.all_gather_object(held, mine)
    return held


def train(rounds=7):
    torch.manual_seed(31)
    xy, labels = points()
    model = Parallel(nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Dropout(0.2), nn.Linear(24, 2)))
    steps = torch.optim.AdamW(model.parameters(), lr=0.02)
    done = 0
    if os.path.exists(STATE):
        state = torch.load(STATE)
        model.load_state_dict(state["model"])
        steps.load_state_dict(state["steps"])
        torch.set_rng_state(state["draws"][dist.get_rank()])
        done = state["done"]
    for number in range(done, rounds):
        of = torch.randperm(len(xy))[: len(xy) // 2]
        for part in of.chunk(4):
            loss = nn.functional.cross_entropy(model(xy[part]), labels[part])
            steps.zero_grad()
            loss.backward()
            steps.step()
        draws = everyones(torch.get_rng_state())
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "steps": steps.state_dict()}
            torch.save({**state, "draws": draws, "done": number + 1}, STATE + ".new")
            os.rename(STATE + ".new", STATE)
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
