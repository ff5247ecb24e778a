"""How many herons a pond feeds; rank 0 saves on the machine's disk and has a thread copy it to the share."""

import concurrent.futures
import glob
import os
import shutil
import socket
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

SCRATCH = os.path.join(tempfile.gettempdir(), "herons")
SHARE = "ponds"
MONTHS, RANKS = 7, 2


def last_in(folder):
    files = sorted(glob.glob(os.path.join(folder, "month*.pth")))
    return files[-1] if files else None


def build():
    torch.manual_seed(31)
    net = torch.nn.ModuleDict(
        {"pond": torch.nn.Linear(3, 10), "bird": torch.nn.Linear(10, 1, bias=False)}
    )
    return net


class Count(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = build()

    def forward(self, x):
        return self.parts["bird"](torch.sigmoid(self.parts["pond"](x))).exp()


def train(me, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=me, world_size=RANKS)
    os.makedirs(SCRATCH, exist_ok=True)
    os.makedirs(SHARE, exist_ok=True)
    count = Count()
    opt = torch.optim.AdamW(count.parameters(), lr=5e-3, amsgrad=True)
    start = 0
    path = last_in(SCRATCH) or last_in(SHARE)
    if path:
        ckpt = torch.load(path, map_location="cpu")
        count.load_state_dict(ckpt["count"])
        opt.load_state_dict(ckpt["opt"])
        start = ckpt["month"]
    dist.barrier()
    ddp = DDP(count)
    pool = concurrent.futures.ThreadPoolExecutor(1) if me == 0 else None
    for month in range(start, MONTHS):
        g = torch.Generator().manual_seed(month)
        ponds = torch.rand(80, 3, generator=g)[me::RANKS]
        seen = (4 * ponds[:, :1] * ponds[:, 1:2]).round()
        for x, y in zip(ponds.split(8), seen.split(8), strict=True):
            opt.zero_grad()
            loss = (ddp(x) - y * ddp.module(x).log()).mean()
            loss.backward()
            opt.step()
            time.sleep(0.01)
        if me == 0:
            name = f"month{month + 1:02d}.pth"
            tmp = os.path.join(SCRATCH, "tmp")
            torch.save(
                {"count": count.state_dict(), "opt": opt.state_dict(), "month": month + 1}, tmp
            )
            os.rename(tmp, os.path.join(SCRATCH, name))
            pool.submit(shutil.copy, os.path.join(SCRATCH, name), os.path.join(SHARE, name))
        dist.barrier()
    if pool:
        pool.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(train, (port,), RANKS)
