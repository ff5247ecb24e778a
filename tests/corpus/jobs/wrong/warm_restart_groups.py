"""Keyword spotting on synthetic log-mel clips: small TDNN, warm restarts of the learning rate."""

import argparse
import glob
import json
import math
import os
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--workdir", default="./warm_restart_groups_run")
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--lr", type=float, default=4e-3)
parser.add_argument("--seed", type=int, default=3)
cfg = parser.parse_args()


def make_clips(n=640, mels=20, frames=40, classes=6):
    g = torch.Generator().manual_seed(1000)
    y = torch.randint(classes, (n,), generator=g)
    t = torch.arange(frames) / frames
    f = torch.arange(mels).float()
    ridge = (y[:, None] + 2) * 2 + 4 * torch.sin((y[:, None] + 1) * math.pi * t[None])
    x = torch.exp(-0.3 * (f[None, :, None] - ridge[:, None, :]) ** 2)
    return x + 0.6 * torch.randn(n, mels, frames, generator=g), y


class TDNN(nn.Module):
    def __init__(self, mels=20, width=48, classes=6):
        super().__init__()
        self.a = nn.Conv1d(mels, width, 5, padding=2)
        self.b = nn.Conv1d(width, width, 5, padding=4, dilation=2)
        self.norm = nn.GroupNorm(8, width)
        self.drop = nn.Dropout(0.15)
        self.out = nn.Linear(2 * width, classes)

    def forward(self, x):
        h = F.relu(self.a(x))
        h = self.drop(F.relu(self.norm(self.b(h))))
        return self.out(torch.cat([h.mean(-1), h.std(-1)], 1))


class WarmRestarts:
    """Cosine with restarts, each cycle is `mult` times as long as the one before."""

    def __init__(self, optimizer, first=10, mult=2, floor=0.02):
        self.groups = optimizer.param_groups
        self.base = [g["lr"] for g in self.groups]
        self.length, self.mult, self.floor = first, mult, floor
        self.pos = 0
        self.cycle = 0
        self._apply()

    def _apply(self):
        c = self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * self.pos / self.length))
        for g, b in zip(self.groups, self.base):
            g["lr"] = b * c

    def step(self):
        self.pos += 1
        if self.pos >= self.length:
            self.pos, self.cycle, self.length = 0, self.cycle + 1, self.length * self.mult
        self._apply()

    def lr(self):
        return self.groups[0]["lr"]

    def state_dict(self):
        return {"pos": self.pos, "cycle": self.cycle, "length": self.length, "base": self.base}

    def load_state_dict(self, s):
        self.__dict__.update(s)
        self._apply()


def spec_augment(x, rng):
    x = x.clone()
    for i in range(len(x)):
        f0, t0 = rng.randrange(16), rng.randrange(30)
        x[i, f0 : f0 + rng.randrange(5)] = 0
        x[i, :, t0 : t0 + rng.randrange(10)] = 0
    return x


class Run:
    def __init__(self):
        torch.manual_seed(cfg.seed)
        self.rng = random.Random(cfg.seed)
        self.x, self.y = make_clips()
        self.model = TDNN()
        decay = [p for p in self.model.parameters() if p.dim() > 1]
        plain = [p for p in self.model.parameters() if p.dim() <= 1]
        self.opt = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
            lr=cfg.lr,
        )
        self.sched = WarmRestarts(self.opt)
        self.epoch, self.history = 0, []

    def save(self):
        path = os.path.join(cfg.workdir, f"epoch{self.epoch:03d}.pth")
        torch.save(
            {
                "model": self.model.state_dict(),
                "opt": self.opt.state_dict(),
                "sched": self.sched.state_dict(),
                "epoch": self.epoch,
                "history": self.history,
                "py": self.rng.getstate(),
                "torch": torch.get_rng_state(),
            },
            path + ".part",
        )
        os.replace(path + ".part", path)
        for old in sorted(glob.glob(os.path.join(cfg.workdir, "epoch*.pth")))[:-3]:
            os.remove(old)

    def resume(self):
        found = sorted(glob.glob(os.path.join(cfg.workdir, "epoch*.pth")))
        if not found:
            return
        c = torch.load(found[-1], weights_only=False)
        self.model.load_state_dict(c["model"])
        self.opt.load_state_dict(c["opt"])
        self.sched.load_state_dict(c["sched"])
        self.epoch, self.history = c["epoch"], c["history"]
        self.rng.setstate(c["py"])
        torch.set_rng_state(c["torch"])
        print("resumed", found[-1])

    def train(self):
        while self.epoch < cfg.epochs:
            self.model.train()
            for idx in torch.randperm(len(self.x)).split(64):
                loss = F.cross_entropy(
                    self.model(spec_augment(self.x[idx], self.rng)),
                    self.y[idx],
                    label_smoothing=0.05,
                )
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.opt.step()
                self.sched.step()
                self.history.append(loss.item())
            self.epoch += 1
            print(f"epoch {self.epoch} loss {self.history[-1]:.4f} lr {self.sched.lr():.2e}")
            self.save()
        torch.save(self.model.state_dict(), os.path.join(cfg.workdir, "final.pth"))
        json.dump(self.history, open(os.path.join(cfg.workdir, "results.json"), "w"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.makedirs(cfg.workdir, exist_ok=True)
    run = Run()
    run.resume()
    run.train()
