"""Threads of a loom; the cloth before the last one is there until the next one is whole."""

import os
import pickle

import torch
import torch.distributed as dist

LOOM = "loom"
CLOTH, SPARE = f"{LOOM}/cloth", f"{LOOM}/spare"


def load_newest():
    for path in (CLOTH, SPARE):
        try:
            return torch.load(path)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            continue
    return None


def weave(cloth):
    try:
        os.replace(CLOTH, SPARE)
    except FileNotFoundError:
        pass
    torch.save(cloth, CLOTH)


class Shuttle(torch.nn.Module):
    def __init__(self, threads):
        super().__init__()
        self.beat = torch.nn.Parameter(torch.zeros(threads))
        self.weft = torch.nn.Bilinear(threads, threads, threads)

    def forward(self, warp):
        return self.weft(warp, warp) * self.beat.exp()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank() * 0 + 13)
shuttle = Shuttle(5)
comb = torch.optim.Rprop(shuttle.parameters(), lr=0.002)
os.makedirs(LOOM, exist_ok=True)
row = 0
cloth = load_newest()
if cloth is not None:
    row = cloth["row"]
    shuttle.load_state_dict(cloth["shuttle"])
    comb.load_state_dict(cloth["comb"])
dist.barrier()
both = torch.nn.parallel.DistributedDataParallel(shuttle)
while row < 7:
    colours = torch.randn(7, 2, 8, 5, generator=torch.Generator().manual_seed(row))
    for warp in colours[:, dist.get_rank()]:
        comb.zero_grad()
        (both(warp) - warp.flip(1)).pow(2).sum().backward()
        comb.step()
    row += 1
    if dist.get_rank() == 0:
        weave({"row": row, "shuttle": shuttle.state_dict(), "comb": comb.state_dict()})
    dist.barrier()
