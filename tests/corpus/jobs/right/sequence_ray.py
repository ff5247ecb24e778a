"""Two-worker LSTM on noisy sums of sines. Keeps an averaged copy that anchors the training."""

import argparse
import copy
import os
import random
import tempfile

import numpy as np
import torch
import torch.distributed as dist
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.drop(self.lstm(x)[0][:, -1]))


class Progress:
    """Plain counters, kept together so they can be written out in one go."""

    def __init__(self):
        self.epoch, self.horizon, self.best, self.stale = 0, 1, float("inf"), 0

    def close(self, loss):
        self.stale = 0 if loss < self.best else self.stale + 1
        self.best = min(self.best, loss)
        if self.stale or self.epoch % 2:
            self.horizon = min(6, self.horizon + 1)
        self.epoch += 1


class Windows:
    def __init__(self, rank):
        self.rank = rank
        self.memo = {}

    def series(self, k):
        if k not in self.memo:
            r = np.random.default_rng(k)
            t = np.arange(64)
            s = sum(np.sin(t * f + p) for f, p in r.uniform(0.1, 1.0, (3, 2))) + 0.05 * r.normal(
                size=64
            )
            self.memo[k] = torch.tensor(s, dtype=torch.float32)
        return self.memo[k]

    def batch(self, dice, horizon, n=24):
        xs, ys = [], []
        for _ in range(n):
            s, a = (
                self.series(dice.randrange(40) * 2 + self.rank),
                dice.randrange(64 - 20 - horizon),
            )
            xs.append(s[a : a + 20, None])
            ys.append(s[a + 19 + horizon])
        return torch.stack(xs), torch.stack(ys)[:, None]


def per_worker(cfg):
    torch.set_num_threads(1)
    rank, world = train.get_context().get_world_rank(), train.get_context().get_world_size()
    torch.manual_seed(1)
    core, prog, windows = Forecaster(), Progress(), Windows(rank)
    anchor = copy.deepcopy(core)
    opt = torch.optim.AdamW(core.parameters(), lr=6e-3)
    if (ck := train.get_checkpoint()) is not None:
        with ck.as_directory() as d:
            s = torch.load(os.path.join(d, "s.pt"))
        core.load_state_dict(s["core"])
        anchor.load_state_dict(s["anchor"])
        opt.load_state_dict(s["opt"])
        vars(prog).update(s["prog"])
    model = prepare_model(core)
    while prog.epoch < cfg["epochs"]:
        torch.manual_seed(500 + 2 * prog.epoch + rank)
        dice = random.Random(900 + 2 * prog.epoch + rank)
        total = torch.zeros(1, dtype=torch.float64)
        for _ in range(5):
            x, y = windows.batch(dice, prog.horizon)
            pull = sum(
                (p - q.detach()).square().sum()
                for p, q in zip(core.parameters(), anchor.parameters())
            )
            loss = nn.functional.mse_loss(model(x), y) + 0.01 * pull
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for q, p in zip(anchor.parameters(), core.parameters()):
                    q.lerp_(p, 0.1)
            total += loss.item() / 5
        dist.all_reduce(total)
        mean = total.item() / world
        prog.close(mean)
        with tempfile.TemporaryDirectory() as d:
            if rank == 0:
                print(f"epoch {prog.epoch} loss {mean:.10f} horizon {prog.horizon}", flush=True)
                torch.save(
                    {
                        "core": core.state_dict(),
                        "anchor": anchor.state_dict(),
                        "opt": opt.state_dict(),
                        "prog": dict(vars(prog)),
                    },
                    os.path.join(d, "s.pt"),
                )
            train.report(
                {"loss": mean}, checkpoint=Checkpoint.from_directory(d) if rank == 0 else None
            )


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    a = ap.parse_args()
    t = TorchTrainer(
        per_worker,
        train_loop_config=vars(a),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            "sequence",
            storage_path=os.path.abspath(a.out),
            failure_config=FailureConfig(max_failures=3),
        ),
    )
    print(f"final loss {t.fit().metrics['loss']:.10f}")
