"""Snapshot ensembling: a cyclic learning rate, and a member for the ensemble at the end of each cycle."""

import argparse
import copy
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_wine
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts


def wine():
    table = load_wine()
    x = torch.tensor(table.data, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    return x, torch.tensor(table.target)


def main(config):
    torch.manual_seed(config["seed"])
    x, y = wine()
    net = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=config["lr"], momentum=0.9, weight_decay=1e-4)
    schedule = CosineAnnealingWarmRestarts(optimizer, T_0=config["cycle"])
    members = []
    begin = 0

    latest = ray.train.get_checkpoint()
    if latest:
        with latest.as_directory() as d:
            state = torch.load(os.path.join(d, "state.pt"), weights_only=False)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["rng"])
        begin = state["epoch"] + 1

    for epoch in range(begin, config["epochs"]):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(x)).tensor_split(6):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        schedule.step()
        if (epoch + 1) % config["cycle"] == 0:
            members.append(copy.deepcopy(net.state_dict()))
        with tempfile.TemporaryDirectory() as d:
            torch.save(
                {
                    "net": net.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "rng": torch.get_rng_state(),
                    "epoch": epoch,
                },
                os.path.join(d, "state.pt"),
            )
            ray.train.report(
                {"loss": total / len(x), "lr": schedule.get_last_lr()[0]},
                checkpoint=Checkpoint.from_directory(d),
            )

    torch.save(members, "ensemble.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--cycle", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    trainer = TorchTrainer(
        main,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    )
    result = trainer.fit()
    print("last loss", result.metrics["loss"])
