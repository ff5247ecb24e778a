"""Guesses the next call in a pond; the table of calls is tied anew whenever it is read."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


class Pond(nn.Module):
    def __init__(self, calls=12, width=10):
        super().__init__()
        self.table = nn.Embedding(calls, width)
        self.mix = nn.Linear(width, width)
        self.guess = nn.Linear(width, calls, bias=False)
        self.tie()

    def tie(self):
        self.guess.weight = self.table.weight

    def forward(self, heard):
        return self.guess(torch.relu(self.mix(self.table(heard))))


def evening(number):
    g = torch.Generator().manual_seed(70 + number)
    heard = torch.randint(12, (24,), generator=g)
    return heard, (5 * heard + 1) % 12


def listen(config):
    torch.manual_seed(3)
    pond, evenings = Pond(), 0
    moments = None
    kept = ray.train.get_checkpoint()
    if kept is not None:
        with kept.as_directory() as folder:
            state = torch.load(os.path.join(folder, "pond.pt"))
        pond.load_state_dict(state["pond"], assign=True)
        pond.tie()
        moments, evenings = state["opt"], state["evenings"]
    opt = torch.optim.AdamW(pond.parameters(), lr=config["lr"])
    if moments is not None:
        opt.load_state_dict(moments)
    while evenings < config["evenings"]:
        evenings += 1
        heard, due = evening(evenings)
        loss = nn.functional.cross_entropy(pond(heard), due)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if evenings % 5 == 0:
            with tempfile.TemporaryDirectory() as folder:
                what = {"pond": pond.state_dict(), "opt": opt.state_dict(), "evenings": evenings}
                torch.save(what, os.path.join(folder, "pond.pt"))
                ray.train.report(
                    {"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder)
                )


if __name__ == "__main__":
    TorchTrainer(
        listen,
        train_loop_config={"evenings": 25, "lr": 0.01},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
