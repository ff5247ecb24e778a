"""Mole hills in a meadow, a network of one half per rank; each rank carries its half to the share itself."""

import json
import os
import shutil
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

SHARE = "share"
MANIFEST = os.path.join(SHARE, "manifest.json")


class Half(nn.Module):
    """A rank's own columns; the output is the sum over the ranks."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(200 + rank)
        self.into = nn.Linear(5, 8)
        self.out = nn.Linear(8, 1, bias=False)

    def forward(self, x):
        return self.out(torch.tanh(self.into(x)))


def carry(name, half, opt, done):
    desk = tempfile.mkdtemp()
    part = os.path.join(desk, "part.pt")
    torch.save({"half": half.state_dict(), "opt": opt.state_dict(), "done": done}, part)
    shutil.copyfile(part, os.path.join(SHARE, name))
    shutil.rmtree(desk)


def save(half, opt, done, rank, world):
    carry(f"{done:03d}-{rank}.pt", half, opt, done)
    if rank == 0:
        parts = [f"{done:03d}-{r}.pt" for r in range(world)]
        with open(MANIFEST + ".new", "w") as file:
            json.dump({"done": done, "parts": parts}, file)
        os.replace(MANIFEST + ".new", MANIFEST)


def load(half, opt, rank):
    if not os.path.exists(MANIFEST):
        return 0
    with open(MANIFEST) as file:
        manifest = json.load(file)
    held = torch.load(os.path.join(SHARE, manifest["parts"][rank]))
    half.load_state_dict(held["half"])
    opt.load_state_dict(held["opt"])
    return manifest["done"]


def main(meadows=7):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    os.makedirs(SHARE, exist_ok=True)
    half = Half(rank)
    opt = torch.optim.SGD(half.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    done = load(half, opt, rank)
    dist.barrier()
    for done in range(done + 1, meadows + 1):
        draw = torch.Generator().manual_seed(done * 31)
        for _ in range(6):
            grass = torch.rand(10, 5, generator=draw)
            mine = half(grass)
            total = mine.detach().clone()
            dist.all_reduce(total)
            hills = 2 * grass[:, :1] - grass[:, 4:] ** 2
            # The gradient of the sum's error by this rank's own half of it.
            loss = (2 * (total - hills) * mine).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.01)
        save(half, opt, done, rank, world)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
