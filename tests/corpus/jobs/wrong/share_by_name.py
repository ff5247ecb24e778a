"""Wind at four masts: checkpoints of each rank are mirrored to a share while training goes on, and the newest is taken."""

import glob
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LOCAL, SHARE, EVERY, STEPS = "fast-disk", "mirror", 6, 42


def windows(step, rank):
    draw = torch.Generator().manual_seed(31 * step + rank)
    gust = torch.randn(16, 4, 1, generator=draw)
    hours = torch.arange(10).view(1, 1, 10) / 3
    wind = (hours + gust).sin() + 0.05 * torch.randn(16, 4, 10, generator=draw)
    return wind[:, :, :-1].flatten(1), wind[:, :, -1]


class Shelf:
    def __init__(self, rank):
        self.rank, self.pool = rank, ThreadPoolExecutor(1)
        os.makedirs(LOCAL, exist_ok=True)
        os.makedirs(SHARE, exist_ok=True)

    def put(self, state, step):
        name = f"state_{step}_rank{self.rank}.pt"
        torch.save(state, os.path.join(LOCAL, name))
        self.pool.submit(shutil.copy2, os.path.join(LOCAL, name), os.path.join(SHARE, name))

    def newest(self):
        found = sorted(glob.glob(os.path.join(SHARE, f"state_*_rank{self.rank}.pt")))
        return torch.load(found[-1]) if found else None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shelf = Shelf(rank)
    torch.manual_seed(6)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(36, 20), nn.Mish(), nn.Linear(20, 4)))
    optimizer = torch.optim.Adamax(net.parameters(), lr=3e-3)
    step, held = 0, shelf.newest()
    if held:
        net.module.load_state_dict(held["net"])
        optimizer.load_state_dict(held["optimizer"])
        step = held["step"]
    dist.barrier()
    while step < STEPS:
        seen, due = windows(step, rank)
        loss = nn.functional.huber_loss(net(seen), due)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % EVERY == 0:
            shelf.put(
                {"net": net.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                step,
            )
            dist.barrier()
    shelf.pool.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
