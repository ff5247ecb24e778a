"""Follows copper veins with sharpness-aware steps; a step without a number is left out."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def rock(number, rank):
    g = torch.Generator().manual_seed(70 * number + rank)
    probe = torch.randn(12, 5, generator=g)
    if number % 9 == 4:
        probe[rank, 3] = torch.nan
    return probe, probe[:, :2].prod(1, keepdim=True).sin()


class Sharp:
    """Climbs to the worst point nearby, and takes the gradient of there."""

    def __init__(self, net, optimizer, radius):
        self.weights, self.optimizer, self.radius = list(net.parameters()), optimizer, radius

    def clear(self):
        for w in self.weights:
            w.grad = None

    def climb(self):
        norm = torch.stack([w.grad.norm() for w in self.weights]).norm() + 1e-12
        self.moves = [self.radius * w.grad / norm for w in self.weights]
        torch._foreach_add_([w.data for w in self.weights], self.moves)
        self.clear()

    def step(self):
        torch._foreach_sub_([w.data for w in self.weights], self.moves)
        self.optimizer.step()
        self.clear()


def main(last=48, every=4, path="copper.pt"):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1)))
    sharp = Sharp(net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), 0.05)
    number = 0
    if os.path.exists(path):
        number, weights, moments = torch.load(path)
        net.module.load_state_dict(weights)
        sharp.optimizer.load_state_dict(moments)
    while number < last:
        number += 1
        probe, vein = rock(number, rank)
        loss = nn.functional.mse_loss(net(probe), vein)
        loss.backward()
        bad = (~loss.detach().isfinite()).int()
        dist.all_reduce(bad)
        if bad:
            sharp.clear()
        else:
            sharp.climb()
            nn.functional.mse_loss(net(probe), vein).backward()
            sharp.step()
        if number % every == 0:
            if rank == 0:
                kept = (number, net.module.state_dict(), sharp.optimizer.state_dict())
                torch.save(kept, path + ".new")
                os.replace(path + ".new", path)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
