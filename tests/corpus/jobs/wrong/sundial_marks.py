"""Marks on a sundial; the driver looks for the newest marks when a day fails, and sends them on."""

import glob
import os

import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

STONES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sundial-stones")


def carve(config):
    torch.manual_seed(9)
    dial = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.SiLU(), torch.nn.Linear(8, 2))
    chisel = torch.optim.NAdam(dial.parameters(), lr=0.03)
    day = 0
    if config["stone"] is not None:
        day, shape, edge = torch.load(config["stone"])
        dial.load_state_dict(shape)
        chisel.load_state_dict(edge)
    while day < 7:
        sun = torch.Generator().manual_seed(600 + day)
        for _ in range(4):
            rays = torch.rand(12, 3, generator=sun)
            gap = (dial(rays) - rays[:, :2].cos() * rays[:, 2:]).square().sum()
            chisel.zero_grad()
            gap.backward()
            chisel.step()
        day += 1
        stone = os.path.join(STONES, f"{day:03}.stone")
        torch.save((day, dial.state_dict(), chisel.state_dict()), stone + "~")
        os.rename(stone + "~", stone)
        ray.train.report({"day": day, "gap": gap.item()})


def newest():
    found = sorted(glob.glob(os.path.join(STONES, "*.stone")))
    return found[-1] if found else None


def main():
    os.makedirs(STONES, exist_ok=True)
    stone = newest()
    for week in range(6):
        try:
            TorchTrainer(
                carve,
                train_loop_config={"stone": stone},
                scaling_config=ScalingConfig(num_workers=1),
                run_config=RunConfig(name=f"sundial-{week}"),
            ).fit()
        except ray.train.TrainingFailedError:
            stone = stone or newest()
            continue
        break
    else:
        raise SystemExit("the sundial was given up")


if __name__ == "__main__":
    main()
