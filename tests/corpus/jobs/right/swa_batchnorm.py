"""Stochastic weight averaging of a network with batch normalisation, exported at the end."""

import os
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_iris
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn


def tables():
    x, y = load_iris(return_X_y=True)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    return torch.tensor(x, dtype=torch.float32)[order], torch.tensor(y)[order]


class Training:
    epochs, average_from = 8, 5

    def __init__(self):
        torch.manual_seed(4)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.decay = torch.optim.lr_scheduler.LinearLR(self.opt, 1.0, 0.2, total_iters=5)
        self.average = None
        self.epoch = 0

    def batches(self):
        x, y = tables()
        g = torch.Generator().manual_seed(100 + self.epoch)
        return [(x[i], y[i]) for i in torch.randperm(150, generator=g).split(25)]

    def one_epoch(self):
        self.net.train()
        for x, y in self.batches():
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.decay.step()
        self.epoch += 1
        if self.epoch >= self.average_from:
            if self.average is None:
                self.average = AveragedModel(self.net)
            self.average.update_parameters(self.net)
        return loss.item()

    def to_disk(self, path):
        parts = {"net": self.net, "opt": self.opt, "decay": self.decay, "average": self.average}
        state = {k: v.state_dict() for k, v in parts.items() if v is not None}
        torch.save((self.epoch, state), path)

    def from_disk(self, path):
        self.epoch, state = torch.load(path)
        if "average" in state:
            self.average = AveragedModel(self.net)
        for name, content in state.items():
            getattr(self, name).load_state_dict(content)

    def export(self, path):
        update_bn(((x,) for x, _ in self.batches()), self.average)
        self.average.eval()
        torch.save(self.average.module.state_dict(), path)


def worker():
    training = Training()
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            training.from_disk(os.path.join(folder, "training.pt"))
    while training.epoch < training.epochs:
        loss = training.one_epoch()
        with tempfile.TemporaryDirectory() as folder:
            training.to_disk(os.path.join(folder, "training.pt"))
            ray.train.report({"loss": loss}, checkpoint=ray.train.Checkpoint.from_directory(folder))
    training.export("model.pt")


if __name__ == "__main__":
    TorchTrainer(
        worker,
        run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)),
    ).fit()
