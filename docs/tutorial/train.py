"""Trains a small classifier on two processes, and saves a snapshot after every epoch."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SNAPSHOT = "snapshot.pt"


def train(epochs: int) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    points = torch.randn(192, 8)
    data = TensorDataset(points, (points[:, :4].sum(1) > points[:, 4:].sum(1)).long())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    first = 0
    if os.path.exists(SNAPSHOT):
        saved = torch.load(SNAPSHOT)
        model.module.load_state_dict(saved["model"])
        first = saved["epoch"] + 1
    for epoch in range(first, epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            loss = cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, SNAPSHOT)
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    dist.destroy_process_group()


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
train(parser.parse_args().epochs)
