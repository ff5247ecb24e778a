"""A variational autoencoder that is saved whenever some time has gone by, wherever it then is."""

import argparse
import os
import tempfile
import time

import ray.train
import torch
from ray.train.torch import TorchTrainer
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv1d(1, 4, 4, stride=2), nn.ReLU(), nn.Flatten())
        self.stats = nn.Linear(28, 6)
        self.up = nn.Sequential(nn.Linear(3, 28), nn.ReLU(), nn.Linear(28, 16))

    def forward(self, x):
        mean, spread = self.stats(self.down(x.unsqueeze(1))).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * spread.exp()
        kl = 0.5 * (mean.square() + (2 * spread).exp() - 1 - 2 * spread).sum(1)
        return (self.up(z) - x).square().sum(1), kl


def curves(number):
    g = torch.Generator().manual_seed(number)
    a = torch.rand(32, 2, 1, generator=g)
    return torch.sin(torch.arange(16) * (0.3 + a[:, 0]) + 6 * a[:, 1])


class Clock:
    def __init__(self, every_s):
        self.every_s = every_s
        self.last = time.monotonic()

    def is_due(self):
        due = time.monotonic() - self.last >= self.every_s
        if due:
            self.last = time.monotonic()
        return due


def run(args):
    torch.manual_seed(args["seed"])
    vae = VAE()
    adam = torch.optim.Adam(vae.parameters(), lr=args["lr"])
    number = 0
    previous = ray.train.get_checkpoint()
    if previous:
        with previous.as_directory() as path:
            state = torch.load(os.path.join(path, "vae.pt"))
        vae.load_state_dict(state["vae"])
        adam.load_state_dict(state["adam"])
        torch.set_rng_state(state["rng"])
        number = state["number"]

    clock = Clock(args["save_every_s"])
    while number < args["batches"]:
        reconstruction, kl = vae(curves(number))
        beta = min(1.0, number / 60)
        loss = (reconstruction + beta * kl).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        number += 1
        if clock.is_due() or number == args["batches"]:
            with tempfile.TemporaryDirectory() as path:
                state = {
                    "vae": vae.state_dict(),
                    "adam": adam.state_dict(),
                    "rng": torch.get_rng_state(),
                    "number": number,
                }
                torch.save(state, os.path.join(path, "vae.pt"))
                ray.train.report(
                    {"loss": loss.item(), "beta": beta, "batches": number},
                    checkpoint=ray.train.Checkpoint.from_directory(path),
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=240)
    parser.add_argument("--save-every-s", type=float, default=0.15)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    TorchTrainer(
        run,
        train_loop_config=vars(parser.parse_args()),
        run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)),
    ).fit()
