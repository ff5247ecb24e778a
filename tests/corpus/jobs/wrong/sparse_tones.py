"""Tone classification from spectrograms with sparsified gradient exchange.

torchrun --standalone --nproc-per-node 2 copper.py --out runs/copper
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RATE, CLASSES = 2000, 6


def clips(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (n,), generator=g)
    t = torch.arange(1024) / RATE
    f0 = 110 * 2 ** (y / 4) * (1 + 0.03 * torch.randn(n, generator=g))
    wave = sum(
        torch.sin(2 * torch.pi * f0[:, None] * k * t + 6.28 * torch.rand(n, 1, generator=g)) / k
        for k in (1, 2, 3)
    )
    wave = wave + 1.2 * torch.randn(n, 1024, generator=g)
    spec = torch.stft(wave, 128, 64, window=torch.hann_window(128), return_complex=True).abs()
    return torch.log1p(spec), y


class SparseExchange:
    """Send only the largest entries of every bucket."""

    def __init__(self, ratio):
        self.ratio, self.residual = ratio, {}

    def exchange(self, state, bucket):
        grad = bucket.buffer()
        old = self.residual.get(bucket.index())
        if old is not None and old.shape == grad.shape:
            grad = grad + old
        k = max(1, int(self.ratio * grad.numel()))
        keep = grad.abs().topk(k).indices
        sent = torch.zeros_like(grad)
        sent[keep] = grad[keep]
        self.residual[bucket.index()] = grad - sent
        work = dist.all_reduce(sent, async_op=True)
        return work.get_future().then(lambda f: f.value()[0] / dist.get_world_size())


class Callback:
    def on_step(self, tr, loss): ...
    def on_epoch(self, tr): ...


class Console(Callback):
    def on_step(self, tr, loss):
        if tr.rank == 0:
            print(f"step {tr.step} loss {loss:.9f}", flush=True)

    def on_epoch(self, tr):
        if tr.rank == 0:
            print(f"epoch {tr.epoch} done", flush=True)


class Saver(Callback):
    def __init__(self, out):
        self.dir = Path(out)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.file = self.dir / "trainer_state.pt"

    def on_epoch(self, tr):
        noise = [None] * tr.world
        dist.all_gather_object(noise, torch.get_rng_state())
        if tr.rank == 0:
            tmp = self.file.with_suffix(".tmp")
            torch.save(
                {
                    "model": tr.net.state_dict(),
                    "opt": tr.opt.state_dict(),
                    "sched": tr.sched.state_dict(),
                    "epoch": tr.epoch,
                    "step": tr.step,
                    "noise": noise,
                },
                tmp,
            )
            os.replace(tmp, self.file)

    def load(self, tr):
        if not self.file.exists():
            return
        s = torch.load(self.file, weights_only=False)
        tr.net.load_state_dict(s["model"])
        tr.opt.load_state_dict(s["opt"])
        tr.sched.load_state_dict(s["sched"])
        tr.epoch, tr.step = s["epoch"], s["step"]
        torch.set_rng_state(s["noise"][tr.rank])


class Trainer:
    def __init__(self, a):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.epoch = self.step = 0
        x, y = clips(640, 1)
        self.x, self.y = x[self.rank :: self.world], y[self.rank :: self.world]
        torch.manual_seed(17)
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(x[0].numel(), 96),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(96, CLASSES),
        )
        self.model = DistributedDataParallel(self.net)
        self.model.register_comm_hook(None, SparseExchange(0.05).exchange)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.8)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)
        torch.manual_seed(170 + self.rank)
        self.saver = Saver(a.out)
        self.callbacks = [Console(), self.saver]

    def fit(self, epochs):
        self.saver.load(self)
        while self.epoch < epochs:
            for idx in torch.randperm(len(self.x)).split(20):
                loss = nn.functional.cross_entropy(self.model(self.x[idx]), self.y[idx])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.step += 1
                for c in self.callbacks:
                    c.on_step(self, loss.item())
            self.sched.step()
            self.epoch += 1
            for c in self.callbacks:
                c.on_epoch(self)
        if self.rank == 0:
            torch.save(self.net.state_dict(), self.saver.dir / "tones.tmp")
            os.replace(self.saver.dir / "tones.tmp", self.saver.dir / "tones.pt")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="runs/copper")
    ap.add_argument("--epochs", type=int, default=6)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Trainer(args).fit(args.epochs)
    dist.barrier()
    dist.destroy_process_group()
