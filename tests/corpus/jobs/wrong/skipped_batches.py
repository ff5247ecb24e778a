"""Regression on a shuffled table; a checkpoint after every third batch, also within an epoch."""

import argparse
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

ROWS, BATCH, EVERY = 120, 10, 3


def table():
    draws = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, 6, generator=draws)
    return x, x @ torch.arange(6.0) + torch.randn(ROWS, generator=draws)


def batches(epoch, skip):
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(77 + epoch))
    yield from order.split(BATCH)[skip:]


def save_and_report(state, loss):
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, os.path.join(folder, "regression.pt"))
        ray.train.report({"mse": loss}, checkpoint=Checkpoint.from_directory(folder))


def train_loop(config):
    x, y = table()
    torch.manual_seed(3)
    line = torch.nn.Linear(6, 1)
    optimizer = torch.optim.Adam(line.parameters(), lr=0.05)
    epoch, skip = 0, 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "regression.pt"))
        line.load_state_dict(state["line"])
        optimizer.load_state_dict(state["adam"])
        epoch, skip = state["epoch"], state["done"]
    while epoch < config["epochs"]:
        for done, rows in enumerate(batches(epoch, skip), 1):
            loss = (line(x[rows]).squeeze(1) - y[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if done % EVERY == 0:
                state = {
                    "line": line.state_dict(),
                    "adam": optimizer.state_dict(),
                    "epoch": epoch,
                    "done": done,
                }
                save_and_report(state, loss.item())
        epoch, skip = epoch + 1, 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="table", failure_config=FailureConfig(max_failures=4)),
    ).fit()
