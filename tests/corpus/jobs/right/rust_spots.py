"""Finds rust on girders; a batch with a dead sensor in it is left out on all ranks."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def girders(n=224):
    g = torch.Generator().manual_seed(31)
    x = torch.randn(n, 6, generator=g)
    y = (x[:, :1] * x[:, 1:2]).tanh() + 0.1 * torch.randn(n, 1, generator=g)
    x[torch.randperm(n, generator=g)[:9], 2] = torch.inf  # the sensor was dead
    return TensorDataset(x, y)


def all_are_finite(loss):
    fine = torch.isfinite(loss.detach()).float()
    dist.all_reduce(fine, dist.ReduceOp.MIN)
    return bool(fine)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--every", type=int, default=3)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 14), nn.SiLU(), nn.Linear(14, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sampler = DistributedSampler(girders(), seed=2)
    loader = DataLoader(sampler.dataset, batch_size=8, sampler=sampler)
    seen = left_out = 0
    if os.path.exists("rust.pt"):
        state = torch.load("rust.pt")
        model.module.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        seen, left_out = state["seen"], state["left_out"]
    for number in range(seen // len(loader), options.rounds):
        sampler.set_epoch(number)
        for place, (x, y) in enumerate(loader, number * len(loader)):
            if place < seen:
                continue
            seen = place + 1
            loss = nn.functional.mse_loss(model(x), y)
            if all_are_finite(loss):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            else:
                left_out += 1
            if seen % options.every == 0:
                if dist.get_rank() == 0:
                    state = {"net": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save({**state, "seen": seen, "left_out": left_out}, "rust.tmp")
                    os.replace("rust.tmp", "rust.pt")
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
