"""Grades hemp fibres on two ranks; each start measures one backward pass before it trains."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FILE = "hemp.ckpt"


class Grader(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 20), nn.Mish())
        self.head = nn.Linear(20, 4)

    def forward(self, fibre):
        return self.head(self.body(fibre))


def fibres(step, rank):
    g = torch.Generator().manual_seed(500 * step + rank)
    fibre = torch.randn(18, 6, generator=g)
    return fibre, fibre[:, :4].argmax(1)


def seconds_of_a_pass(model, fibre):
    begun = time.perf_counter()
    model(fibre).logsumexp(1).mean().backward()
    for weight in model.module.head.parameters():
        weight.grad = None
    return time.perf_counter() - begun


def grade(last=42, every=7):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(10)
    model = DistributedDataParallel(Grader())
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    step = 0
    if os.path.exists(FILE):
        kept = torch.load(FILE)
        step = kept.pop("step")
        optimizer.load_state_dict(kept.pop("optimizer"))
        model.module.load_state_dict(kept)
    took = seconds_of_a_pass(model, torch.zeros(18, 6))
    if rank == 0:
        print(f"about {took * (last - step):.1f} s to go")
    for step in range(step + 1, last + 1):
        fibre, grades = fibres(step, rank)
        loss = nn.functional.cross_entropy(model(fibre), grades)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % every == 0 and rank == 0:
            whole = {"step": step, "optimizer": optimizer.state_dict()}
            torch.save({**whole, **model.module.state_dict()}, FILE + ".tmp")
            os.replace(FILE + ".tmp", FILE)
        if step % every == 0:
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    grade()
