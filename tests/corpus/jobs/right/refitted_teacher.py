"""Distil a wide teacher into a narrow student on digits. The teacher is refitted whenever the script starts.

A checkpoint is a numbered folder (safetensors + optimizer tensors + json); the file HEAD names the one that counts.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F


def net(width):
    return nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 10))


def fit_teacher(x, y):
    with torch.random.fork_rng():
        torch.manual_seed(1234)
        t = net(128)
        opt = torch.optim.Adam(t.parameters(), lr=3e-3)
        for _ in range(60):
            idx = torch.randint(len(x), (128,))
            opt.zero_grad()
            F.cross_entropy(t(x[idx]), y[idx]).backward()
            opt.step()
    return t.eval().requires_grad_(False)


class Ema:
    def __init__(self, model, beta):
        self.beta = beta
        self.w = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model, k):
        b = min(self.beta, (1 + k) / (10 + k))
        for n, v in model.state_dict().items():
            self.w[n].mul_(b).add_(v, alpha=1 - b)


class Run:
    def __init__(self, root, model, opt, ema):
        self.root, self.model, self.opt, self.ema = Path(root), model, opt, ema
        self.root.mkdir(parents=True, exist_ok=True)
        self.meta = {"iteration": 0, "temperature": 4.0, "mix": 0.9, "history": []}

    def head(self):
        f = self.root / "HEAD"
        return self.root / f.read_text().strip() if f.exists() else None

    def commit(self):
        n = self.meta["iteration"]
        d = self.root / f"v{n:05d}"
        shutil.rmtree(d, ignore_errors=True)
        d.mkdir()
        save_file(
            {k: v.contiguous() for k, v in self.model.state_dict().items()},
            d / "student.safetensors",
        )
        save_file({k: v.clone() for k, v in self.ema.w.items()}, d / "ema.safetensors")
        flat = {}
        for i, s in self.opt.state_dict()["state"].items():
            for k, v in s.items():
                flat[f"{i}.{k}"] = v.clone()
        save_file({**flat, "rng": torch.get_rng_state()}, d / "optim.safetensors")
        (d / "meta.json").write_text(json.dumps(self.meta))
        (self.root / "HEAD.tmp").write_text(d.name)
        os.replace(self.root / "HEAD.tmp", self.root / "HEAD")
        for other in self.root.glob("v*"):
            if other != d:
                shutil.rmtree(other)

    def restore(self):
        d = self.head()
        if d is None:
            return
        self.meta = json.loads((d / "meta.json").read_text())
        self.model.load_state_dict(load_file(d / "student.safetensors"))
        self.ema.w = load_file(d / "ema.safetensors")
        flat = load_file(d / "optim.safetensors")
        rng = flat.pop("rng")
        state = {}
        for k, v in flat.items():
            i, name = k.split(".")
            state.setdefault(int(i), {})[name] = v
        self.opt.load_state_dict(
            {"state": state, "param_groups": self.opt.state_dict()["param_groups"]}
        )
        torch.set_rng_state(rng)
        print(f"resumed from {d.name}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--every", type=int, default=8)
    ap.add_argument("--root", default="distil")
    a = ap.parse_args()
    torch.set_num_threads(1)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    x, vx, y, vy = x[:1200], x[1200:], y[:1200], y[1200:]
    torch.manual_seed(55)
    student = net(20)
    opt = torch.optim.NAdam(student.parameters(), lr=4e-3)
    ema = Ema(student, 0.97)
    run = Run(a.root, student, opt, ema)
    run.restore()
    teacher = fit_teacher(x, y)
    m = run.meta
    while m["iteration"] < a.steps:
        idx = torch.randint(len(x), (48,))
        student.train()
        with torch.no_grad():
            soft = F.softmax(teacher(x[idx]) / m["temperature"], 1)
        out = student(x[idx])
        kd = (
            F.kl_div(F.log_softmax(out / m["temperature"], 1), soft, reduction="batchmean")
            * m["temperature"] ** 2
        )
        loss = m["mix"] * kd + (1 - m["mix"]) * F.cross_entropy(out, y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        m["iteration"] += 1
        ema.update(student, m["iteration"])
        m["history"].append(loss.item())
        if m["iteration"] % 30 == 0:  # cool down by how much the loss fell
            recent, before = sum(m["history"][-15:]), sum(m["history"][-30:-15])
            m["temperature"] = max(1.0, m["temperature"] * min(1.0, 0.5 + 0.5 * recent / before))
            m["mix"] *= 0.9
        print(
            f"iteration {m['iteration']} loss {loss.item():.7f} T {m['temperature']:.6f}",
            flush=True,
        )
        if m["iteration"] % a.every == 0:
            run.commit()
    student.load_state_dict(ema.w)
    student.eval()
    with torch.no_grad():
        acc = (student(vx).argmax(1) == vy).float().mean().item()
    save_file(student.state_dict(), run.root / "final.tmp")
    os.replace(run.root / "final.tmp", run.root / "final.safetensors")
    print(f"accuracy {acc:.6f}", flush=True)


if __name__ == "__main__":
    main()
