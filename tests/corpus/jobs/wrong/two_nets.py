"""Co-teaching on noisy labels: two peers choose each other's small-loss samples."""

import argparse
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

REGISTRY = {}


def register(name):
    def deco(fn):
        REGISTRY[name] = fn
        return fn

    return deco


@register("mlp")
def build_mlp(dim, classes):
    return nn.Sequential(nn.Linear(dim, 40), nn.ReLU(), nn.LayerNorm(40), nn.Linear(40, classes))


def noisy_blobs(n=900, dim=10, classes=5, flip=0.3):
    g = torch.Generator().manual_seed(71)
    centre = 1.6 * torch.randn(classes, dim, generator=g)
    y = torch.randint(0, classes, (n,), generator=g)
    x = centre[y] + torch.randn(n, dim, generator=g)
    bad = torch.rand(n, generator=g) < flip
    seen = torch.where(bad, torch.randint(0, classes, (n,), generator=g), y)
    return x, seen, y


class Session:
    """Groups everything that has a state and writes it in one file."""

    def __init__(self, path, modules, optimizers):
        self.path = Path(path)
        self.modules = modules
        self.optimizers = optimizers
        self.epoch = 0

    def snapshot(self):
        return {
            "modules": {name: m.state_dict() for name, m in self.modules.items()},
            "optimizers": {type(o).__name__: o.state_dict() for o in self.optimizers},
            "rng": torch.get_rng_state(),
            "epoch": self.epoch,
        }

    def commit(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        tmp = str(self.path) + "~"
        with open(tmp, "wb") as f:
            torch.save(self.snapshot(), f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(tmp, self.path)

    def reopen(self):
        if not self.path.is_file():
            return False
        s = torch.load(self.path, map_location="cpu", weights_only=False)
        for name, m in self.modules.items():
            m.load_state_dict(s["modules"][name])
        for o in self.optimizers:
            o.load_state_dict(s["optimizers"][type(o).__name__])
        torch.set_rng_state(s["rng"])
        self.epoch = s["epoch"]
        return True


def pick(logits, y, keep):
    return F.cross_entropy(logits, y, reduction="none").argsort()[: int(keep * len(y))]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batch-size", type=int, default=60)
    ap.add_argument("--arch", choices=REGISTRY, default="mlp")
    ap.add_argument("--session", default="session/state.pt")
    a = ap.parse_args()
    torch.manual_seed(19)
    x, y, clean = noisy_blobs()
    left, right = (REGISTRY[a.arch](10, 5) for _ in range(2))
    opt_l = torch.optim.SGD(left.parameters(), lr=0.05, momentum=0.95)
    opt_r = torch.optim.SGD(right.parameters(), lr=0.05, momentum=0.95)
    s = Session(a.session, {"left": left, "right": right}, [opt_l, opt_r])
    if s.reopen():
        print("resumed after epoch", s.epoch, flush=True)

    while s.epoch < a.epochs:
        keep = 1 - 0.3 * min(1.0, (s.epoch + 1) / 4)
        sums = [0.0, 0.0]
        for idx in torch.randperm(len(x)).split(a.batch_size):
            out_l, out_r = left(x[idx]), right(x[idx])
            for_r, for_l = pick(out_l.detach(), y[idx], keep), pick(out_r.detach(), y[idx], keep)
            loss_l = F.cross_entropy(out_l[for_l], y[idx][for_l])
            loss_r = F.cross_entropy(out_r[for_r], y[idx][for_r])
            for o in (opt_l, opt_r):
                o.zero_grad()
            (loss_l + loss_r).backward()
            for o in (opt_l, opt_r):
                o.step()
            sums[0] += loss_l.item()
            sums[1] += loss_r.item()
        s.epoch += 1
        s.commit()
        acc = [(m(x).argmax(1) == clean).float().mean().item() for m in (left, right)]
        print(
            f"epoch {s.epoch} left {sums[0]:.5f} {acc[0]:.4f} right {sums[1]:.5f} {acc[1]:.4f}",
            flush=True,
        )

    print(
        f"end {sum(p.double().norm().item() for m in (left, right) for p in m.parameters()):.9f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
