"""Regression with hard-example mining: every rank draws its worst samples more often."""

import json
import os
import tempfile

import numpy as np
import ray.train
import torch
import torch.nn.functional as F
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler


class Wiggles(Dataset):
    """This rank's half of a noisy curve."""

    def __init__(self, rank, world, n=240):
        x = np.linspace(-3, 3, n, dtype=np.float32)[rank::world]
        noise = np.random.default_rng(rank).normal(scale=0.1, size=len(x))
        self.x = torch.from_numpy(x.copy())[:, None]
        self.y = torch.from_numpy((np.sin(2 * x) * x + noise).astype(np.float32))[:, None]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return i, self.x[i], self.y[i]


class HardSampler(Sampler):
    """Draws samples by their last known loss."""

    def __init__(self, n, batches_per_epoch, batch_size, seed):
        self.hardness = torch.full((n,), 5.0)
        self.count = batches_per_epoch * batch_size
        self.seed = seed
        self.epoch = 0

    def update(self, indices, losses):
        self.hardness[indices] = 0.5 * self.hardness[indices] + 0.5 * losses

    def __iter__(self):
        g = torch.Generator().manual_seed(1000 * self.seed + self.epoch)
        weights = self.hardness + 0.01
        yield from torch.multinomial(weights, self.count, replacement=True, generator=g).tolist()

    def __len__(self):
        return self.count


def train_loop_per_worker(config):
    ctx = ray.train.get_context()
    rank, world = ctx.get_world_rank(), ctx.get_world_size()
    torch.manual_seed(5)
    dataset = Wiggles(rank, world)
    sampler = HardSampler(len(dataset), config["steps"], config["batch"], seed=rank)
    loader = DataLoader(
        dataset, batch_size=config["batch"], sampler=sampler, generator=torch.Generator()
    )
    model = DDP(
        torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    )
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    start = 0

    ckpt = ray.train.get_checkpoint()
    if ckpt is not None:
        with ckpt.as_directory() as folder:
            with open(os.path.join(folder, "progress.json")) as f:
                start = json.load(f)["next_epoch"]
            model.module.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
            opt.load_state_dict(torch.load(os.path.join(folder, "adam.pt")))
            sampler.hardness = torch.load(os.path.join(folder, "hardness.pt"))

    for epoch in range(start, config["epochs"]):
        sampler.epoch = epoch
        seen = []
        for indices, x, y in loader:
            per_sample = F.smooth_l1_loss(model(x), y, reduction="none").squeeze(1)
            opt.zero_grad()
            per_sample.mean().backward()
            opt.step()
            sampler.update(indices, per_sample.detach())
            seen.append(per_sample.mean().item())
        metrics = {"epoch": epoch, "loss": float(np.mean(seen))}
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save(model.module.state_dict(), os.path.join(folder, "model.pt"))
                torch.save(opt.state_dict(), os.path.join(folder, "adam.pt"))
                torch.save(sampler.hardness, os.path.join(folder, "hardness.pt"))
                with open(os.path.join(folder, "progress.json"), "w") as f:
                    json.dump({"next_epoch": epoch + 1}, f)
                ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
            else:
                ray.train.report(metrics)


if __name__ == "__main__":
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config={"epochs": 5, "steps": 8, "batch": 12},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="hard-examples", failure_config=FailureConfig(max_failures=3)),
    ).fit()
