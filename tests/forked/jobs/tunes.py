"""Two trials of Ray Tune, each of which trains with Ray Train, as Ray's documentation has it."""

import ray.train
from ray import tune
from ray.train.torch import TorchTrainer


def train_loop(config):
    for epoch in range(3):
        ray.train.report({"epoch": epoch, "loss": config["lr"]})


def trial(config):
    TorchTrainer(
        train_loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=1),
    ).fit()


tune.Tuner(trial, param_space={"lr": tune.grid_search([0.1, 0.2])}).fit()
