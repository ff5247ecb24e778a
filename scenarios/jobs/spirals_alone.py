"""Train a small classifier on spirals in one process.

python spirals_alone.py --epochs 3 --resume
"""

import argparse
import os
import signal
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINT = "spirals.pt"
asked_to_end = False


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = 0.02 * torch.randn(count, 2, generator=generator)
    return TensorDataset(points + noise, labels)


def batches(data, size, epoch):
    """Return the batches of an epoch, in an order of its own."""
    order = torch.Generator().manual_seed(epoch)
    return DataLoader(data, batch_size=size, shuffle=True, generator=order)


def ask_to_end(signal_number, frame):
    global asked_to_end
    asked_to_end = True


def save(model, optimizer, epoch, done):
    """Save the state, with the batches that are done of an epoch."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "done": done,
    }
    torch.save(state, CHECKPOINT + ".tmp")
    os.replace(CHECKPOINT + ".tmp", CHECKPOINT)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--forget", choices=["optimizer", "epoch"], help="what is not restored")
    parser.add_argument("--save-on-term", action="store_true", help="save, and end with 0")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="that a step takes more")
    args = parser.parse_args()
    if args.save_on_term:
        signal.signal(signal.SIGTERM, ask_to_end)

    torch.manual_seed(0)
    data = spirals()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    start, done = 0, 0
    if args.resume and os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT)
        model.load_state_dict(state["model"])
        if args.forget != "optimizer":
            optimizer.load_state_dict(state["optimizer"])
        start, done = state["epoch"], state["done"]
        start -= args.forget == "epoch"
        print(f"resuming at epoch {start}")

    for epoch in range(start, args.epochs):
        for number, (points, labels) in enumerate(batches(data, args.batch_size, epoch)):
            if number < done:
                continue
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            optimizer.step()
            time.sleep(args.step_seconds)
            if asked_to_end:
                save(model, optimizer, epoch, number + 1)
                sys.exit()
        done = 0
        print(f"epoch {epoch}: loss {loss.item():.4f}")
        save(model, optimizer, epoch + 1, 0)


if __name__ == "__main__":
    main()
