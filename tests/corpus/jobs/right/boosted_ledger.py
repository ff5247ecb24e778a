"""Boosted small networks. Every stage is a line in a ledger (floats in hex); the best prefix is kept as a zip."""

import io
import json
import os
import zipfile
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

LEDGER, BEST = "boosted_ledger.ledger", "boosted_best.zip"
STAGES, STEPS, HIDDEN = 24, 48, 24


def surface(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 6, generator=g) * 2 - 1
    y = (
        torch.sin(4 * x[:, 0] * x[:, 1])
        + torch.where(x[:, 2] > 0.2, x[:, 3], -x[:, 4])
        + 0.3 * (x[:, 5] * 5).floor() / 5
    )
    return x, y + 0.1 * torch.randn(n, generator=g)


def weak():
    return nn.Sequential(nn.Linear(6, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def to_hex(net):
    return {k: [float(f).hex() for f in v.flatten().tolist()] for k, v in net.state_dict().items()}


def from_hex(d):
    net = weak()
    net.load_state_dict(
        {
            k: torch.tensor([float.fromhex(h) for h in d[k]]).view_as(v)
            for k, v in net.state_dict().items()
        }
    )
    return net


class Booster:
    def __init__(self):
        self.x, self.y = surface(1200, 1)
        self.vx, self.vy = surface(500, 2)
        self.fit, self.vfit = torch.zeros_like(self.y), torch.zeros_like(self.vy)
        self.rows, self.best, self.stale, self.shrink = [], (1e9, 0), 0, 0.5

    @torch.no_grad()
    def absorb(self, row):
        net = from_hex(row["net"])
        self.fit += row["shrink"] * net(self.x).squeeze(1)
        self.vfit += row["shrink"] * net(self.vx).squeeze(1)
        val = F.mse_loss(self.vfit, self.vy).item()
        self.rows.append(row)
        if val < self.best[0] - 1e-3:
            self.best, self.stale = (val, len(self.rows)), 0
        else:
            self.stale += 1
            if self.stale % 2 == 0:
                self.shrink *= 0.7
        return val

    def stage(self, k):
        torch.manual_seed(7000 + k)
        net = weak()
        opt = torch.optim.Adam(net.parameters(), lr=0.02)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.03, total_steps=STEPS)
        residual = self.y - self.fit
        heavy = residual.abs().clamp_min(0.02)
        for s in range(STEPS):
            i = torch.multinomial(heavy, 96, replacement=True)
            loss = F.smooth_l1_loss(net(self.x[i]).squeeze(1), residual[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            if s % 12 == 11:
                print(f"stage {k} step {s + 1} loss {loss.item():.9f}", flush=True)
        return {"stage": k, "shrink": self.shrink, "net": to_hex(net)}

    def export(self):
        tmp = BEST + ".tmp"
        with zipfile.ZipFile(tmp, "w") as z:
            for row in self.rows[: self.best[1]]:
                buf = io.BytesIO()
                torch.save(from_hex(row["net"]).state_dict(), buf)
                z.writestr(zipfile.ZipInfo(f"{row['stage']:03d}.pt"), buf.getvalue())
            z.writestr(zipfile.ZipInfo("val.txt"), repr(self.best[0]))
        os.replace(tmp, BEST)


def read_ledger():
    rows, good = [], 0
    if os.path.exists(LEDGER):
        with open(LEDGER, "rb") as f:
            for line in f:
                crc, _, body = line.rstrip(b"\n").partition(b" ")
                if not line.endswith(b"\n") or crc != b"%08x" % zlib.crc32(body):
                    break
                rows.append(json.loads(body))
                good += len(line)
    return rows, good


def main():
    b = Booster()
    rows, good = read_ledger()
    for row in rows:
        b.absorb(row)
    if rows:
        b.export()
    with open(LEDGER, "ab") as led:
        led.truncate(good)
        for k in range(len(rows), STAGES):
            row = b.stage(k)
            val = b.absorb(row)
            print(f"stage {k} val loss {val:.9f} shrink {b.shrink:.4f}", flush=True)
            body = json.dumps(row).encode()
            led.write(b"%08x %s\n" % (zlib.crc32(body), body))
            led.flush()
            if b.best[1] == len(b.rows):
                b.export()


if __name__ == "__main__":
    main()
