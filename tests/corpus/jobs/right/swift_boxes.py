"""Swifts' nest boxes by height and side; `cp` brings each save to the store, and is waited for."""

import os
import re
import subprocess
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STORE = os.path.abspath("boxes")


def upload(folder, name):
    coming = os.path.join(STORE, f"{name}.coming")
    subprocess.run(["rm", "-rf", coming], check=True)
    subprocess.run(["cp", "-r", folder, coming], check=True)
    subprocess.run(["mv", "-T", coming, os.path.join(STORE, name)], check=True)


def numbers():
    found = (re.fullmatch(r"y(\d+)", name) for name in os.listdir(STORE))
    return sorted(int(match[1]) for match in found if match)


class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.height = nn.Linear(1, 6)
        self.side = nn.Embedding(4, 6)
        self.last = nn.Linear(6, 1)

    def forward(self, height, side):
        return self.last(torch.relu(self.height(height) + self.side(side)))


def main(years=6):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs(STORE, exist_ok=True)
    torch.manual_seed(3)
    boxes = Boxes()
    tool = torch.optim.Adadelta(boxes.parameters(), lr=0.9)
    year = 0
    if numbers():
        year = numbers()[-1]
        folder = os.path.join(STORE, f"y{year}")
        boxes.load_state_dict(torch.load(os.path.join(folder, "boxes")))
        tool.load_state_dict(torch.load(os.path.join(folder, "tool")))
    dist.barrier()
    wide = DistributedDataParallel(boxes)
    while year < years:
        draw = torch.Generator().manual_seed(61 * year + rank)
        for _ in range(6):
            height = torch.rand(12, 1, generator=draw)
            side = torch.randint(4, (12,), generator=draw)
            swifts = height.squeeze(1) * (side == 0) + 0.2 * side
            loss = nn.functional.mse_loss(wide(height, side).squeeze(1), swifts)
            tool.zero_grad()
            loss.backward()
            tool.step()
        year += 1
        if rank == 0:
            with tempfile.TemporaryDirectory() as folder:
                torch.save(boxes.state_dict(), os.path.join(folder, "boxes"))
                torch.save(tool.state_dict(), os.path.join(folder, "tool"))
                upload(folder, f"y{year}")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
