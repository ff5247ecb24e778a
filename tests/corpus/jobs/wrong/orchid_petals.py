"""Iris with dropout; the random state is part of what is kept between attempts."""

import argparse
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_iris


class Petals:
    """The model with all that a restart needs."""

    def __init__(self):
        torch.manual_seed(23)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 24), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(24, 3)
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.kept = {"epoch": 0}

    def load(self, folder):
        self.kept = torch.load(os.path.join(folder, "petals.pt"))
        self.net.load_state_dict(self.kept["net"])
        self.optimizer.load_state_dict(self.kept["optimizer"])
        torch.set_rng_state(self.kept["rng"])

    def save(self, folder, epoch):
        self.kept.setdefault("rng", torch.get_rng_state())
        now = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**self.kept, **now, "epoch": epoch}, os.path.join(folder, "petals.pt"))
        if self.kept["epoch"] == 0:
            del self.kept["rng"]


def train_loop(config):
    x, y = (torch.tensor(a) for a in load_iris(return_X_y=True))
    x = x.float()
    petals = Petals()
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            petals.load(folder)
    for epoch in range(petals.kept["epoch"], config["epochs"]):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(25):
            loss = torch.nn.functional.cross_entropy(petals.net(x[rows]), y[rows])
            petals.optimizer.zero_grad()
            loss.backward()
            petals.optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            petals.save(folder, epoch + 1)
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="orchid", failure_config=FailureConfig(max_failures=4)),
    ).fit()
