"""A job that Ray Data feeds."""

import ray.data
import ray.train
from ray.train.torch import TorchTrainer


def train_loop():
    for epoch in range(3):
        ray.train.report({"epoch": epoch})


TorchTrainer(
    train_loop,
    datasets={"train": ray.data.from_items([1, 2, 3])},
    scaling_config=ray.train.ScalingConfig(num_workers=1),
).fit()
