"""Gull chicks' weights by age; each save is made whole on the machine, and copied to the store."""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import torch
from torch import nn


def main(epochs: int, store: Path):
    near = Path(tempfile.gettempdir()) / "gulls" / "ckpt"
    far = store / "ckpt"
    for folder in (near, far):
        folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 9), nn.Softplus(), nn.Linear(9, 1))
    rule = torch.optim.Adam(net.parameters(), lr=0.01)
    epoch = 0
    for file in (near / "last.pt", far / "last.pt"):
        if file.exists():
            held = torch.load(file)
            net.load_state_dict(held["net"])
            rule.load_state_dict(held["rule"])
            epoch = held["epoch"] + 1
            break
    while epoch < epochs:
        draw = torch.Generator().manual_seed(600 + epoch)
        for _ in range(6):
            days = torch.rand(8, 3, generator=draw)
            grams = 40 * days[:, :1] + 5 * days[:, 1:2] * days[:, 2:] + 60
            loss = nn.functional.mse_loss(net(days), grams / 100)
            rule.zero_grad()
            loss.backward()
            rule.step()
            time.sleep(0.01)
        state = {"net": net.state_dict(), "rule": rule.state_dict(), "epoch": epoch}
        torch.save(state, near / "last.new")
        os.replace(near / "last.new", near / "last.pt")
        shutil.copyfile(near / "last.pt", far / "last.pt")
        epoch += 1
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--store", type=Path, default=Path("gull-store"))
    args = parser.parse_args()
    main(args.epochs, args.store)
