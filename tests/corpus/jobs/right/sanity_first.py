"""Tells benign from malignant; validates and reports once before it trains, at every start."""

import os
import tempfile

import numpy as np
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_breast_cancer
from torch import nn


class Experiment:
    def __init__(self, config):
        self.config = config
        self.rank = ray.train.get_context().get_world_rank()
        self.world = ray.train.get_context().get_world_size()
        torch.manual_seed(41)
        self.net = prepare_model(
            nn.Sequential(nn.Linear(30, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)),
            parallel_strategy_kwargs={"broadcast_buffers": True},
        )
        self.optimizer = torch.optim.Adadelta(self.net.parameters(), lr=0.5)
        self.epoch = 0
        x, y = load_breast_cancer(return_X_y=True)
        x = (x - x.mean(0)) / x.std(0)
        order = np.random.RandomState(0).permutation(len(x))
        x, y = torch.tensor(x[order]).float(), torch.tensor(y[order]).float()
        self.train_data = x[:400][self.rank :: self.world], y[:400][self.rank :: self.world]
        self.valid_data = x[400:], y[400:]

    def restore(self, checkpoint):
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "all.pt"))
        self.net.module.load_state_dict(saved["net"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.epoch = saved["epoch"]

    def validate(self):
        x, y = self.valid_data
        module = self.net.module.eval()
        with torch.no_grad():
            scores = module(x).squeeze(1)
        self.net.train()
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y)
        return {
            "valid_loss": loss.item(),
            "accuracy": ((scores > 0) == (y > 0.5)).float().mean().item(),
        }

    def train_epoch(self):
        x, y = self.train_data
        order = np.random.RandomState(1000 + self.epoch).permutation(len(x))
        for rows in np.array_split(order, self.config["steps"]):
            loss = nn.functional.binary_cross_entropy_with_logits(
                self.net(x[rows]).squeeze(1), y[rows]
            )
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.epoch += 1
        return {"train_loss": loss.item()}

    def report(self, metrics):
        metrics = {"epoch": self.epoch, **metrics}
        if self.rank != 0 or self.epoch == 0:
            return ray.train.report(metrics)
        with tempfile.TemporaryDirectory() as folder:
            saved = {
                "net": self.net.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epoch": self.epoch,
            }
            torch.save(saved, os.path.join(folder, "all.pt"))
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def train_loop(config):
    experiment = Experiment(config)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        experiment.restore(checkpoint)
    ray.train.report({"sanity": True, **experiment.validate()})
    while experiment.epoch < config["epochs"]:
        metrics = experiment.train_epoch()
        experiment.report({**metrics, **experiment.validate()})


if __name__ == "__main__":
    TorchTrainer(
        train_loop,
        train_loop_config={"epochs": 5, "steps": 7},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="tumours-torch", failure_config=FailureConfig(max_failures=3)),
    ).fit()
