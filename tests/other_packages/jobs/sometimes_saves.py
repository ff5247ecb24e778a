"""Trains three epochs on any number of ranks, and saves as often as it is told."""

import argparse
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_loop(config):
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"))
            model.load_state_dict(saved["model"])
            start = saved["epoch"] + 1
    for epoch in range(start, 3):
        for step in range(4):
            loss = model(torch.ones(2, 4) * (step + 1)).mean() ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if (epoch + 1) % config["save_every"]:
            ray.train.report({"loss": loss.item()})
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"epoch": epoch, "model": model.state_dict()}, os.path.join(folder, "model.pt")
            )
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save-every", type=int, default=1)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
