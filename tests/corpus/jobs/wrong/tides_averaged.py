"""Forecasts tides with an LSTM; the weights of the last epochs are averaged (SWA) and shipped."""

import argparse
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel


def tides(n=320):
    t = torch.arange(n) / 6.0
    noise = torch.randn(n, generator=torch.Generator().manual_seed(44))
    return torch.cos(t) + 0.4 * torch.cos(t / 14.0) + 0.05 * noise


class TideNet(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.lstm(x.unsqueeze(-1))
        return self.head(out[:, -1]).squeeze(-1)


def shuffled(x, y, size, seed):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for part in order.split(size):
        yield x[part], y[part]


@torch.no_grad()
def rmse(model, x, y):
    return (model(x) - y).square().mean().sqrt().item()


def train_tides(config):
    torch.manual_seed(config["seed"])
    pieces = tides().unfold(0, 17, 2)
    x, y = pieces[:, :-1], pieces[:, -1]
    x_train, y_train, x_valid, y_valid = x[:112], y[:112], x[112:], y[112:]

    model = TideNet()
    swa_model = AveragedModel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    swa_scheduler = SWALR(optimizer, swa_lr=config["lr"] / 2, anneal_epochs=2)
    start = 0

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "tides.pt"))
        model.load_state_dict(state["model"])
        swa_model.module.load_state_dict(state["swa_model"])
        optimizer.load_state_dict(state["optimizer"])
        swa_scheduler.load_state_dict(state["swa_scheduler"])
        start = state["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        for a, b in shuffled(x_train, y_train, config["batch_size"], seed=epoch):
            loss = nn.functional.mse_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        averaging = epoch >= config["swa_start"]
        if averaging:
            swa_model.update_parameters(model)
            swa_scheduler.step()

        metrics = {"epoch": epoch, "loss": loss.item(), "rmse": rmse(model, x_valid, y_valid)}
        if averaging:
            metrics["swa_rmse"] = rmse(swa_model, x_valid, y_valid)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {
                    "model": model.state_dict(),
                    "swa_model": swa_model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "swa_scheduler": swa_scheduler.state_dict(),
                    "epoch": epoch,
                },
                os.path.join(folder, "tides.pt"),
            )
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--swa-start", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    TorchTrainer(
        train_tides,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="tides", failure_config=FailureConfig(max_failures=3)),
    ).fit()
