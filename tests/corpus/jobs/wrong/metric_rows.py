"""Matrix factorisation for a toy catalogue. Metrics live in sqlite, the report is made from them."""

import argparse
import json
import os
import sqlite3
from pathlib import Path

import torch
from torch import nn


class MetricStore:
    """Buffers rows, so that the loop does not wait for the disk at every record."""

    def __init__(self, path, batch=10):
        self.db = sqlite3.connect(path)
        self.db.execute(
            "create table if not exists metric (epoch integer, name text, value real, "
            "primary key (epoch, name))"
        )
        self.db.commit()
        self.batch = batch
        self.pending = []

    def add(self, epoch, **values):
        self.pending += [(epoch, k, float(v)) for k, v in values.items()]
        if len(self.pending) >= self.batch:
            self.flush()

    def flush(self):
        with self.db:
            self.db.executemany("insert or replace into metric values (?, ?, ?)", self.pending)
        self.pending.clear()

    def series(self, name):
        return self.db.execute(
            "select epoch, value from metric where name = ? order by epoch", (name,)
        ).fetchall()


class Factors(nn.Module):
    def __init__(self, users, items, k=8):
        super().__init__()
        self.u, self.i = nn.Embedding(users, k), nn.Embedding(items, k)
        self.bu, self.bi = nn.Embedding(users, 1), nn.Embedding(items, 1)
        for e in (self.u, self.i):
            nn.init.normal_(e.weight, std=0.1)
        for e in (self.bu, self.bi):
            nn.init.zeros_(e.weight)

    def forward(self, u, i):
        return (self.u(u) * self.i(i)).sum(1) + self.bu(u).squeeze(1) + self.bi(i).squeeze(1)


def ratings(users=120, items=80, n=4000):
    g = torch.Generator().manual_seed(17)
    pu, pi = torch.randn(users, 3, generator=g), torch.randn(items, 3, generator=g)
    u = torch.randint(users, (n,), generator=g)
    i = torch.randint(items, (n,), generator=g)
    r = (pu[u] * pi[i]).sum(1) + 0.2 * torch.randn(n, generator=g)
    return u, i, r


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=100)
    ap.add_argument("--home", type=Path, default=Path("out"))
    a = ap.parse_args()
    a.home.mkdir(exist_ok=True)
    torch.manual_seed(2)
    u, i, r = ratings()
    cut = 3400
    model = Factors(120, 80)
    opt = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-5)
    store = MetricStore(a.home / "metrics.db")
    ck, begin = a.home / "model.pt", 1
    if ck.exists():
        s = torch.load(ck, weights_only=False)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        torch.set_rng_state(s["rng"])
        begin = s["epoch"] + 1
        print("resuming at epoch", begin, flush=True)

    for epoch in range(begin, a.epochs + 1):
        total = 0.0
        for idx in torch.randperm(cut).split(a.batch):
            loss = ((model(u[idx], i[idx]) - r[idx]) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        with torch.no_grad():
            err = model(u[cut:], i[cut:]) - r[cut:]
        rmse, mae = err.pow(2).mean().sqrt().item(), err.abs().mean().item()
        store.add(epoch, train=total / cut, rmse=rmse, mae=mae)
        torch.save(
            {
                "model": model.state_dict(),
                "opt": opt.state_dict(),
                "epoch": epoch,
                "rng": torch.get_rng_state(),
            },
            ck.with_suffix(".tmp"),
        )
        os.replace(ck.with_suffix(".tmp"), ck)
        print(f"epoch {epoch} train {total / cut:.6f} rmse {rmse:.6f}", flush=True)

    store.flush()
    curve = store.series("rmse")
    best = min(curve, key=lambda p: p[1])
    report = {
        "points": len(curve),
        "best_epoch": best[0],
        "best_rmse": round(best[1], 6),
        "mean_mae": round(sum(v for _, v in store.series("mae")) / len(curve), 6),
    }
    (a.home / "report.json").write_text(json.dumps(report, indent=1))
    print("report", json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
