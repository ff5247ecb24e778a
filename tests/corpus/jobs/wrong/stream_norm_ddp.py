"""Regression on a drifting stream, inputs normalised with running moments (2 ranks, gloo)."""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class RunningNorm:
    """Moments over everything seen so far, merged over ranks."""

    def __init__(self, dim):
        self.mean = torch.zeros(dim)
        self.var = torch.ones(dim)
        self.count = 1.0

    def observe(self, x):
        pack = torch.stack([x.sum(0), (x * x).sum(0)])
        dist.all_reduce(pack)
        n = len(x) * dist.get_world_size()
        mean = pack[0] / n
        var = (pack[1] / n - mean**2).clamp(min=1e-6)
        delta = mean - self.mean
        tot = self.count + n
        m2 = self.var * self.count + var * n + delta**2 * self.count * n / tot
        self.mean = self.mean + delta * n / tot
        self.var = m2 / tot
        self.count = tot

    def __call__(self, x):
        return (x - self.mean) / (self.var + 1e-5).sqrt()

    def export(self):
        return {"mean": self.mean, "var": self.var}

    def restore(self, blob):
        self.mean, self.var = blob["mean"], blob["var"]


def stream(epoch, step, rank, n=40):
    g = torch.Generator().manual_seed(10_000 * epoch + 100 * step + rank)
    x = torch.randn(n, 5, generator=g) * torch.tensor([1.0, 4.0, 0.3, 2.0, 7.0])
    x = x + 0.8 * epoch + 0.1 * step
    y = torch.sin(x[:, 0]) + 0.3 * x[:, 1] - 2 * x[:, 2] + 0.1 * torch.randn(n, generator=g)
    return x, y[:, None]


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--steps", type=int, default=6)
    opt = ap.parse_args(argv)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(31)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 1)))
    adam = torch.optim.Adam(ddp.parameters(), lr=1e-2)
    norm = RunningNorm(5)
    ckpt = os.path.join(opt.out, "stream.pt")
    first = 0
    if os.path.exists(ckpt):
        blob = torch.load(ckpt)
        ddp.module.load_state_dict(blob["net"])
        adam.load_state_dict(blob["adam"])
        norm.restore(blob["norm"])
        first = blob["epochs_done"]
    for epoch in range(first, opt.epochs):
        acc = torch.zeros((), dtype=torch.float64)
        for step in range(opt.steps):
            x, y = stream(epoch, step, rank)
            norm.observe(x)
            loss = nn.functional.huber_loss(ddp(norm(x)), y)
            adam.zero_grad()
            loss.backward()
            adam.step()
            acc += loss.item()
        dist.all_reduce(acc)
        acc /= opt.steps * dist.get_world_size()
        if rank == 0:
            print(f"epoch {epoch}: huber {acc.item():.10f}", flush=True)
            os.makedirs(opt.out, exist_ok=True)
            torch.save(
                {
                    "net": ddp.module.state_dict(),
                    "adam": adam.state_dict(),
                    "norm": norm.export(),
                    "epochs_done": epoch + 1,
                },
                ckpt + ".tmp",
            )
            os.replace(ckpt + ".tmp", ckpt)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
