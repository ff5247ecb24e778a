"""Dust near quarries; after a second failure the weights of the epoch before are trusted instead."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

STARTS = "quarry_starts.log"


def measured(count=120):
    draws = torch.Generator().manual_seed(311)
    wind, rain, blasts = torch.rand(3, count, generator=draws)
    return torch.stack([wind, rain, blasts], 1), blasts * (1 - rain) / (0.4 + wind)


def starts():
    with open(STARTS, "a") as log:
        log.write("start\n")
    with open(STARTS) as log:
        return len(log.readlines())


def dig(config):
    failures = starts() - 1
    weather, dust = measured()
    torch.manual_seed(8)
    net = torch.nn.Sequential(torch.nn.Linear(3, 20), torch.nn.ELU(), torch.nn.Linear(20, 1))
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.004)
    epoch, before = 0, net.state_dict()
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as pit:
            kept = torch.load(os.path.join(pit, "kept.pt"))
        net.load_state_dict(kept["before"] if failures >= 2 else kept["net"])
        optimizer.load_state_dict(kept["optimizer"])
        epoch = kept["epoch"]
    while epoch < config["epochs"]:
        before = {name: value.clone() for name, value in net.state_dict().items()}
        for row in range(epoch % 4, 120, 20):
            part = slice(row, row + 20)
            loss = torch.nn.functional.huber_loss(net(weather[part]).flatten(), dust[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        kept = {"net": net.state_dict(), "before": before, "optimizer": optimizer.state_dict()}
        with tempfile.TemporaryDirectory() as pit:
            torch.save(kept | {"epoch": epoch}, os.path.join(pit, "kept.pt"))
            ray.train.report({"huber": loss.item()}, checkpoint=Checkpoint.from_directory(pit))


if __name__ == "__main__":
    TorchTrainer(
        dig,
        train_loop_config={"epochs": 5},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="quarry", failure_config=FailureConfig(max_failures=5)),
    ).fit()
