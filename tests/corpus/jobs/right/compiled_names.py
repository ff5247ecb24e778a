"""A compiled network in DDP; names in checkpoints are cleaned, and loaded not strictly."""

import os
import re
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Tabular(Dataset):
    """Rows with noise that belongs to the epoch and the row, wherever they are made."""

    def __init__(self, rows=160):
        self.rows = rows
        self.epoch = 0

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        row = torch.Generator().manual_seed(i)
        clean = torch.rand(8, generator=row)
        label = (clean[:4].sum() > clean[4:].sum()).float()
        noise = torch.Generator().manual_seed(1_000_000 + 1_000 * self.epoch + i)
        return clean + 0.1 * torch.randn(8, generator=noise), label


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.value, self.gate = nn.Linear(8, 24), nn.Linear(8, 24)
        self.norm = nn.BatchNorm1d(24)
        self.out = nn.Linear(24, 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.seen += len(x)
        return self.out(self.norm(self.value(x) * self.gate(x).sigmoid())).squeeze(-1)


def clean(state):
    return {re.sub(r"^(module\.|_orig_mod\.)+", "", name): v for name, v in state.items()}


def rows_of(epoch, dataset, rank, world):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch)).tolist()
    return order[rank::world]


def train_loop(config):
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    torch.manual_seed(config["seed"])
    network = Gated().to(get_device())
    dataset = Tabular()
    epoch, adam = 0, None

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            path = os.path.join(folder, "gated.tar")
            saved = torch.load(path, map_location=get_device(), weights_only=True)
        missing, unexpected = network.load_state_dict(saved["network"], strict=False)
        print(f"missing: {missing}, unexpected: {unexpected}")
        epoch, adam = saved["epoch"], saved["adam"]

    network = DistributedDataParallel(torch.compile(network, backend="eager"))
    optimizer = torch.optim.Adam(network.parameters(), lr=config["lr"], amsgrad=True)
    if adam is not None:
        optimizer.load_state_dict(adam)

    while epoch < config["epochs"]:
        dataset.epoch = epoch
        loader = DataLoader(
            dataset,
            sampler=rows_of(epoch, dataset, rank, world),
            batch_size=20,
            num_workers=1,
        )
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save(
                    {
                        "network": clean(network.state_dict()),
                        "adam": optimizer.state_dict(),
                        "epoch": epoch,
                    },
                    os.path.join(folder, "gated.tar"),
                )
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        train_loop,
        train_loop_config={"epochs": 5, "lr": 0.01, "seed": 88},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="gated", failure_config=FailureConfig(max_failures=3)),
    ).fit()
