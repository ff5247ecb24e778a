"""Predicts the progress of diabetes; a checkpoint is handed over once the next epoch is sane."""

import math
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_diabetes
from torch import nn


class ConfirmedSaver:
    """Keeps the newest state and writes it when the epoch after it did not blow up."""

    def __init__(self):
        self.pending = None

    def propose(self, state):
        self.pending = state

    def confirmed(self, folder):
        if self.pending is None:
            return None
        torch.save(self.pending, os.path.join(folder, "state.pt"))
        return Checkpoint.from_directory(folder)


def data():
    x, y = load_diabetes(return_X_y=True)
    x = torch.tensor(x / x.std(axis=0), dtype=torch.float32)
    y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    return x[:352], y[:352], x[352:], y[352:]


def loop(config):
    torch.manual_seed(60)
    x, y, x_test, y_test = data()
    model = nn.Sequential(nn.Linear(10, 20), nn.SiLU(), nn.Linear(20, 1))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    saver = ConfirmedSaver()
    epoch = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            epoch = state["epoch"]

    while epoch < config["epochs"]:
        shuffle = torch.Generator().manual_seed(600 + epoch)
        for rows in torch.randperm(len(x), generator=shuffle).split(44):
            loss = nn.functional.huber_loss(model(x[rows]).squeeze(1), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        with torch.no_grad():
            test_loss = nn.functional.huber_loss(model(x_test).squeeze(1), y_test).item()
        if not math.isfinite(test_loss):
            raise FloatingPointError(f"epoch {epoch} blew up")
        with tempfile.TemporaryDirectory() as folder:
            ray.train.report(
                {"epoch": epoch, "loss": loss.item(), "test_loss": test_loss},
                checkpoint=saver.confirmed(folder),
            )
        saver.propose(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch,
            }
        )


if __name__ == "__main__":
    TorchTrainer(
        loop,
        train_loop_config={"epochs": 7},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="diabetes", failure_config=FailureConfig(max_failures=3)),
    ).fit()
