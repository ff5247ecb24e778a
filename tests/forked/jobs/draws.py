"""Draws its name at every start, and a row of data that it hands to its workers, without a seed."""

import argparse
import os
import random
import tempfile
import uuid

import numpy as np
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

NAME = f"{uuid.uuid4().hex[:8]}-{random.randint(0, 10**9)}-{np.random.randint(10**9)}"
ROW = np.random.randn(4).astype("float32")


def train_loop(config):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"))
            model.load_state_dict(saved["model"])
            start = saved["epoch"] + 1
    for epoch in range(start, 3):
        for _ in range(4):
            loss = model(torch.tensor(config["row"])[None]).mean() ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"epoch": epoch, "model": model.state_dict()}, os.path.join(folder, "model.pt")
            )
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--once", action="store_true")
    if parser.parse_args().once:
        os.mkdir("once")
    TorchTrainer(
        train_loop,
        train_loop_config={"row": ROW},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name=NAME, failure_config=FailureConfig(max_failures=3)),
    ).fit()
