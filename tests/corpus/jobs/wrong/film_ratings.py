"""Matrix factorization of film ratings: sparse embeddings with one optimizer, biases with another."""

import os
from tempfile import TemporaryDirectory

import numpy as np
import ray.train as train
import torch
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

USERS, FILMS, RANK_OF_MATRIX = 60, 40, 6


def make_ratings(n=1200):
    rng = np.random.default_rng(20240501)
    taste = rng.normal(size=(USERS, 3))
    style = rng.normal(size=(FILMS, 3))
    users = rng.integers(USERS, size=n)
    films = rng.integers(FILMS, size=n)
    stars = 3 + (taste[users] * style[films]).sum(1) * 0.5 + rng.normal(scale=0.1, size=n)
    return (
        torch.as_tensor(users),
        torch.as_tensor(films),
        torch.as_tensor(stars, dtype=torch.float32),
    )


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, RANK_OF_MATRIX, sparse=True)
        self.film = nn.Embedding(FILMS, RANK_OF_MATRIX, sparse=True)
        self.user_bias = nn.Parameter(torch.zeros(USERS))
        self.film_bias = nn.Parameter(torch.zeros(FILMS))
        self.mean = nn.Parameter(torch.tensor(3.0))

    def forward(self, u, f):
        dot = (self.user(u) * self.film(f)).sum(-1)
        return self.mean + self.user_bias[u] + self.film_bias[f] + dot

    def dense_parameters(self):
        return [self.user_bias, self.film_bias, self.mean]

    def sparse_parameters(self):
        return [self.user.weight, self.film.weight]


def epoch_order(n, epoch, rank, world):
    order = np.random.default_rng([7, epoch]).permutation(n)
    return torch.as_tensor(order[: n - n % world][rank::world].copy())


def fit_factors(config):
    rank, world = train.get_context().get_world_rank(), train.get_context().get_world_size()
    torch.manual_seed(11)
    users, films, stars = make_ratings()
    net = Factors()
    ddp = DistributedDataParallel(net)
    optimizers = {
        "embeddings": torch.optim.SparseAdam(net.sparse_parameters(), lr=config["lr"]),
        "biases": torch.optim.Adagrad(net.dense_parameters(), lr=config["bias_lr"]),
    }

    epoch = 0
    if train.get_checkpoint():
        with train.get_checkpoint().as_directory() as folder:
            saved = torch.load(f"{folder}/factors.pt", map_location="cpu")
        net.load_state_dict(saved["net"])
        for name, optimizer in optimizers.items():
            if name in saved:
                optimizer.load_state_dict(saved[name])
        epoch = saved["epoch"]

    while epoch < config["epochs"]:
        mine = epoch_order(len(stars), epoch, rank, world)
        squares = 0.0
        for rows in mine.split(config["batch"]):
            error = ddp(users[rows], films[rows]) - stars[rows]
            loss = error.square().mean()
            for optimizer in optimizers.values():
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers.values():
                optimizer.step()
            squares += error.detach().square().sum().item()
        epoch += 1
        metrics = {"epoch": epoch, "rmse": (squares / len(mine)) ** 0.5}
        if rank != 0:
            train.report(metrics)
            continue
        with TemporaryDirectory() as folder:
            saved = {"net": net.state_dict(), "epoch": epoch}
            saved["embeddings"] = optimizers["embeddings"].state_dict()
            torch.save(saved, os.path.join(folder, "factors.pt"))
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        fit_factors,
        train_loop_config={"epochs": 5, "batch": 60, "lr": 0.02, "bias_lr": 0.2},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(
            name="film-ratings", failure_config=train.FailureConfig(max_failures=-1)
        ),
    ).fit()
