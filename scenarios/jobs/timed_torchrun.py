"""Train a small network in steps that take a set time, without Ray: a forecast is compared with it.

torchrun --nproc-per-node 2 --max-restarts 3 timed_torchrun.py --epochs 6

An epoch is some steps of each rank, and is saved at its end. With fewer ranks a step sees less of
the data, and there are more of them.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CHECKPOINT = "timed.pt"


def save(epoch, model, optimizer):
    state = {
        "epochs": epoch + 1,
        "model": model.module.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(state, CHECKPOINT + ".tmp")
    os.replace(CHECKPOINT + ".tmp", CHECKPOINT)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20, help="of an epoch, with two ranks")
    parser.add_argument("--step-s", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    draws = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(2 * args.steps * 8, 16, generator=draws))
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    begin = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epochs"]

    for epoch in range(begin, args.epochs):
        sampler.set_epoch(epoch)
        for (points,) in loader:
            optimizer.zero_grad()
            model(points).square().mean().backward()
            optimizer.step()
            time.sleep(args.step_s)
        if dist.get_rank() == 0:
            save(epoch, model, optimizer)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
