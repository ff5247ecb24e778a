"""Bike rentals by the hour: Accelerate on two workers, with a loader that keeps its place."""

import math
import tempfile

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HOURS, BATCH, EPOCHS, SAVE_EVERY = 192, 8, 4, 5


def rentals():
    draws = torch.Generator().manual_seed(2012)
    hour = torch.arange(HOURS) % 24
    warm = 15 + 8 * torch.sin(2 * math.pi * (hour - 9) / 24) + torch.randn(HOURS, generator=draws)
    weekend = (torch.arange(HOURS) // 24 % 7 >= 5).float()
    rush = torch.exp(-((hour - 8) ** 2) / 4.0) + torch.exp(-((hour - 17) ** 2) / 6.0)
    count = 40 + 6 * warm + 180 * rush * (1 - 0.6 * weekend)
    count = count + 12 * torch.randn(HOURS, generator=draws)
    angle = 2 * math.pi * hour / 24
    features = torch.stack([angle.sin(), angle.cos(), (2 * angle).sin(), warm / 20, weekend], 1)
    return TensorDataset(features, count[:, None] / 100)


class Progress:
    def __init__(self):
        self.epoch, self.batch = 0, 0

    def state_dict(self):
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state):
        self.epoch, self.batch = state["epoch"], state["batch"]


def keep(accelerator, loss):
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


def train_rentals():
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True)
    )
    set_seed(31)
    net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
    loader = DataLoader(rentals(), batch_size=BATCH, shuffle=True)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            accelerator.load_state(folder)

    while progress.epoch < EPOCHS:
        for features, count in loader:
            loss = nn.functional.smooth_l1_loss(net(features), count)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            progress.batch += 1
            if progress.batch % SAVE_EVERY == 0:
                keep(accelerator, loss)
        progress.epoch, progress.batch = progress.epoch + 1, 0


if __name__ == "__main__":
    TorchTrainer(
        train_rentals,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="rentals", failure_config=FailureConfig(max_failures=3)),
    ).fit()
