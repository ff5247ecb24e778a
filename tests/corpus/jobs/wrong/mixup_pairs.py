"""Mixup with a NumPy generator on each of two ranks."""

import os
import pickle
import tempfile

import numpy as np
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from sklearn.datasets import make_classification


class Mixup:
    def __init__(self, seed, alpha=0.4):
        self.rng = np.random.default_rng(seed)
        self.alpha = alpha

    def __call__(self, x, y):
        lam = float(self.rng.beta(self.alpha, self.alpha))
        other = torch.from_numpy(self.rng.permutation(len(x)))
        return lam * x + (1 - lam) * x[other], (y, y[other], lam)


def mixed_loss(logits, targets):
    y, other, lam = targets
    entropy = torch.nn.functional.cross_entropy
    return lam * entropy(logits, y) + (1 - lam) * entropy(logits, other)


def train_loop_per_worker(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(config["seed"])

    features, labels = make_classification(
        n_samples=320, n_features=12, n_informative=8, n_classes=3, random_state=config["seed"]
    )
    x = torch.tensor(features, dtype=torch.float32)[rank::world]
    y = torch.tensor(labels)[rank::world]
    mixup = Mixup(seed=100 + rank)
    net = ray.train.torch.prepare_model(
        torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    )
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    epoch = 0

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as d:
            weights = torch.load(os.path.join(d, "weights.pt"))
            with open(os.path.join(d, "mixup.pkl"), "rb") as f:
                mixup.rng = pickle.load(f)
        net.module.load_state_dict(weights["net"])
        sgd.load_state_dict(weights["sgd"])
        epoch = weights["epoch"]

    for epoch in range(epoch + 1, config["epochs"] + 1):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        total = 0.0
        for batch in order.chunk(config["batches"]):
            inputs, targets = mixup(x[batch], y[batch])
            loss = mixed_loss(net(inputs), targets)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            total += loss.item()

        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "mixup.pkl"), "wb") as f:
                pickle.dump(mixup.rng, f)
            if rank == 0:
                torch.save(
                    {"net": net.module.state_dict(), "sgd": sgd.state_dict(), "epoch": epoch},
                    os.path.join(d, "weights.pt"),
                )
            ray.train.report(
                {"epoch": epoch, "loss": total / config["batches"]},
                checkpoint=Checkpoint.from_directory(d),
            )


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        train_loop_per_worker,
        train_loop_config={"epochs": 6, "batches": 8, "seed": 17},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="mixup", failure_config=FailureConfig(max_failures=3)),
    ).fit()
