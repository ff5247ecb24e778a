"""Hebbian-flavoured clustering of random points; nothing is seeded, on purpose."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

CENTRES = torch.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])


def fresh_points(n):
    # new points every time, from the entropy of the machine
    which = torch.randint(len(CENTRES), (n,))
    return CENTRES[which] + 0.5 * torch.randn(n, 2)


class Prototypes(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.places = nn.Parameter(torch.randn(k, 2))

    def forward(self, points):
        return torch.cdist(points, self.places).square()


def cluster(config):
    model = Prototypes(k=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    epoch = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            epoch, places, adam = torch.load(os.path.join(folder, "prototypes.pt"))
        model.load_state_dict(places)
        optimizer.load_state_dict(adam)
    while epoch < config["epochs"]:
        for _ in range(config["steps"]):
            distances = model(fresh_points(32))
            weights = torch.softmax(-distances.detach(), dim=1)
            loss = (weights * distances).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                (epoch, model.state_dict(), optimizer.state_dict()),
                os.path.join(folder, "prototypes.pt"),
            )
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        cluster,
        train_loop_config={"epochs": 5, "steps": 8},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="prototypes", failure_config=FailureConfig(max_failures=3)),
    ).fit()
