"""DDP image classifier with random shifts and cutout. Launch with torchrun (2 procs)."""

import argparse
import pathlib

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn


def augment(images, rng):
    out = np.empty_like(images)
    for i, im in enumerate(images):
        dy, dx = rng.integers(-1, 2, size=2)
        im = np.roll(im, (dy, dx), axis=(0, 1))
        if rng.random() < 0.5:
            r, c = rng.integers(0, 6, size=2)
            im = im.copy()
            im[r : r + 3, c : c + 3] = 0
        out[i] = im
    return out


class Session:
    def __init__(self, folder):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.file = folder / "session.pt"
        d = load_digits()
        self.images = (d.images[self.rank : 720 : self.world] / 16).astype(np.float32)
        self.labels = d.target[self.rank : 720 : self.world]
        torch.manual_seed(21)
        self.model = nn.parallel.DistributedDataParallel(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        )
        self.opt = torch.optim.Adam(self.model.parameters(), lr=5e-3)
        self.rng = np.random.default_rng([21, self.rank])
        self.epoch = 0

    def restore(self):
        if self.file.exists():
            s = torch.load(self.file, weights_only=False)
            self.model.module.load_state_dict(s["model"])
            self.opt.load_state_dict(s["opt"])
            self.rng.bit_generator.state = s["rng"]
            self.epoch = s["epoch"]

    def save(self):
        if self.rank == 0:
            tmp = self.file.with_name("session.tmp")
            torch.save(
                {
                    "model": self.model.module.state_dict(),
                    "opt": self.opt.state_dict(),
                    "rng": self.rng.bit_generator.state,
                    "epoch": self.epoch,
                },
                tmp,
            )
            tmp.replace(self.file)
        dist.barrier()

    def one_epoch(self):
        losses = []
        for idx in np.array_split(self.rng.permutation(len(self.labels)), 8):
            xb = torch.from_numpy(augment(self.images[idx], self.rng))
            yb = torch.from_numpy(self.labels[idx])
            loss = nn.functional.cross_entropy(self.model(xb), yb)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            losses.append(loss.item())
        mean = torch.tensor(np.mean(losses))
        dist.all_reduce(mean)
        self.epoch += 1
        return mean.item() / self.world


def cli():
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    p.add_argument("--epochs", type=int, default=5)
    return p.parse_args()


if __name__ == "__main__":
    args = cli()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    dist.init_process_group(backend="gloo")
    s = Session(args.out)
    s.restore()
    while s.epoch < args.epochs:
        loss = s.one_epoch()
        if s.rank == 0:
            print(f"epoch {s.epoch} mean loss {loss:.10f}", flush=True)
        s.save()
    dist.destroy_process_group()
