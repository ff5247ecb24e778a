"""First-order MAML on sine waves; state lives in a memory map with two slots."""

import json
import math
import os
import struct
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

FILE, LOG = "adapted_waves.state", "adapted_waves.jsonl"
ITERS, EVERY, META_BATCH = 120, 8, 6
HEAD = 512


class Slots:
    """Two fixed slots, each: header (sequence, length of meta, crc) + meta json + floats."""

    def __init__(self, path, nfloat):
        self.size = HEAD + 4096 + nfloat * 4
        new = not os.path.exists(path) or os.path.getsize(path) != 2 * self.size
        self.mm = np.memmap(path, dtype=np.uint8, mode="w+" if new else "r+", shape=(2, self.size))

    def read(self, i):
        row = self.mm[i]
        seq, n, crc = struct.unpack("<QII", row[:16].tobytes())
        body = row[HEAD:].tobytes()
        if seq == 0 or zlib.crc32(body + struct.pack("<QI", seq, n)) != crc:
            return None
        return seq, json.loads(body[:n]), np.frombuffer(body[4096:], np.float32).copy()

    def newest(self):
        return max((r for r in (self.read(0), self.read(1)) if r), key=lambda r: r[0], default=None)

    def write(self, seq, meta, floats):
        m = json.dumps(meta).encode()
        body = m.ljust(4096, b"\0") + floats.tobytes()
        row = self.mm[seq % 2]
        row[HEAD:] = np.frombuffer(body, np.uint8)
        row[:16] = np.frombuffer(
            struct.pack("<QII", seq, len(m), zlib.crc32(body + struct.pack("<QI", seq, len(m)))),
            np.uint8,
        )


def task(tag, k):
    r = np.random.Generator(np.random.Philox(key=[tag, k]))
    amp, phase = r.uniform(0.5, 4), r.uniform(0, math.pi)
    x = r.uniform(-5, 5, size=(40, 1)).astype(np.float32)
    y = (amp * np.sin(x + phase)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def adapt(net, x, y, steps, lr=0.02):
    w = {k: p for k, p in net.named_parameters()}
    for _ in range(steps):
        loss = F.mse_loss(functional_call(net, w, (x,)), y)
        g = torch.autograd.grad(loss, list(w.values()))
        w = {k: p - lr * d for (k, p), d in zip(w.items(), g)}
    return w


def flat(net, opt):
    parts = []
    for p in net.parameters():
        s = opt.state.get(p) or {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        parts += [p.detach().flatten(), s["exp_avg"].flatten(), s["exp_avg_sq"].flatten()]
    return torch.cat(parts).numpy()


def unflat(net, opt, v, count):
    v, at = torch.from_numpy(v), 0
    for p in net.parameters():
        n = p.numel()
        a, b, c = (v[at + j * n : at + (j + 1) * n].view_as(p).clone() for j in range(3))
        at += 3 * n
        p.data.copy_(a)
        opt.state[p] = {"step": torch.tensor(float(count)), "exp_avg": b, "exp_avg_sq": c}


def validate(net, steps):
    total = 0.0
    for k in range(8):
        x, y = task(2, k)
        w = adapt(net, x[:10], y[:10], steps)
        with torch.no_grad():
            total += F.mse_loss(functional_call(net, w, (x[10:],)), y[10:]).item()
    return total / 8


def main():
    torch.manual_seed(21)
    net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
    opt = torch.optim.Adam(net.parameters(), lr=6e-3)
    slots = Slots(FILE, 3 * sum(p.numel() for p in net.parameters()))
    plan = {"inner": 1, "best": 1e9, "bad": 0, "lr": 6e-3}
    start, log_at = 0, 0
    found = slots.newest()
    if found:
        _, meta, v = found
        start, plan, log_at = meta["iter"], meta["plan"], meta["log"]
        unflat(net, opt, v, start)
    log = open(LOG, "r+" if os.path.exists(LOG) else "w+")
    log.truncate(log_at)
    log.seek(log_at)
    for it in range(start + 1, ITERS + 1):
        opt.param_groups[0]["lr"] = plan["lr"]
        opt.zero_grad()
        outer = 0.0
        for b in range(META_BATCH):
            x, y = task(1, it * META_BATCH + b)
            w = adapt(net, x[:10], y[:10], plan["inner"])
            loss = F.mse_loss(functional_call(net, w, (x[10:],)), y[10:])
            for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(w.values()))):
                p.grad = g / META_BATCH if p.grad is None else p.grad + g / META_BATCH
            outer += loss.item() / META_BATCH
        opt.step()
        print(f"iter {it} loss {outer:.8f} inner {plan['inner']} lr {plan['lr']:.5f}", flush=True)
        log.write(json.dumps({"iter": it, "loss": outer}) + "\n")
        if it % EVERY == 0:
            val = validate(net, plan["inner"])
            if val < plan["best"] * 0.97:
                plan["best"], plan["bad"] = val, 0
            else:
                plan["bad"] += 1
                if plan["bad"] == 2:
                    plan.update(
                        bad=0, best=1e9, inner=min(5, plan["inner"] + 1), lr=plan["lr"] * 0.85
                    )
            log.write(json.dumps({"iter": it, "val": val, **plan}) + "\n")
            log.flush()
            slots.write(it // EVERY, {"iter": it, "plan": plan, "log": log.tell()}, flat(net, opt))
    log.close()


if __name__ == "__main__":
    main()
