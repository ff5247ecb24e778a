"""Momentum-contrast pretraining on the wine table (two noisy views per row)."""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

DIM, QUEUE = 16, 96


def encoder():
    return nn.Sequential(nn.Linear(13, 48), nn.ReLU(), nn.Linear(48, DIM))


class MoCo(nn.Module):
    def __init__(self, momentum=0.9, temperature=0.2):
        super().__init__()
        self.m, self.t = momentum, temperature
        self.query = encoder()
        self.key = encoder()
        self.key.load_state_dict(self.query.state_dict())
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.queue = F.normalize(torch.randn(QUEUE, DIM), dim=1)

    @torch.no_grad()
    def momentum_update(self):
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.key(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.T
        logits = torch.cat([pos, neg], 1) / self.t
        self.queue = torch.cat([k, self.queue])[:QUEUE]
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def view(x, gen):
    keep = (torch.rand(x.shape, generator=gen) > 0.2).float()
    return x * keep + 0.1 * torch.randn(x.shape, generator=gen)


def run(out, epochs):
    torch.manual_seed(42)
    x = torch.tensor(StandardScaler().fit_transform(load_wine().data), dtype=torch.float32)
    model = MoCo()
    opt = torch.optim.SGD(model.query.parameters(), lr=0.2, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
    gen = torch.Generator().manual_seed(43)
    done = 0
    latest = os.path.join(out, "moco.pt")
    if os.path.exists(latest):
        blob = torch.load(latest)
        model.load_state_dict(blob["model"])
        opt.load_state_dict(blob["opt"])
        sched.load_state_dict(blob["sched"])
        gen.set_state(blob["gen"])
        done = blob["done"]

    while done < epochs:
        order = torch.randperm(len(x), generator=gen)
        running, n = 0.0, 0
        for idx in order[:160].chunk(5):
            loss = model(view(x[idx], gen), view(x[idx], gen))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running, n = running + loss.item(), n + 1
        sched.step()
        done += 1
        print("epoch %d/%d nce %.9f" % (done, epochs, running / n), flush=True)
        torch.save(
            dict(
                model=model.state_dict(),
                opt=opt.state_dict(),
                sched=sched.state_dict(),
                gen=gen.get_state(),
                done=done,
            ),
            latest + ".new",
        )
        os.replace(latest + ".new", latest)


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("--out", default="./out")
    a.add_argument("--epochs", type=int, default=6)
    a = a.parse_args()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    run(a.out, a.epochs)
