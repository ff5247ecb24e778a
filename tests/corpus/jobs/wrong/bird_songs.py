"""Squeezes songs through a narrow code; reading and writing share one matrix, until it is read back."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn import functional as F


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow = nn.Parameter(torch.randn(3, 14) / 4)
        self.wide = self.narrow
        self.shift = nn.Parameter(torch.zeros(14))

    def forward(self, song):
        return torch.tanh(song @ self.narrow.T) @ self.wide + self.shift


def read_back(codec, folder):
    kept = torch.load(os.path.join(folder, "codec.pt"))
    for name, value in kept["codec"].items():
        setattr(codec, name, nn.Parameter(value))
    return kept["round"]


def sing(config):
    songs = torch.randn(120, 14, generator=torch.Generator().manual_seed(2)).cumsum(1)
    torch.manual_seed(11)
    codec, begun = Codec(), 0
    last = ray.train.get_checkpoint()
    if last is not None:
        with last.as_directory() as folder:
            begun = read_back(codec, folder)
    opt = torch.optim.SGD(codec.parameters(), lr=config["lr"])
    for turn in range(begun, config["rounds"]):
        for some in songs.roll(7 * turn, 0).split(15):
            error = F.mse_loss(codec(some), some)
            opt.zero_grad()
            error.backward()
            opt.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"codec": codec.state_dict(), "round": turn + 1}, os.path.join(folder, "codec.pt")
            )
            ray.train.report({"error": error.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        sing,
        train_loop_config={"rounds": 5, "lr": 0.02},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="songs", failure_config=FailureConfig(max_failures=4)),
    ).fit()
