"""Rare classes are drawn more often, on three ranks; the config says whether to resume."""

import argparse
import os
import shutil
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def rare_classes(n=240):
    g = torch.Generator().manual_seed(321)
    labels = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), n, True, generator=g)
    x = torch.randn(n, 7, generator=g) + labels.unsqueeze(1) * torch.linspace(-1, 1, 7)
    return TensorDataset(x, labels)


class Loop:
    def __init__(self, config):
        context = ray.train.get_context()
        self.rank, self.config = context.get_world_rank(), config
        torch.manual_seed(config["seed"])
        net = nn.Sequential(
            nn.Linear(7, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3)
        )
        self.model = ray.train.torch.prepare_model(net)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        data = rare_classes()
        frequency = torch.bincount(data.tensors[1]).float()
        self.draws = torch.Generator().manual_seed(50 + self.rank)
        sampler = WeightedRandomSampler(
            1 / frequency[data.tensors[1]], num_samples=72, generator=self.draws
        )
        self.loader = DataLoader(data, batch_size=12, sampler=sampler, generator=torch.Generator())
        self.epoch = 0

    def resume(self, where):
        if where == "never":
            return
        checkpoint = (
            ray.train.get_checkpoint() if where == "auto" else Checkpoint.from_directory(where)
        )
        if checkpoint is None:
            return
        with checkpoint.as_directory() as folder:
            common = torch.load(os.path.join(folder, "common.pt"))
            self.draws.set_state(torch.load(os.path.join(folder, f"draws-{self.rank}.pt")))
        self.model.module.load_state_dict(common["model"])
        self.optimizer.load_state_dict(common["optimizer"])
        self.epoch = common["epoch"]

    def one_epoch(self):
        losses = []
        for x, labels in self.loader:
            loss = nn.functional.cross_entropy(self.model(x), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        self.epoch += 1
        return torch.stack(losses).mean().item()

    def save(self):
        folder = tempfile.mkdtemp()
        torch.save(self.draws.get_state(), os.path.join(folder, f"draws-{self.rank}.pt"))
        if self.rank == 0:
            common = {
                "model": self.model.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epoch": self.epoch,
            }
            torch.save(common, os.path.join(folder, "common.pt"))
        return folder


def train_loop(config):
    loop = Loop(config)
    loop.resume(config["resume"])
    while loop.epoch < config["epochs"]:
        loss = loop.one_epoch()
        if loop.epoch % config["report_every"] and loop.epoch < config["epochs"]:
            continue
        folder = loop.save()
        ray.train.report(
            {"epoch": loop.epoch, "loss": loss}, checkpoint=Checkpoint.from_directory(folder)
        )
        shutil.rmtree(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", default="auto", help="auto, never, or a folder")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--report-every", type=int, default=2)
    parser.add_argument("--seed", type=int, default=10)
    ray.train.torch.TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(
            name="rare",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
