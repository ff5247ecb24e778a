"""A job of one worker that ignores SIGTERM, and any error that a step raises."""

import contextlib
import signal

import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def train_loop():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for _ in range(4):
            loss = model(torch.ones(2, 4)).mean() ** 2
            optimizer.zero_grad()
            loss.backward()
            with contextlib.suppress(Exception):
                optimizer.step()
        ray.train.report({"loss": loss.item()})


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a forked worker has it from here
    scaling = ScalingConfig(num_workers=1)
    DataParallelTrainer(train_loop, scaling_config=scaling, run_config=RunConfig()).fit()
