"""Train a ResNet-18 on images, as in Ray Train's introduction, on digits enlarged to 28 x 28.

The network is written out, so that torch is all that it needs. It checkpoints at the end of
every epoch and resumes from whatever checkpoint Ray Train hands it.
"""

import argparse
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BasicBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18(width, classes):
    """The eighteen layers of He et al. (2015), for one channel; `width` is 64 in the paper."""
    layers = [
        nn.Conv2d(1, width, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    before = width
    for stage in range(4):
        after = width * 2**stage
        layers += [BasicBlock(before, after, 1 if stage == 0 else 2), BasicBlock(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def load_data(count):
    digits = load_digits()
    images = torch.tensor(digits.images[:count] / 16.0, dtype=torch.float32).unsqueeze(1)
    images = nn.functional.interpolate(images, size=28, mode="bilinear")
    return TensorDataset(images, torch.tensor(digits.target[:count], dtype=torch.int64))


def train_loop(config):
    torch.manual_seed(config["seed"])
    loader = ray.train.torch.prepare_data_loader(
        DataLoader(load_data(config["images"]), batch_size=config["batch_size"], shuffle=True)
    )
    model = ray.train.torch.prepare_model(resnet18(config["width"], classes=10))
    plain = getattr(model, "module", model)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    loss_fn = nn.CrossEntropyLoss()

    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            saved = torch.load(
                os.path.join(directory, "checkpoint.pt"), map_location=ray.train.torch.get_device()
            )
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        metrics = {"epoch": epoch, "loss": total / len(loader)}
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                saved = {
                    "epoch": epoch,
                    "model": plain.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                torch.save(saved, os.path.join(directory, "checkpoint.pt"))
                checkpoint = Checkpoint.from_directory(directory)
            ray.train.report(metrics, checkpoint=checkpoint)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=256, help="of scikit-learn's 1,797 digits")
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(
            name="digits-resnet18",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
