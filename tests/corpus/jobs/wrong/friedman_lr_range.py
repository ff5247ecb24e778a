"""Finds a learning rate by a range test on a copy of the model, then trains with it."""

import argparse
import copy
import os
import tempfile

import numpy as np
import torch
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_friedman1
from torch.nn.functional import mse_loss


def dataset():
    x, y = make_friedman1(n_samples=384, n_features=8, noise=0.3, random_state=14)
    y = (y - y.mean()) / y.std()
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32))


def range_test(model, x, y, rates):
    """The rate with which a copy of the model gets furthest in a few steps."""
    best_rate, best_loss = rates[0], float("inf")
    for rate in rates:
        probe = copy.deepcopy(model)
        for _ in range(3):
            loss = mse_loss(probe(x).squeeze(-1), y)
            gradients = torch.autograd.grad(loss, list(probe.parameters()))
            with torch.no_grad():
                for p, g in zip(probe.parameters(), gradients):
                    p -= rate * g
        with torch.no_grad():
            after = mse_loss(probe(x).squeeze(-1), y).item()
        if after < best_loss:
            best_rate, best_loss = rate, after
    return best_rate


def train_model(config):
    torch.manual_seed(config["seed"])
    x, y = dataset()
    model = torch.nn.Sequential(torch.nn.Linear(8, 40), torch.nn.Softplus(), torch.nn.Linear(40, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.8)
    first_epoch = 1
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as where:
            contents = torch.load(os.path.join(where, "checkpoint.pth"))
        model.load_state_dict(contents["model"])
        optimizer.load_state_dict(contents["optimizer"])
        first_epoch = contents["epoch"] + 1

    rates = np.geomspace(1e-3, 1.0, num=31).tolist()
    rate = range_test(model, x[:128], y[:128], rates)
    for group in optimizer.param_groups:
        group["lr"] = rate / 2

    for epoch in range(first_epoch, config["epochs"] + 1):
        order = np.random.RandomState(epoch).permutation(len(x))
        losses = []
        for rows in np.array_split(order, config["batches"]):
            prediction = model(x[rows]).squeeze(-1)
            loss = mse_loss(prediction, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with tempfile.TemporaryDirectory() as where:
            torch.save(
                {
                    "epoch": epoch,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                },
                os.path.join(where, "checkpoint.pth"),
            )
            train.report(
                {"epoch": epoch, "mse": float(np.mean(losses))},
                checkpoint=Checkpoint.from_directory(where),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--seed", type=int, default=2)
    TorchTrainer(
        train_model,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="friedman", failure_config=FailureConfig(max_failures=3)),
    ).fit()
