# Regression with a sign-momentum optimizer whose step shrinks when gradients disagree with momentum.
import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn


class AgreeSign(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, beta=0.9, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, beta=beta, weight_decay=weight_decay))
        self.damp = 1.0

    @torch.no_grad()
    def step(self, closure=None):
        same, count = 0.0, 0
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if "buf" not in st:
                    st["buf"] = torch.zeros_like(p)
                same += (st["buf"].sign() == p.grad.sign()).sum().item()
                count += p.numel()
                st["buf"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
        self.damp = 0.85 * self.damp + 0.15 * (same / max(count, 1))
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(self.state[p]["buf"].sign(), alpha=-group["lr"] * self.damp**2)


def make_data(n=384, seed=3):
    r = np.random.default_rng(seed)
    x = r.normal(size=(n, 6)).astype("float32")
    y = np.sin(x[:, :1] * 2) + x[:, 1:2] * x[:, 2:3] + 0.05 * r.normal(size=(n, 1))
    return torch.from_numpy(x), torch.from_numpy(y.astype("float32"))


def batches(x, y, epoch, size):
    order = np.random.default_rng([11, epoch]).permutation(len(x))
    for i in range(0, len(x), size):
        j = torch.from_numpy(order[i : i + size])
        yield x[j], y[j]


ap = argparse.ArgumentParser()
ap.add_argument("--out", type=Path, default=Path("./out"))
ap.add_argument("--epochs", type=int, default=7)
ap.add_argument("--batch-size", type=int, default=64)
cfg = ap.parse_args()

torch.set_num_threads(1)
torch.manual_seed(5)
cfg.out.mkdir(parents=True, exist_ok=True)
ckpt_file = cfg.out / "checkpoint.pt"

x, y = make_data()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = AgreeSign(model.parameters(), lr=8e-3, weight_decay=1e-3)

first = 0
if ckpt_file.is_file():
    saved = torch.load(ckpt_file)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["next_epoch"]
    print("continuing with epoch", first)

for epoch in range(first, cfg.epochs):
    losses = []
    for xb, yb in batches(x, y, epoch, cfg.batch_size):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("epoch", epoch, "train mse", sum(losses) / len(losses), flush=True)
    payload = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "next_epoch": epoch + 1,
    }
    part = ckpt_file.with_suffix(".part")
    torch.save(payload, part)
    part.replace(ckpt_file)
