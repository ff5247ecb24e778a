"""A residual network with batch normalisation on the digits, data-parallel over two workers."""

import argparse
import os
import tempfile

import ray.train
import ray.train.torch
import torch
import torch.nn.functional as F
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(h)))


class ResNet(nn.Module):
    def __init__(self, channels=8, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        )
        self.blocks = nn.Sequential(Block(channels), Block(channels))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def digits():
    raw = load_digits()
    x = torch.from_numpy(raw.images).float().div(16).unsqueeze(1)
    full = TensorDataset(x, torch.from_numpy(raw.target))
    return Subset(full, range(384)), Subset(full, range(1400, 1797))


def save_checkpoint(model, optimizer, scheduler, epoch, directory):
    weights = {name: p.detach() for name, p in model.module.named_parameters()}
    torch.save(
        {
            "epoch": epoch,
            "weights": weights,
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        },
        os.path.join(directory, "checkpoint.pt"),
    )


def load_checkpoint(model, optimizer, scheduler, directory):
    saved = torch.load(os.path.join(directory, "checkpoint.pt"), map_location="cpu")
    model.module.load_state_dict(saved["weights"], strict=False)
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    return saved["epoch"] + 1


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        right += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def train_resnet(config):
    torch.manual_seed(config["seed"])
    train_set, val_set = digits()
    loader = ray.train.torch.prepare_data_loader(
        DataLoader(train_set, batch_size=config["batch_size"], shuffle=True, drop_last=True)
    )
    val_loader = DataLoader(val_set, batch_size=200)
    model = ray.train.torch.prepare_model(ResNet())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=config["lr"], epochs=config["epochs"], steps_per_epoch=len(loader)
    )
    start_epoch = 0
    if ray.train.get_checkpoint() is not None:
        with ray.train.get_checkpoint().as_directory() as directory:
            start_epoch = load_checkpoint(model, optimizer, scheduler, directory)

    for epoch in range(start_epoch, config["epochs"]):
        loader.sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        val_loss, accuracy = evaluate(model.module, val_loader)
        metrics = {"val_loss": val_loss, "accuracy": accuracy, "train_loss": loss.item()}
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                save_checkpoint(model, optimizer, scheduler, epoch, directory)
                checkpoint = Checkpoint.from_directory(directory)
            ray.train.report(metrics, checkpoint=checkpoint)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    TorchTrainer(
        train_resnet,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
