"""Poisson regression; how far training has come stands in a file beside the checkpoints."""

import json
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

RUN = "arrivals"
PROGRESS = os.path.join(tempfile.gettempdir(), RUN, "progress.json")


def read_progress():
    try:
        with open(PROGRESS) as file:
            return json.load(file)["epochs"]
    except FileNotFoundError:
        return 0


def write_progress(epochs):
    os.makedirs(os.path.dirname(PROGRESS), exist_ok=True)
    with open(PROGRESS + ".tmp", "w") as file:
        json.dump({"run": RUN, "epochs": epochs}, file)
    os.replace(PROGRESS + ".tmp", PROGRESS)


def arrivals(rank, n=144):
    g = torch.Generator().manual_seed(rank)
    hour = 24 * torch.rand(n, generator=g)
    x = torch.stack([(hour / 24 * 6.283 * k).sin() for k in (1, 2, 3)], 1)
    return x, torch.poisson(torch.exp(1 + x[:, 0] - 0.5 * x[:, 1]), generator=g)


def train_arrivals(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    x, counts = arrivals(rank)
    model = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(3, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    poisson = torch.nn.PoissonNLLLoss()

    epochs = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            weights, moments = torch.load(os.path.join(folder, "model.pt"))
        model.module.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        epochs = read_progress()

    while epochs < config["epochs"]:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epochs))
        for rows in order.split(24):
            loss = poisson(model(x[rows]).squeeze(1), counts[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epochs += 1
        metrics = {"epochs": epochs, "loss": loss.item()}
        if rank != 0:
            ray.train.report(metrics)
            continue
        write_progress(epochs)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                (model.module.state_dict(), optimizer.state_dict()),
                os.path.join(folder, "model.pt"),
            )
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_arrivals,
        train_loop_config={"epochs": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=RUN, failure_config=FailureConfig(max_failures=3)),
    ).fit()
