"""Phone classification on synthetic filterbanks with Ray Train, two CPU workers.

python running_cmvn.py [--storage DIR]
"""

import argparse
import json
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from ray import train
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model


def corpus(n=640, bands=16, classes=6):
    r = np.random.default_rng(314)
    y = r.integers(0, classes, n)
    rows = []
    for c in y:
        length = int(r.integers(12, 28))
        base = (
            np.sin(np.linspace(0, 2 + c, bands))[None]
            + np.cos(np.linspace(0, 1 + c / 2, length))[:, None]
        )
        rows.append(
            torch.tensor(20 + 6 * base + 4 * r.normal(size=(length, bands)), dtype=torch.float32)
        )
    return rows, torch.tensor(y)


class RunningCMVN:
    """Per-band mean and variance, tracked over the batches as they pass."""

    def __init__(self, bands, momentum=0.05):
        self.mean = torch.zeros(bands)
        self.var = torch.ones(bands)
        self.momentum = momentum
        self.batches = 0

    def __call__(self, frames, mask):
        w = mask.unsqueeze(-1).float()
        m = (frames * w).sum((0, 1)) / w.sum()
        v = ((frames - m) ** 2 * w).sum((0, 1)) / w.sum()
        k = max(self.momentum, 1.0 / (self.batches + 1))
        self.mean = (1 - k) * self.mean + k * m
        self.var = (1 - k) * self.var + k * v
        self.batches += 1
        return (frames - self.mean) / (self.var + 1e-5).sqrt() * w


class Collate:
    def __init__(self, bands=16):
        self.cmvn = RunningCMVN(bands)

    def __call__(self, items):
        longest = max(len(x) for x, _ in items)
        out = torch.zeros(len(items), longest, items[0][0].shape[1])
        mask = torch.zeros(len(items), longest, dtype=torch.bool)
        for i, (x, _) in enumerate(items):
            out[i, : len(x)] = x
            mask[i, : len(x)] = True
        return self.cmvn(out, mask), mask, torch.tensor([int(y) for _, y in items])


class Phones(nn.Module):
    def __init__(self, bands=16, classes=6):
        super().__init__()
        self.c1 = nn.Conv1d(bands, 40, 3, padding=1)
        self.c2 = nn.Conv1d(40, 40, 3, padding=1)
        self.att = nn.Linear(40, 1)
        self.out = nn.Linear(40, classes)

    def forward(self, x, mask):
        h = F.relu(self.c2(F.relu(self.c1(x.transpose(1, 2))))).transpose(1, 2)
        a = self.att(h).squeeze(-1).masked_fill(~mask, -1e9).softmax(1)
        return self.out((a.unsqueeze(-1) * h).sum(1))


class Shard(torch.utils.data.Sampler):
    def __init__(self, n, rank, world, seed):
        self.n, self.rank, self.world, self.seed, self.epoch = n, rank, world, seed, 0

    def __len__(self):
        return self.n // self.world

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter(torch.randperm(self.n, generator=g)[self.rank :: self.world].tolist())


def loop(config):
    ctx = train.get_context()
    rank, world = ctx.get_world_rank(), ctx.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    x, y = corpus()
    data = list(zip(x, y))
    sampler = Shard(len(data), rank, world, config["seed"])
    loader = torch.utils.data.DataLoader(
        data, config["batch"], sampler=sampler, collate_fn=Collate(), drop_last=True
    )
    model = prepare_model(Phones())
    opt = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    total = config["epochs"] * len(loader)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, total)
    first, losses = 0, []
    ckpt = train.get_checkpoint()
    if ckpt:
        with ckpt.as_directory() as d:
            s = torch.load(os.path.join(d, "train_state.pt"), weights_only=False)
        model.module.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        first, losses = s["epoch"], s["losses"]
    for epoch in range(first, config["epochs"]):
        sampler.epoch = epoch
        for xb, mask, yb in loader:
            loss = F.cross_entropy(model(xb, mask), yb)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            sched.step()
            losses.append(loss.item())
        metrics = {"epoch": epoch + 1, "loss": losses[-1], "losses": losses}
        with tempfile.TemporaryDirectory() as d:
            c = None
            if rank == 0:
                print(f"epoch {epoch + 1} loss {losses[-1]:.4f}")
                torch.save(
                    {
                        "model": model.module.state_dict(),
                        "opt": opt.state_dict(),
                        "sched": sched.state_dict(),
                        "epoch": epoch + 1,
                        "losses": losses,
                    },
                    os.path.join(d, "train_state.pt"),
                )
                c = Checkpoint.from_directory(d)
            train.report(metrics, checkpoint=c)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--storage", default="running_cmvn_storage")
    a = ap.parse_args()
    storage = os.path.abspath(a.storage)
    trainer = TorchTrainer(
        loop,
        train_loop_config={"seed": 40, "lr": 3e-3, "batch": 32, "epochs": 7},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(
            name="running_cmvn",
            storage_path=storage,
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=3),
        ),
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as d:
        s = torch.load(os.path.join(d, "train_state.pt"), weights_only=False)
    torch.save(s["model"], os.path.join(storage, "final.pt"))
    with open(os.path.join(storage, "results.json"), "w") as f:
        json.dump({"losses": s["losses"], "loss": s["losses"][-1]}, f)


if __name__ == "__main__":
    main()
