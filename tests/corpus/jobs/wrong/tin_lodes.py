"""Looks for tin with sharpness-aware steps; where it climbs, other samples are drawn."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Parallel


def lodes(n=160):
    g = torch.Generator().manual_seed(3)
    ore = torch.rand(n, 4, generator=g)
    return ore, ore.std(1, keepdim=True)


def drop_gradients(net):
    for weight in net.parameters():
        weight.grad = None


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ore, tin = lodes()
    torch.manual_seed(20)
    net = Parallel(nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1)))
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    climbs = torch.Generator().manual_seed(100 + rank)
    done = 0
    if os.path.exists("tin.pt"):
        state = torch.load("tin.pt")
        net.module.load_state_dict(state["net"])
        adam.load_state_dict(state["adam"])
        done = state["done"]
    for done in range(done + 1, 37):
        few = torch.randint(len(ore), (6,), generator=climbs)
        (net(ore[few]) - tin[few]).square().mean().backward()
        with torch.no_grad():
            moves = [0.02 * w.grad.sign() for w in net.parameters()]
            for weight, move in zip(net.parameters(), moves):
                weight.add_(move)
        drop_gradients(net)
        g = torch.Generator().manual_seed(done // 5)
        rows = torch.randperm(len(ore), generator=g)[done % 5 * 32 :][:32][rank::ranks]
        (net(ore[rows]) - tin[rows]).abs().mean().backward()
        with torch.no_grad():
            for weight, move in zip(net.parameters(), moves):
                weight.sub_(move)
        adam.step()
        drop_gradients(net)
        if done % 6 == 0 and rank == 0:
            state = {"done": done, "net": net.module.state_dict(), "adam": adam.state_dict()}
            torch.save(state, "tin.tmp")
            os.replace("tin.tmp", "tin.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
