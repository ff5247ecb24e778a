"""Deep narrow net on Friedman data; gradients clipped at a quantile of recent norms.

torchrun --standalone --nproc_per_node 2 clip_ddp.py --out runs/clip
"""

import os
from argparse import ArgumentParser
from collections import deque

import torch
import torch.distributed as dist
from sklearn.datasets import make_friedman1
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class QuantileClipper:
    def __init__(self, q=0.3, window=20):
        self.q = q
        self.history = deque(maxlen=window)

    def __call__(self, params):
        params = [p for p in params if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in params]).norm().item()
        self.history.append(norm)
        limit = torch.tensor(list(self.history)).quantile(self.q).item()
        if norm > limit:
            for p in params:
                p.grad.mul_(limit / (norm + 1e-12))
        return limit


def loader(rank, world):
    x, y = make_friedman1(n_samples=448, noise=0.3, random_state=4)
    ds = TensorDataset(
        torch.tensor(x, dtype=torch.float32),
        torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32),
    )
    sampler = DistributedSampler(ds, num_replicas=world, rank=rank, shuffle=True, seed=4)
    return DataLoader(ds, batch_size=32, sampler=sampler), sampler


def make_net(depth=5, width=16):
    layers = [nn.Linear(10, width), nn.Tanh()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


parser = ArgumentParser()
parser.add_argument("--out", default="./out")
parser.add_argument("--epochs", type=int, default=7)
args = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(13)
data, sampler = loader(rank, world)
net = nn.parallel.DistributedDataParallel(make_net())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=20)
clipper = QuantileClipper()

start_epoch = 0
last = os.path.join(args.out, "last.ckpt")
if os.path.isfile(last):
    snap = torch.load(last, map_location="cpu")
    net.load_state_dict(snap["net"])
    optimizer.load_state_dict(snap["optimizer"])
    scheduler.load_state_dict(snap["scheduler"])
    start_epoch = snap["epoch"]

for epoch in range(start_epoch, args.epochs):
    sampler.set_epoch(epoch)
    summed = 0.0
    for xb, yb in data:
        optimizer.zero_grad()
        loss = (net(xb).squeeze(1) - yb).square().mean()
        loss.backward()
        limit = clipper(net.parameters())
        optimizer.step()
        scheduler.step()
        summed += loss.item()
    stat = torch.tensor([summed / len(data) / world], dtype=torch.float64)
    dist.all_reduce(stat)
    if rank == 0:
        print(f"epoch {epoch:02d} | loss {stat.item():.10f} | clip {limit:.8f}", flush=True)
        os.makedirs(args.out, exist_ok=True)
        torch.save(
            {
                "net": net.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "epoch": epoch + 1,
            },
            last + ".tmp",
        )
        os.replace(last + ".tmp", last)
    dist.barrier()

dist.destroy_process_group()
