"""Digits through a loader with processes of its own; an error of theirs is raised, or not."""

import argparse
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def load_data():
    digits = load_digits()
    return TensorDataset(
        torch.tensor(digits.data / 16.0, dtype=torch.float32),
        torch.tensor(digits.target, dtype=torch.int64),
    )


def batches_of(loader, *, on_error):
    """Yield as many batches as the loader has, so that all ranks make as many steps.

    With `on_error` "begin-anew" an error of the loader is not raised: a new iterator takes its place.
    """
    iterator = iter(loader)
    for _ in range(len(loader)):
        try:
            yield next(iterator)
        except RuntimeError as error:
            if on_error == "raise":
                raise
            print(f"the loader failed, and begins anew: {error}")
            iterator = iter(loader)
            yield next(iterator)


def train_loop(config):
    context = ray.train.get_context()
    torch.manual_seed(config["seed"])
    dataset = load_data()
    sampler = DistributedSampler(dataset, context.get_world_size(), context.get_world_rank())
    loader = DataLoader(
        dataset,
        batch_size=config["batch_size"],
        sampler=sampler,
        drop_last=True,
        num_workers=config["loader_processes"],
        generator=torch.Generator().manual_seed(config["seed"]),
    )
    network = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    model = ray.train.torch.prepare_model(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "digits.pt"))
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        sampler.set_epoch(epoch)
        for images, labels in batches_of(loader, on_error=config["on_error"]):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            if context.get_world_rank() == 0:
                saved = {
                    "network": network.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                }
                torch.save(saved, os.path.join(folder, "digits.pt"))
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder)
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="per worker")
    parser.add_argument("--loader-processes", type=int, default=2)
    parser.add_argument("--on-error", choices=["raise", "begin-anew"], default="raise")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="digits", failure_config=FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
