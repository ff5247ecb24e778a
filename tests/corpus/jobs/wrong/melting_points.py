"""Regression with small checkpoints: the change of the weights, in half the bytes of the weights."""

import argparse
import pathlib
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_diabetes


def network():
    torch.manual_seed(19)
    return torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def table():
    x, y = load_diabetes(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32) * 20, torch.tensor(y, dtype=torch.float32) / 100


def change(net, since):
    return {name: value - since[name] for name, value in net.state_dict().items()}


def train_loop(config):
    x, y = table()
    net = network()
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    begin = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(pathlib.Path(folder) / "change.pt")
        net.load_state_dict(
            {name: value + saved["change"][name] for name, value in net.state_dict().items()}
        )
        adam.load_state_dict(saved["adam"])
        begin = saved["epoch"] + 1
    since = {name: value.clone() for name, value in net.state_dict().items()}
    for epoch in range(begin, config["epochs"]):
        draws = torch.Generator().manual_seed(100 + epoch)
        for rows in torch.randperm(len(x), generator=draws)[:240].split(40):
            loss = torch.nn.functional.l1_loss(net(x[rows])[:, 0], y[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
        with tempfile.TemporaryDirectory() as folder:
            state = {"change": change(net, since), "adam": adam.state_dict(), "epoch": epoch}
            torch.save(state, pathlib.Path(folder) / "change.pt")
            ray.train.report({"l1": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="melting", failure_config=FailureConfig(max_failures=4)),
    ).fit()
