"""Guesses almond prices; a first look at the data sets the widths of lazy layers."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.functional import smooth_l1_loss


def market(days=160):
    g = torch.Generator().manual_seed(21)
    stock = torch.rand(days, 5, generator=g)
    return stock, stock.prod(1, keepdim=True).pow(0.3)


class Weeks:
    """Batches of days without an end, in an order of each pass's own."""

    def __init__(self, days, size):
        self.days, self.size, self.given = days, size, 0

    def draw(self):
        number, at = divmod(self.given, self.days // self.size)
        order = torch.randperm(self.days, generator=torch.Generator().manual_seed(number))
        self.given += 1
        return order[at * self.size :][: self.size]


def trade(config):
    torch.manual_seed(29)
    stock, price = market()
    guess = nn.Sequential(nn.LazyLinear(12), nn.ELU(), nn.LazyLinear(1))
    weeks, done = Weeks(len(price), config["size"]), 0
    kept = ray.train.get_checkpoint()
    if kept:
        with kept.as_directory() as folder:
            state = torch.load(os.path.join(folder, "almonds.pt"))
        done, weeks.given = state["done"], state["given"]
    guess(stock[weeks.draw()])
    optimizer = torch.optim.RMSprop(guess.parameters(), lr=3e-3)
    if kept:
        guess.load_state_dict(state["guess"])
        optimizer.load_state_dict(state["optimizer"])
    while done < config["batches"]:
        rows = weeks.draw()
        optimizer.zero_grad()
        loss = smooth_l1_loss(guess(stock[rows]), price[rows])
        loss.backward()
        optimizer.step()
        done += 1
        if done % 6 == 0:
            with tempfile.TemporaryDirectory() as folder:
                whole = {"done": done, "given": weeks.given, "guess": guess.state_dict()}
                whole["optimizer"] = optimizer.state_dict()
                torch.save(whole, os.path.join(folder, "almonds.pt"))
                ray.train.report(
                    {"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder)
                )


if __name__ == "__main__":
    TorchTrainer(
        trade,
        train_loop_config={"size": 16, "batches": 42},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
