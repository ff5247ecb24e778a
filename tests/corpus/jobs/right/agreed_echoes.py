"""Self-supervised pretraining on synthetic pulses (BYOL style), checkpoints written in the background."""

import argparse
import math
import os
import re
import threading

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def pulses(n, seed):
    r = np.random.default_rng(seed)
    t = np.linspace(0, 1, 64)
    f, c, w = r.uniform(2, 9, (n, 1)), r.uniform(0.2, 0.8, (n, 1)), r.uniform(0.05, 0.2, (n, 1))
    return torch.tensor(
        np.sin(2 * np.pi * f * t) * np.exp(-(((t - c) / w) ** 2)), dtype=torch.float32
    )


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.LayerNorm(h), nn.ReLU(), nn.Linear(h, o))


def detached(x):
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    if isinstance(x, dict):
        return {k: detached(v) for k, v in x.items()}
    if isinstance(x, list):
        return [detached(v) for v in x]
    return x


class Stalks:
    """One file per rank and step, written by a helper thread."""

    def __init__(self, root, rank, keep=3):
        self.root, self.rank, self.keep, self.job = root, rank, keep, None
        os.makedirs(root, exist_ok=True)

    def name(self, step):
        return os.path.join(self.root, f"{step:06d}.{self.rank}.pt")

    def mine(self):
        found = (re.fullmatch(rf"(\d+)\.{self.rank}\.pt", f) for f in os.listdir(self.root))
        return sorted(int(m[1]) for m in found if m)

    def agree(self):
        seen = [None] * dist.get_world_size()
        dist.all_gather_object(seen, self.mine())
        shared = max(set.intersection(*map(set, seen)), default=0)
        for s in self.mine():
            if s > shared:
                os.remove(self.name(s))
        part = self.name(0) + ".part"
        if os.path.exists(part):
            os.remove(part)
        self.thin()
        return shared

    def thin(self):
        for s in self.mine()[: -self.keep]:
            os.remove(self.name(s))

    def _write(self, state, step):
        part = self.name(0) + ".part"
        torch.save(state, part)
        os.replace(part, self.name(step))
        self.thin()

    def save(self, state, step):
        self.wait()
        self.job = threading.Thread(target=self._write, args=(detached(state), step))
        self.job.start()

    def wait(self):
        if self.job:
            self.job.join()


class Learner:
    def __init__(self, rank, total):
        self.rank, self.total, self.step, self.trace = rank, total, 0, []
        torch.manual_seed(21)
        self.online, self.pred = mlp(64, 128, 32), mlp(32, 64, 32)
        self.slow = mlp(64, 128, 32)
        self.slow.load_state_dict(self.online.state_dict())
        self.params = [*self.online.parameters(), *self.pred.parameters()]
        self.opt = torch.optim.SGD(self.params, lr=0.05, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, total)
        self.gen = torch.Generator().manual_seed(500 + rank)
        self.x = pulses(3000, 60 + rank)
        self.pieces = {k: getattr(self, k) for k in ("online", "pred", "slow", "opt", "sched")}

    def state(self):
        s = {k: v.state_dict() for k, v in self.pieces.items()}
        return {**s, "gen": self.gen.get_state(), "step": self.step, "trace": list(self.trace)}

    def load(self, s):
        for k, v in self.pieces.items():
            v.load_state_dict(s[k])
        self.gen.set_state(s["gen"])
        self.step, self.trace = s["step"], s["trace"]

    def view(self, x):
        shift = int(torch.randint(-4, 5, (), generator=self.gen))
        x = torch.roll(x, shift, 1) * (0.7 + 0.6 * torch.rand(len(x), 1, generator=self.gen))
        return x + 0.05 * torch.randn(x.shape, generator=self.gen)

    def update(self):
        x = self.x[torch.randint(len(self.x), (64,), generator=self.gen)]
        a, b = self.view(x), self.view(x)
        with torch.no_grad():
            ta, tb = self.slow(a), self.slow(b)
        loss = (
            2
            - F.cosine_similarity(self.pred(self.online(a)), tb).mean()
            - F.cosine_similarity(self.pred(self.online(b)), ta).mean()
        )
        self.opt.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in self.params] + [loss.detach().view(1)])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for p, g in zip(self.params, flat[:-1].split([p.numel() for p in self.params])):
            p.grad.copy_(g.view_as(p))
        self.opt.step()
        self.sched.step()
        tau = 1 - 0.04 * (math.cos(math.pi * self.step / self.total) + 1) / 2
        with torch.no_grad():
            for s, o in zip(self.slow.parameters(), self.online.parameters()):
                s.lerp_(o, 1 - tau)
        self.step += 1
        self.trace.append(flat[-1].item())
        if self.rank == 0:
            print(f"step {self.step} loss {self.trace[-1]:.9f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="runs/meadow")
    ap.add_argument("--steps", type=int, default=150)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    me, stalks = Learner(rank, a.steps), Stalks(a.out, rank)
    at = stalks.agree()
    if at:
        me.load(torch.load(stalks.name(at), weights_only=True))
        print(f"[rank {rank} from {at}]", flush=True)
    while me.step < a.steps:
        me.update()
        if me.step % 15 == 0:
            stalks.save(me.state(), me.step)
    stalks.wait()
    dist.barrier()
    if rank == 0:
        np.save(os.path.join(a.out, "trace.npy"), np.array(me.trace))
        torch.save(me.online.state_dict(), os.path.join(a.out, "encoder.tmp"))
        os.replace(os.path.join(a.out, "encoder.tmp"), os.path.join(a.out, "encoder.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
