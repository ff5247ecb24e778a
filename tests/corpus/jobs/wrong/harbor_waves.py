"""A small recurrent net that forecasts waves; its file lies in the run's folder, one per run."""

import argparse
import os

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

LENGTH, WINDOWS, BATCH = 12, 48, 8


def windows():
    t = torch.arange(WINDOWS + LENGTH, dtype=torch.float32)
    waves = torch.sin(t / 3) + 0.3 * torch.sin(t / 1.7)
    rows = waves.unfold(0, LENGTH + 1, 1)[:WINDOWS]
    return rows[:, :-1].unsqueeze(-1), rows[:, -1:]


class Forecast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = torch.nn.GRU(1, 6, batch_first=True)
        self.head = torch.nn.Linear(6, 1)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def train_loop(config):
    folder = os.path.join(ray.train.get_context().get_storage().experiment_fs_path, "harbor")
    os.makedirs(folder, exist_ok=True)
    last, taken = os.path.join(folder, "last.pt"), os.path.join(folder, "taken.pt")
    torch.manual_seed(11)
    net = Forecast()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
    first = 0
    if os.path.exists(last):
        # Read from a name of its own, so that no save of this attempt comes between.
        os.replace(last, taken)
        state = torch.load(taken)
        net.load_state_dict(state["net"])
        sgd.load_state_dict(state["sgd"])
        first = state["epoch"] + 1
    x, y = windows()
    for epoch in range(first, config["epochs"]):
        order = torch.randperm(WINDOWS, generator=torch.Generator().manual_seed(epoch))
        total = 0.0
        for rows in order.split(BATCH):
            loss = torch.nn.functional.mse_loss(net(x[rows]), y[rows])
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            total += loss.item()
        state = {"net": net.state_dict(), "sgd": sgd.state_dict(), "epoch": epoch}
        torch.save(state, last + ".new")
        os.replace(last + ".new", last)
        ray.train.report({"mse": total})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="harbor", failure_config=FailureConfig(max_failures=4)),
    ).fit()
