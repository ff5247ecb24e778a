"""Points in rings, told apart by a small network; killed once, and started again by hand.

`LOST` names what a restart does not bring back, `DRAWS` another order of the data; a negative one
has it from the generator that dropout draws from as well.
"""

import os
import signal
from pathlib import Path

import torch
from torch import nn

EPOCHS, BATCH, SAVE = 8, 16, Path("rings.pt")


def rings(count=256):
    generator = torch.Generator().manual_seed(3)
    points = torch.randn(count, 4, generator=generator)
    return points, (points.norm(dim=1, keepdim=True) > 1.9).float()


def train(lost, kill_at, draws):
    torch.manual_seed(0)
    points, labels = rings()
    layers = nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    first = 0
    if SAVE.exists() and lost != "all":
        saved = torch.load(SAVE, weights_only=False)
        for name, part in parts.items():
            if name != lost:
                part.load_state_dict(saved[name])
        if lost != "generator":
            torch.set_rng_state(saved["generator"])
        first = saved["epoch"] + 1
    made = 0
    for epoch in range(first, EPOCHS):
        seed = epoch - first if lost == "data" else abs(draws) + epoch
        own = torch.Generator().manual_seed(seed) if draws >= 0 else None
        order = torch.randperm(len(points), generator=own)
        for batch in order.split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(points[batch]), labels[batch]
            )
            loss.backward()
            optimizer.step()
            made += 1
            if made == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        schedule.step()
        state = {name: part.state_dict() for name, part in parts.items()}
        torch.save(state | {"epoch": epoch, "generator": torch.get_rng_state()}, "rings.tmp")
        os.replace("rings.tmp", SAVE)
    print(f"{sum(p.double().sum() for p in model.parameters()).item()!r}")


if __name__ == "__main__":
    numbers = (int(os.environ.get(name, "0")) for name in ("KILL_AT", "DRAWS"))
    train(os.environ.get("LOST", ""), *numbers)
