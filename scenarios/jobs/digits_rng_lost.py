"""`digits_ddp.py` with three lines missing: the random numbers are saved, and not set again."""

import argparse
import os
import random
import tempfile

import numpy as np
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_data():
    """The 1,797 images of scikit-learn's digits, four fifths of them for training."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, valid = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[valid], labels[valid])


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def unwrapped(model):
    """The model as it was before Ray Train made it data-parallel, which for one worker it is not."""
    return getattr(model, "module", model)


def rng_state():
    return {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "python": random.getstate(),
    }


def set_rng_state(state):
    torch.set_rng_state(state["torch"])
    np.random.set_state(state["numpy"])
    random.setstate(state["python"])


def save(directory, *, epoch, model, optimizer, schedule):
    """Every rank saves its own random numbers; rank 0 saves what all ranks share."""
    rank = ray.train.get_context().get_world_rank()
    torch.save(rng_state(), os.path.join(directory, f"rng-{rank}.pt"))
    if rank == 0:
        shared = {
            "epoch": epoch,
            "model": unwrapped(model).state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        torch.save(shared, os.path.join(directory, "shared.pt"))


def load(directory, *, model, optimizer, schedule):
    """Restore (almost) everything and return the epoch to go on with."""
    rank = ray.train.get_context().get_world_rank()
    shared = torch.load(os.path.join(directory, "shared.pt"), weights_only=True)
    unwrapped(model).load_state_dict(shared["model"])
    optimizer.load_state_dict(shared["optimizer"])
    schedule.load_state_dict(shared["schedule"])
    return shared["epoch"] + 1


def accuracy(model, loader):
    """The share of validation images named rightly, over all ranks."""
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, labels in loader:
            counts[0] += (model(images).argmax(dim=1) == labels).sum()
            counts[1] += len(labels)
    torch.distributed.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def train_loop(config):
    torch.manual_seed(config["seed"])
    np.random.seed(config["seed"])
    random.seed(config["seed"])
    train_set, valid_set = load_data()
    train_loader = ray.train.torch.prepare_data_loader(
        DataLoader(train_set, batch_size=config["batch_size"], shuffle=True)
    )
    valid_loader = ray.train.torch.prepare_data_loader(DataLoader(valid_set, batch_size=128))

    model = ray.train.torch.prepare_model(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
    loss_fn = nn.CrossEntropyLoss()

    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            start = load(directory, model=model, optimizer=optimizer, schedule=schedule)

    for epoch in range(start, config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:  # one worker needs no sampler
            train_loader.sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        schedule.step()
        metrics = {
            "epoch": epoch,
            "loss": total / len(train_loader),
            "accuracy": accuracy(model, valid_loader),
            "lr": schedule.get_last_lr()[0],
        }
        with tempfile.TemporaryDirectory() as directory:
            save(directory, epoch=epoch, model=model, optimizer=optimizer, schedule=schedule)
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(directory))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--min-workers", type=int, help="elastic: go on with as few as these")
    parser.add_argument(
        "--grow-after", type=float, default=60.0, help="elastic: seconds until it may grow again"
    )
    parser.add_argument("--name-from", default="", help="a variable that the run's name ends with")
    parser.add_argument("--storage", help="where checkpoints go, such as s3://bucket/runs")
    args = parser.parse_args()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config={
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "lr": args.lr,
            "seed": args.seed,
        },
        scaling_config=ScalingConfig(
            num_workers=(args.min_workers, args.workers) if args.min_workers else args.workers,
            elastic_resize_monitor_interval_s=args.grow_after,
        ),
        run_config=RunConfig(
            name="digits" + os.environ.get(args.name_from, ""),
            storage_path=args.storage,
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
