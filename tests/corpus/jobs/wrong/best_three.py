"""Digit strokes, heavy label noise; ends with the average of the best three snapshots."""

import glob
import heapq
import math
import os
import torch
from torch import nn
import torch.nn.functional as F

ROOT = "best_three"
EPOCHS, BATCH, TOP = 9, 64, 3


def strokes(n, seed):
    """16x16 pictures of rotated bars and arcs, ten kinds."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    ang = (y.float() * math.pi / 5 + 0.25 * torch.randn(n, generator=g))[:, None, None]
    off = 0.3 * torch.randn(n, 1, 1, generator=g)
    bar = torch.exp(-12 * (xx * torch.cos(ang) + yy * torch.sin(ang) - off) ** 2)
    arc = torch.exp(-20 * ((xx - off) ** 2 + yy**2 - 0.4 * torch.sin(ang).abs()) ** 2)
    x = (bar + arc * (y % 2)[:, None, None])[:, None] + 0.5 * torch.randn(n, 1, 16, 16, generator=g)
    noisy = torch.rand(n, generator=g) < 0.2
    return x, torch.where(noisy, torch.randint(10, (n,), generator=g), y)


class Shelf:
    """The best few snapshots of a run, on disk."""

    def __init__(self, root, size):
        self.root, self.size = root, size
        self.heap = []

    def offer(self, score, epoch, state):
        path = os.path.join(self.root, f"snap-{epoch:02d}.pt")
        if len(self.heap) >= self.size and score <= self.heap[0][0]:
            return
        torch.save(state, path)
        heapq.heappush(self.heap, (score, path))
        if len(self.heap) > self.size:
            _, worst = heapq.heappop(self.heap)
            os.remove(worst)

    def average(self):
        paths = sorted(glob.glob(os.path.join(self.root, "snap-*.pt")))
        total = None
        for p in paths:
            sd = torch.load(p)
            total = sd if total is None else {k: total[k] + v for k, v in sd.items()}
        return {
            k: v / len(paths) if v.is_floating_point() else v // len(paths)
            for k, v in total.items()
        }


def build():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(512, 10),
    )


class Run:
    def __init__(self):
        torch.manual_seed(21)
        self.model = build()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, EPOCHS)
        self.shelf = Shelf(ROOT, TOP)
        self.epoch, self.best = 0, 0.0
        self.path = os.path.join(ROOT, "run.pt")

    def save(self):
        torch.save(
            {
                "model": self.model.state_dict(),
                "opt": self.opt.state_dict(),
                "sched": self.sched.state_dict(),
                "epoch": self.epoch,
                "best": self.best,
                "rng": torch.get_rng_state(),
            },
            self.path + ".tmp",
        )
        os.replace(self.path + ".tmp", self.path)

    def restore(self):
        c = torch.load(self.path)
        self.model.load_state_dict(c["model"])
        self.opt.load_state_dict(c["opt"])
        self.sched.load_state_dict(c["sched"])
        self.epoch, self.best = c["epoch"], c["best"]
        torch.set_rng_state(c["rng"])


def main():
    os.makedirs(ROOT, exist_ok=True)
    run = Run()
    if os.path.isfile(run.path):
        run.restore()
        print(f"restored after epoch {run.epoch}, best {run.best:.4f}")
    x, y = strokes(1500, 1)
    vx, vy = strokes(600, 2)
    while run.epoch < EPOCHS:
        run.model.train()
        order = torch.randperm(len(x))
        for k, i in enumerate(order.split(BATCH)):
            loss = F.cross_entropy(run.model(x[i]), y[i], label_smoothing=0.05)
            run.opt.zero_grad()
            loss.backward()
            run.opt.step()
            if k % 10 == 0:
                print(f"epoch {run.epoch} step {k} | loss {loss.item():.8f}", flush=True)
        run.sched.step()
        run.model.eval()
        with torch.no_grad():
            acc = (run.model(vx).argmax(1) == vy).float().mean().item()
        run.best = max(run.best, acc)
        run.shelf.offer(acc, run.epoch, run.model.state_dict())
        print(f"epoch {run.epoch} valid | acc {acc:.6f} best {run.best:.6f}", flush=True)
        run.epoch += 1
        run.save()
    soup = run.shelf.average()
    run.model.load_state_dict(soup)
    run.model.eval()
    with torch.no_grad():
        acc = (run.model(vx).argmax(1) == vy).float().mean().item()
    print(f"epoch {EPOCHS} average | acc {acc:.6f}")
    torch.save(soup, os.path.join(ROOT, "average.pt"))


if __name__ == "__main__":
    main()
