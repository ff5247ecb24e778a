"""Breast-cancer MLP with mixup and annealed input noise."""

import argparse
import math
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer
from torch import nn

_ROW_CACHE = {}


@dataclass
class Knobs:
    noise: float = 0.5
    alpha: float = 0.1
    smoothing: float = 0.2

    def at(self, epoch, epochs):
        f = epoch / max(1, epochs - 1)
        self.noise = 0.5 * (1 + math.cos(math.pi * f)) * 0.5
        self.alpha = 0.1 + 0.6 * f
        self.smoothing = 0.2 * (1 - f)


def load():
    d = load_breast_cancer()
    x = (d.data - d.data.mean(0)) / d.data.std(0)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(d.target, dtype=torch.float32)


def features(x, i):
    """Row plus its squared values; rows are kept since they never change."""
    if i not in _ROW_CACHE:
        _ROW_CACHE[i] = torch.cat([x[i], x[i].square().clamp(max=9) / 9])
    return _ROW_CACHE[i]


class Run:
    def __init__(self, out, epochs):
        self.path = os.path.join(out, "run.pt")
        self.epochs = epochs
        self.x, self.y = load()
        torch.manual_seed(8)
        self.net = nn.Sequential(nn.Linear(60, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        self.knobs = Knobs()
        self.best = float("inf")
        self.epoch = 0

    def resume(self):
        if not os.path.exists(self.path):
            return
        s = torch.load(self.path)
        self.net.load_state_dict(s["net"])
        self.opt.load_state_dict(s["opt"])
        self.best, self.epoch = s["best"], s["epoch"]

    def save(self):
        torch.save(
            {
                "net": self.net.state_dict(),
                "opt": self.opt.state_dict(),
                "best": self.best,
                "epoch": self.epoch,
            },
            self.path + ".tmp",
        )
        os.replace(self.path + ".tmp", self.path)

    def fit(self):
        for self.epoch in range(self.epoch, self.epochs):
            self.knobs.at(self.epoch, self.epochs)
            rng = np.random.default_rng((8, self.epoch))
            torch.manual_seed(8000 + self.epoch)
            total = []
            for idx in np.array_split(rng.permutation(len(self.x)), 9):
                xb = torch.stack([features(self.x, int(i)) for i in idx])
                xb = xb + self.knobs.noise * torch.randn_like(xb)
                yb = (
                    self.y[torch.from_numpy(idx)] * (1 - self.knobs.smoothing)
                    + self.knobs.smoothing / 2
                )
                lam = float(rng.beta(self.knobs.alpha, self.knobs.alpha))
                roll = torch.from_numpy(rng.permutation(len(idx)))
                out = self.net(lam * xb + (1 - lam) * xb[roll]).squeeze(1)
                loss = F.binary_cross_entropy_with_logits(out, lam * yb + (1 - lam) * yb[roll])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total.append(loss.item())
            mean = sum(total) / len(total)
            self.best = min(self.best, mean)
            print(f"epoch {self.epoch} loss {mean:.10f} best {self.best:.10f}", flush=True)
            self.epoch += 1
            self.save()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    ns = ap.parse_args()
    torch.set_num_threads(1)
    os.makedirs(ns.out, exist_ok=True)
    run = Run(ns.out, ns.epochs)
    run.resume()
    run.fit()
