"""Poisson regression with a warm-up over steps and a decay after it, in plain arithmetic."""

import argparse
import json
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

DAYS, BATCH, WARM = 160, 20, 12


def days():
    draws = torch.Generator().manual_seed(31)
    weather = torch.rand(DAYS, 4, generator=draws)
    rate = torch.exp(weather @ torch.tensor([1.2, -0.7, 0.4, 0.9]))
    return weather, torch.poisson(rate, generator=draws)


def rate_of(step):
    return 0.05 * min((step + 1) / WARM, (WARM / (step + 1)) ** 0.5)


def train_loop(config):
    weather, counts = days()
    torch.manual_seed(2)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=rate_of(0))
    begun_at, epoch = 0, 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
            optimizer.load_state_dict(torch.load(os.path.join(folder, "optimizer.pt")))
            with open(os.path.join(folder, "progress.json")) as file:
                progress = json.load(file)
        begun_at, epoch = progress["steps"], progress["epochs"]
    steps = 0
    while epoch < config["epochs"]:
        order = torch.randperm(DAYS, generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(BATCH):
            for group in optimizer.param_groups:
                group["lr"] = rate_of(begun_at + steps)
            loss = torch.nn.functional.poisson_nll_loss(model(weather[rows])[:, 0], counts[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        epoch += 1
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            torch.save(optimizer.state_dict(), os.path.join(folder, "optimizer.pt"))
            with open(os.path.join(folder, "progress.json"), "w") as file:
                json.dump({"steps": steps, "epochs": epoch}, file)
            ray.train.report({"nll": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="pollen", failure_config=FailureConfig(max_failures=4)),
    ).fit()
