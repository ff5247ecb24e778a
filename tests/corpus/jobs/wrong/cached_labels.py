"""Semi-supervised training: a moving average of the net labels the unlabelled digits every few epochs."""

import argparse
import copy
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class Labeller:
    """Pseudo-labels of the unlabelled pool, made anew at every `period`-th epoch."""

    def __init__(self, net, pool, period=3, keep=0.97):
        self.shadow = copy.deepcopy(net).eval().requires_grad_(False)
        self.pool, self.period, self.keep = pool, period, keep
        self.labels = self.sure = None

    @torch.no_grad()
    def follow(self, net):
        for a, b in zip(self.shadow.state_dict().values(), net.state_dict().values()):
            if a.dtype.is_floating_point:
                a.mul_(self.keep).add_(b, alpha=1 - self.keep)
            else:
                a.copy_(b)

    @torch.no_grad()
    def refresh(self):
        p = self.shadow(self.pool).softmax(1)
        top = p.max(1)
        self.labels, self.sure = top.indices, (top.values > 0.5).float() * top.values

    def at_epoch(self, epoch):
        if self.labels is None or epoch % self.period == 0:
            self.refresh()


def weak(x, g):
    return x + 0.1 * torch.randn(x.shape, generator=g)


def strong(x, g):
    return (x + 0.3 * torch.randn(x.shape, generator=g)) * (torch.rand(x.shape, generator=g) > 0.2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--into", default="cached_labels_out")
    ap.add_argument("--epochs", type=int, default=9)
    args = ap.parse_args()
    os.makedirs(args.into, exist_ok=True)
    file = os.path.join(args.into, "state.pt")

    torch.manual_seed(19)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    mix = torch.randperm(len(x))
    few, pool = mix[:100], mix[100:1300]
    net = nn.Sequential(
        nn.Linear(64, 160),
        nn.BatchNorm1d(160),
        nn.ReLU(),
        nn.Linear(160, 160),
        nn.ReLU(),
        nn.Linear(160, 10),
    )
    labeller = Labeller(net, x[pool])
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(190)
    begin = 0
    if os.path.exists(file):
        s = torch.load(file)
        net.load_state_dict(s["net"])
        labeller.shadow.load_state_dict(s["shadow"])
        opt.load_state_dict(s["opt"])
        g.set_state(s["gen"])
        begin = s["epoch"] + 1
        print("resumed, next epoch", begin)

    for epoch in range(begin, args.epochs):
        labeller.at_epoch(epoch)
        net.train()
        for k, u in enumerate(torch.randperm(len(pool), generator=g).split(80)):
            b = few[torch.randint(len(few), (32,), generator=g)]
            sup = F.cross_entropy(net(weak(x[b], g)), y[b])
            each = F.cross_entropy(net(strong(x[pool[u]], g)), labeller.labels[u], reduction="none")
            unsup = (each * labeller.sure[u]).mean()
            loss = sup + min(1.0, epoch / 3) * unsup
            opt.zero_grad()
            loss.backward()
            opt.step()
            labeller.follow(net)
            if k % 2 == 0:
                print(f"epoch {epoch} batch {k} sup {sup.item():.6f} loss {loss.item():.8f}")
        torch.save(
            {
                "net": net.state_dict(),
                "shadow": labeller.shadow.state_dict(),
                "opt": opt.state_dict(),
                "gen": g.get_state(),
                "epoch": epoch,
            },
            file + ".tmp",
        )
        os.replace(file + ".tmp", file)
    torch.save(
        {"net": net.state_dict(), "shadow": labeller.shadow.state_dict()},
        os.path.join(args.into, "final.pt"),
    )


if __name__ == "__main__":
    main()
