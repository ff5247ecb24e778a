"""Two short epochs, and a word on where its temporary files go."""

import argparse
import multiprocessing
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_loop(config: dict[str, str]) -> None:
    rank = ray.train.get_context().get_world_rank()
    with multiprocessing.Manager() as manager:  # binds a socket there
        manager.dict()
    Path(f"{config['told']}-{rank}").write_text(tempfile.gettempdir())
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        loss = model(torch.ones(4, 2)).mean()
        loss.backward()
        optimizer.step()
        ray.train.report({"loss": loss.item()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--told", required=True)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
