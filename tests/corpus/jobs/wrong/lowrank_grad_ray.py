"""Low-rank gradient training (project, adapt, project back) with Ray Train, one worker."""

import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from ray import train as rt
from ray.train.torch import TorchTrainer


class LowRank:
    def __init__(self, weight, rank=4, every=10, lr=0.01):
        self.weight, self.rank, self.every, self.lr = weight, rank, every, lr
        self.basis = None
        self.m = torch.zeros(rank, weight.shape[1])
        self.v = torch.zeros(rank, weight.shape[1])
        self.t = 0

    @torch.no_grad()
    def apply(self):
        g = self.weight.grad
        if self.basis is None or self.t % self.every == 0:
            self.basis = torch.linalg.svd(g, full_matrices=False)[0][:, : self.rank].clone()
        self.t += 1
        r = self.basis.T @ g
        self.m.mul_(0.9).add_(r, alpha=0.1)
        self.v.mul_(0.99).addcmul_(r, r, value=0.01)
        mh = self.m / (1 - 0.9**self.t)
        vh = self.v / (1 - 0.99**self.t)
        self.weight.sub_(self.lr * (self.basis @ (mh / (vh.sqrt() + 1e-8))))
        self.weight.grad = None

    def state(self):
        return {"m": self.m, "v": self.v, "t": self.t}

    def load(self, s):
        self.m, self.v, self.t = s["m"], s["v"], s["t"]


def toy():
    r = np.random.default_rng(99)
    x = r.normal(size=(420, 20))
    y = np.tanh(x @ r.normal(size=(20, 20)) * 0.4) @ r.normal(size=(20, 3))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32) / 3


def worker(conf):
    torch.set_num_threads(1)
    torch.manual_seed(99)
    x, y = toy()
    net = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
    big = LowRank(net[0].weight)
    small = torch.optim.Adam([net[0].bias, *net[2].parameters()], lr=0.01)
    start = 0
    checkpoint = rt.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            saved = torch.load(os.path.join(path, "ckpt.pt"))
        net.load_state_dict(saved["net"])
        small.load_state_dict(saved["small"])
        big.load(saved["big"])
        start = saved["epoch"] + 1
    for epoch in range(start, conf["epochs"]):
        perm = np.random.default_rng([99, epoch]).permutation(len(x))
        epoch_loss = []
        for part in np.split(perm, 7):
            loss = F.mse_loss(net(x[part]), y[part])
            small.zero_grad()
            loss.backward()
            big.apply()
            small.step()
            epoch_loss.append(loss.item())
        loss = float(np.mean(epoch_loss))
        print(f"epoch {epoch} mse {loss:.10f}", flush=True)
        out = tempfile.mkdtemp()
        torch.save(
            {
                "net": net.state_dict(),
                "small": small.state_dict(),
                "big": big.state(),
                "epoch": epoch,
            },
            os.path.join(out, "ckpt.pt"),
        )
        rt.report({"loss": loss, "epoch": epoch}, checkpoint=rt.Checkpoint.from_directory(out))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--epochs", type=int, default=6)
    ns = parser.parse_args()
    run_config = rt.RunConfig(
        name="lowrank",
        storage_path=os.path.abspath(ns.out),
        failure_config=rt.FailureConfig(max_failures=3),
        checkpoint_config=rt.CheckpointConfig(num_to_keep=2),
    )
    fitted = TorchTrainer(
        worker,
        train_loop_config={"epochs": ns.epochs},
        run_config=run_config,
        scaling_config=rt.ScalingConfig(num_workers=1),
    ).fit()
    print(f"final mse {fitted.metrics['loss']:.10f}")
