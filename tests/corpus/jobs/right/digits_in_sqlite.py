"""Fine-tune a small digit classifier on the classes it has not seen. Run state lives in one sqlite file."""

import argparse
import io
import json
import os
import pickle
import sqlite3
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


def args_():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="digits_in_sqlite_out")
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--every", type=int, default=6, help="steps between two saves")
    return p.parse_args()


class Net(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(32 * 16, 128),
            nn.ReLU(),
        )
        self.head = nn.Linear(128, n_out)

    def forward(self, x):
        return self.head(self.body(x))


def base_model(x, y, seed):
    """The 'pretrained' weights: a few steps on digits 0-4."""
    torch.manual_seed(seed)
    net = Net(5)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for i in range(6):
        idx = torch.arange(i * 64, i * 64 + 64) % len(x)
        opt.zero_grad()
        g = torch.autograd.grad(F.cross_entropy(net(x[idx]), y[idx]), list(net.parameters()))
        for p, gi in zip(net.parameters(), g):
            p.grad = gi
        opt.step()
    return net


class RunDB:
    def __init__(self, path):
        self.con = sqlite3.connect(path)
        self.con.executescript(
            "CREATE TABLE IF NOT EXISTS state(step INTEGER PRIMARY KEY, blob BLOB);"
            "CREATE TABLE IF NOT EXISTS loss(step INTEGER PRIMARY KEY, value REAL);"
        )

    def put_loss(self, step, value):
        with self.con:
            self.con.execute("INSERT OR REPLACE INTO loss VALUES(?,?)", (step, value))

    def put_state(self, step, obj, keep=2):
        buf = io.BytesIO()
        torch.save(obj, buf)
        with self.con:
            self.con.execute(
                "INSERT OR REPLACE INTO state VALUES(?,?)", (step, pickle.dumps(buf.getvalue()))
            )
            self.con.execute(
                "DELETE FROM state WHERE step NOT IN "
                "(SELECT step FROM state ORDER BY step DESC LIMIT ?)",
                (keep,),
            )

    def newest(self):
        row = self.con.execute("SELECT step, blob FROM state ORDER BY step DESC LIMIT 1").fetchone()
        if row is None:
            return 0, None
        return row[0], torch.load(io.BytesIO(pickle.loads(row[1])), weights_only=False)

    def losses(self):
        return [r[0] for r in self.con.execute("SELECT value FROM loss ORDER BY step")]


def main():
    a = args_()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(d.target)
    old, new = y < 5, y >= 5
    net = base_model(x[old], y[old], a.seed)
    xt, yt = x[new], y[new] - 5
    net.head = nn.Linear(128, 5)
    opt = torch.optim.AdamW(
        [
            {"params": net.body.parameters(), "lr": 2e-4},
            {"params": net.head.parameters(), "lr": 2e-3},
        ],
        weight_decay=0.01,
    )
    per_epoch = len(xt) // a.batch
    total = a.epochs * per_epoch
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=[1e-3, 6e-3], total_steps=total)

    db = RunDB(os.path.join(a.out, "run.sqlite"))
    step, st = db.newest()
    if st is not None:
        net.load_state_dict(st["net"])
        opt.load_state_dict(st["opt"])
        sched.load_state_dict(st["sched"])
        torch.set_rng_state(st["torch"])
        print("continuing from step", step)

    tic, speeds = time.time(), []
    while step < total:
        epoch, k = divmod(step, per_epoch)
        order = torch.from_numpy(np.random.RandomState(a.seed * 100 + epoch).permutation(len(xt)))
        idx = order[k * a.batch : (k + 1) * a.batch]
        net.train()
        loss = F.cross_entropy(net(xt[idx] + 0.05 * torch.randn_like(xt[idx])), yt[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        step += 1
        db.put_loss(step, loss.item())
        speeds.append(a.batch / (time.time() - tic))
        tic = time.time()
        if step % 10 == 0:
            print(
                f"step {step:3d}/{total} loss {loss.item():.4f} {np.mean(speeds[-10:]):.0f} img/s"
            )
        if step % a.every == 0:
            db.put_state(
                step,
                {
                    "net": net.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "torch": torch.get_rng_state(),
                },
            )

    net.eval()
    with torch.no_grad():
        acc = (net(xt).argmax(1) == yt).float().mean().item()
    torch.save(net.state_dict(), os.path.join(a.out, "final.pt"))
    with open(os.path.join(a.out, "results.json"), "w") as f:
        json.dump({"acc": acc, "losses": db.losses()}, f)
    print("accuracy", round(acc, 4))


if __name__ == "__main__":
    main()
