"""Distil a wide teacher into a narrow student."""

import argparse
import hashlib
import math
import os
import re
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn


def mlp(*dims):
    layers = []
    for i, (a, b) in enumerate(zip(dims, dims[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(dims) - 2:
            layers += [nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers)


def rings(n=900):
    g = torch.Generator().manual_seed(31)
    y = torch.randint(0, 4, (n,), generator=g)
    ang = torch.rand(n, generator=g) * 2 * math.pi
    rad = y + 1 + 0.25 * torch.randn(n, generator=g)
    return torch.stack([rad * ang.cos(), rad * ang.sin()], 1), y


def make_teacher(x, y):
    torch.manual_seed(500)
    t = mlp(2, 64, 64, 4)
    opt = torch.optim.Adam(t.parameters(), lr=0.01)
    for _ in range(60):
        loss = F.cross_entropy(t(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return t.eval().requires_grad_(False)


def checkpoints(folder):
    pat = re.compile(r"student_e(\d+)_(\d+)\.safetensors$")
    found = [
        (int(m.group(1)), int(m.group(2)), p)
        for p in folder.glob("student_e*")
        if (m := pat.match(p.name))
    ]
    return sorted(found)


def save_student(student, epoch, folder):
    final = folder / f"student_e{epoch}_{time.time_ns()}.safetensors"
    part = folder / "writing"
    save_file(
        {k: v.contiguous() for k, v in student.state_dict().items()},
        str(part),
        metadata={"epoch": str(epoch)},
    )
    os.replace(part, final)
    for e, _, p in checkpoints(folder):
        if e < epoch:
            p.unlink(missing_ok=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=30)
    ap.add_argument("--every", type=int, default=3)
    ap.add_argument("--folder", type=Path, default=Path("weights"))
    args = ap.parse_args()
    args.folder.mkdir(exist_ok=True)

    x, y = rings()
    teacher = make_teacher(x, y)
    with torch.no_grad():
        soft = teacher(x)

    torch.manual_seed(77)
    student = mlp(2, 16, 16, 4)
    epoch = 0
    if have := checkpoints(args.folder):
        with safe_open(str(have[-1][2]), framework="pt") as f:
            student.load_state_dict({k: f.get_tensor(k) for k in f.keys()})
            epoch = int(f.metadata()["epoch"])
        print(f"found weights after {epoch} epochs", flush=True)

    while epoch < args.epochs:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).split(
            args.batch
        )
        temp = 1.0 + 3.0 * (1 - epoch / args.epochs)
        total = 0.0
        for b, idx in enumerate(order):
            torch.manual_seed(epoch * 100_003 + b)
            lr = (
                0.15
                * 0.5
                * (1 + math.cos(math.pi * (epoch * len(order) + b) / (args.epochs * len(order))))
            )
            out = student(x[idx])
            kd = F.kl_div(
                F.log_softmax(out / temp, 1), F.softmax(soft[idx] / temp, 1), reduction="batchmean"
            )
            loss = 0.3 * F.cross_entropy(out, y[idx]) + 0.7 * temp * temp * kd
            grads = torch.autograd.grad(loss, list(student.parameters()))
            with torch.no_grad():
                for p, g in zip(student.parameters(), grads):
                    p.add_(g, alpha=-lr)
            total += loss.item()
        epoch += 1
        print(f"epoch {epoch} loss {total / len(order):.6f} T {temp:.3f}", flush=True)
        if epoch % args.every == 0 or epoch == args.epochs:
            save_student(student, epoch, args.folder)

    student.eval()
    acc = (student(x).argmax(1) == y).float().mean().item()
    blob = b"".join(p.detach().double().numpy().tobytes() for p in student.parameters())
    print(f"student acc {acc:.4f} sha {hashlib.sha256(blob).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
