"""Diabetes regression with Ray Train and a hand-written step-level LR cut."""

import argparse
import os
import tempfile

import ray
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_diabetes
from torch import nn


class LrCutter:
    def __init__(self, opt, patience=5, factor=0.7):
        self.opt, self.patience, self.factor = opt, patience, factor
        self.best = float("inf")
        self.wait = 0

    def step(self, loss):
        if loss < self.best * 0.97:
            self.best, self.wait = loss, 0
        else:
            self.wait += 1
        if self.wait >= self.patience:
            for g in self.opt.param_groups:
                g["lr"] = max(g["lr"] * self.factor, 1e-4)
            self.wait = 0


def train_func(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    d = load_diabetes()
    x = torch.tensor(d.data * 20, dtype=torch.float32)
    y = torch.tensor((d.target - d.target.mean()) / d.target.std(), dtype=torch.float32)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.08, momentum=0.9)
    cutter = LrCutter(opt)
    start = 0
    ck = ray.train.get_checkpoint()
    if ck:
        with ck.as_directory() as d0:
            s = torch.load(os.path.join(d0, "state.pt"))
        net.load_state_dict(s["net"])
        opt.load_state_dict(s["opt"])
        cutter.best = s["best"]
        start = s["epoch"] + 1
    for epoch in range(start, cfg["epochs"]):
        g = torch.Generator().manual_seed(cfg["seed"] * 100 + epoch)
        losses = []
        for idx in torch.randperm(len(x), generator=g)[:420].split(60):
            loss = nn.functional.mse_loss(net(x[idx]).squeeze(1), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            cutter.step(loss.item())
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
        print(f"epoch {epoch} loss {mean:.10f}", flush=True)
        with tempfile.TemporaryDirectory() as tmp:
            torch.save(
                {
                    "net": net.state_dict(),
                    "opt": opt.state_dict(),
                    "best": cutter.best,
                    "epoch": epoch,
                },
                os.path.join(tmp, "state.pt"),
            )
            ray.train.report(
                {"epoch": epoch, "loss": mean}, checkpoint=Checkpoint.from_directory(tmp)
            )


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="./out")
    p.add_argument("--epochs", type=int, default=6)
    a = p.parse_args()
    result = TorchTrainer(
        train_func,
        train_loop_config={"seed": 4, "epochs": a.epochs},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name="diabetes",
            storage_path=os.path.abspath(a.out),
            failure_config=FailureConfig(max_failures=3),
        ),
    ).fit()
    print(f"final loss {result.metrics['loss']:.10f}")
