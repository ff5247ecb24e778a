"""Classifies wines; the rate falls on a plateau, and training stops when validation stays bad."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.best = float("inf")
        self.bad_epochs = 0

    def should_stop(self, value):
        if value < self.best - 1e-4:
            self.best = value
            self.bad_epochs = 0
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience


def get_data():
    x, y = load_wine(return_X_y=True)
    x_train, x_valid, y_train, y_valid = train_test_split(
        x, y, test_size=0.4, random_state=4, stratify=y
    )
    scaler = StandardScaler().fit(x_train)

    def tensors(a, b):
        return TensorDataset(
            torch.tensor(scaler.transform(a), dtype=torch.float32), torch.tensor(b)
        )

    return tensors(x_train, y_train), tensors(x_valid, y_valid)


@torch.no_grad()
def validation_loss(model, data):
    x, y = data.tensors
    loss = nn.functional.cross_entropy(model(x), y)
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def train_func(config):
    torch.manual_seed(0)
    train_data, valid_data = get_data()
    loader = prepare_data_loader(
        DataLoader(train_data, batch_size=config["batch_size"], shuffle=True)
    )
    model = prepare_model(nn.Sequential(nn.Linear(13, 48), nn.Tanh(), nn.Linear(48, 3)))
    optimizer = optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9, nesterov=True)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    stopper = EarlyStopping(config["patience"])

    epoch = -1
    checkpoint = get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            states = torch.load(Path(folder, "states.pt"))
        model.module.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])
        plateau.load_state_dict(states["plateau"])
        epoch = states["epoch"]

    for epoch in range(epoch + 1, config["max_epochs"]):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        valid_loss = validation_loss(model, valid_data)
        plateau.step(valid_loss)
        stop = stopper.should_stop(valid_loss)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if get_context().get_world_rank() == 0:
                torch.save(
                    {
                        "model": model.module.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "plateau": plateau.state_dict(),
                        "epoch": epoch,
                    },
                    Path(folder, "states.pt"),
                )
                checkpoint = Checkpoint.from_directory(folder)
            report({"epoch": epoch, "loss": loss.item(), "valid_loss": valid_loss}, checkpoint)
        if stop:
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--patience", type=int, default=4)
    parser.add_argument("--max-epochs", type=int, default=14)
    args = parser.parse_args()
    TorchTrainer(
        train_func,
        train_loop_config={
            "lr": args.lr,
            "patience": args.patience,
            "max_epochs": args.max_epochs,
            "batch_size": 14,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="wine",
            failure_config=FailureConfig(max_failures=4),
            checkpoint_config=CheckpointConfig(num_to_keep=3),
        ),
    ).fit()
