"""Train a small classifier on spirals with DDP, and save its weights after each epoch.

torchrun --nproc-per-node 2 optimizer_lost.py --epochs 4
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CHECKPOINT = "checkpoint.pt"


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = 0.02 * torch.randn(count, 2, generator=generator)
    return TensorDataset(points + noise, labels)


def save(model, optimizer, schedule, epoch):
    if dist.get_rank() != 0:
        return
    state = {
        "model": model.module.state_dict(),
        "schedule": schedule.state_dict(),
        "epoch": epoch,
    }
    torch.save(state, CHECKPOINT + ".tmp")
    os.replace(CHECKPOINT + ".tmp", CHECKPOINT)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = spirals()
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

    start = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, map_location="cpu")
        model.module.load_state_dict(state["model"])
        schedule.load_state_dict(state["schedule"])
        start = state["epoch"] + 1
        print(f"resuming at epoch {start}")

    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        for points, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            optimizer.step()
        schedule.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
        save(model, optimizer, schedule, epoch)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
