"""Train a small classifier on spirals with Accelerate, which saves its state after each epoch.

accelerate launch accelerate_spirals.py [--resume] [--seedable]
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = Path("accelerate")


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = 0.02 * torch.randn(count, 2, generator=generator)
    return TensorDataset(points + noise, labels)


def saved():
    """Return the epochs that are saved."""
    return sorted(int(path.name.removeprefix("epoch_")) for path in FOLDER.glob("epoch_*"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--resume", action="store_true", help="go on from the newest state")
    parser.add_argument(
        "--seedable", action="store_true", help="each epoch has an order of its own"
    )
    args = parser.parse_args()
    set_seed(0)
    loading = DataLoaderConfiguration(use_seedable_sampler=args.seedable)
    accelerator = Accelerator(cpu=True, dataloader_config=loading)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    loader = DataLoader(spirals(), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    start = 0
    if args.resume and saved():
        start = saved()[-1] + 1
        accelerator.load_state(str(FOLDER / f"epoch_{start - 1}"))
    for epoch in range(start, args.epochs):
        if args.seedable:
            loader.set_epoch(epoch)
        for points, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), labels)
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")
        accelerator.save_state(str(FOLDER / f"epoch_{epoch}"))
    accelerator.end_training()


if __name__ == "__main__":
    main()
