"""Forecasts walnut crops; lazy layers take their widths from a dry run at each start."""

import tempfile
from pathlib import Path

import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch import nn


def orchard(trees=144):
    g = torch.Generator().manual_seed(44)
    sun, rain = torch.rand(trees, 4, generator=g), torch.rand(trees, 3, generator=g)
    return sun, rain, sun.mean(1, keepdim=True) * rain.amax(1, keepdim=True)


class Crop(nn.Module):
    def __init__(self):
        super().__init__()
        self.sun, self.rain, self.both = nn.LazyLinear(8), nn.LazyLinear(6), nn.LazyLinear(1)

    def forward(self, sun, rain):
        read = torch.cat([self.sun(sun), self.rain(rain)], 1).relu()
        return {"crop": self.both(read), "read": read}


def grow(config):
    torch.manual_seed(17)
    sun, rain, due = orchard()
    crop = Crop()
    shapes = {name: tuple(found.shape) for name, found in crop(sun[:2] * 0, rain[:2] * 0).items()}
    optimizer = torch.optim.NAdam(crop.parameters(), lr=config["lr"])
    year = 0
    if train.get_checkpoint():
        with train.get_checkpoint().as_directory() as folder:
            state = torch.load(Path(folder, "walnut.pt"))
        crop.load_state_dict(state["crop"])
        optimizer.load_state_dict(state["optimizer"])
        year = state["year"]
    for year in range(year + 1, config["years"] + 1):
        order = torch.randperm(len(due), generator=torch.Generator().manual_seed(year))
        for rows in order.split(24):
            found = crop(sun[rows], rain[rows])
            loss = (found["crop"] - due[rows]).square().mean() + 1e-4 * found["read"].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            state = {"crop": crop.state_dict(), "optimizer": optimizer.state_dict(), "year": year}
            torch.save(state, Path(folder, "walnut.pt"))
            told = {"loss": loss.item(), "width": shapes["read"][1]}
            train.report(told, checkpoint=train.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        grow,
        train_loop_config={"years": 8, "lr": 0.01},
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
