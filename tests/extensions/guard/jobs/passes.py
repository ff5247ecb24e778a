"""Spirals told apart in passes over all of them, with a save every three steps; killed once.

`GOES_ON` is where data go on after a restart: with the step of the save (`save`), with the last
step that was made (`last`), or with the next pass (`next`).
"""

import os
import signal
from pathlib import Path

import torch
from torch import nn

PASSES, BATCH, EVERY = 5, 16, 3
SAVE, CURSOR = Path("spirals.pt"), Path("cursor")


def spirals(count=128):
    angle = torch.linspace(0.5, 6, count).unsqueeze(1)
    side = torch.arange(count).unsqueeze(1) % 2
    turned = angle + 3.14159 * side
    return torch.cat([angle * turned.cos(), angle * turned.sin()], dim=1), side.float()


def first_step(saved, steps):
    where = os.environ.get("GOES_ON", "save")
    if where == "last":
        return int(CURSOR.read_text(encoding="utf-8"))
    return -(-saved // steps) * steps if where == "next" else saved


def train(kill_at):
    torch.manual_seed(0)
    points, labels = spirals()
    steps = len(points) // BATCH
    model = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    step = 0
    if SAVE.exists():
        saved = torch.load(SAVE)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = first_step(saved["step"], steps)
    while step < PASSES * steps:
        epoch, batch = divmod(step, steps)
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(epoch))
        own = order[batch * BATCH : (batch + 1) * BATCH]
        loss = nn.functional.binary_cross_entropy_with_logits(model(points[own]), labels[own])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        CURSOR.write_text(f"{step}", encoding="utf-8")
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if step % EVERY == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, "spirals.tmp")
            os.replace("spirals.tmp", SAVE)


if __name__ == "__main__":
    train(int(os.environ.get("KILL_AT", "0")))
