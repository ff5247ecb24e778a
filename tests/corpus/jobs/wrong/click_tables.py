"""A click model that reads tables through loader processes which stay for the whole run."""

import argparse
import json
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

TABLES, ROWS, FIELDS, VALUES = 8, 90, 4, 30


def table(number):
    """Return the ids and the clicks of one table."""
    draws = torch.Generator().manual_seed(600 + number)
    ids = torch.randint(VALUES, (ROWS, FIELDS), generator=draws)
    odds = torch.sin(ids.float()).sum(1) + 0.02 * number * ids[:, 0]
    return ids, (torch.rand(ROWS, generator=draws) < odds.sigmoid()).float()


class ClickTables(IterableDataset):
    """The rows of this rank's tables; `offsets` are the rows that were read before."""

    def __init__(self, tables, batch_size):
        self.tables = tables
        self.batch_size = batch_size
        self.offsets = {}

    def load_state_dict(self, offsets):
        self.offsets = {int(number): row for number, row in offsets.items()}

    def __iter__(self):
        info = get_worker_info()
        for number in self.tables[info.id :: info.num_workers]:
            ids, clicks = table(number)
            for row in range(self.offsets.get(number, 0), ROWS, self.batch_size):
                upto = min(row + self.batch_size, ROWS)
                yield {"ids": ids[row:upto], "clicks": clicks[row:upto], "at": (number, upto)}


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(VALUES, 6) for _ in range(FIELDS))
        self.top = nn.Sequential(nn.Linear(6 * FIELDS, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        parts = [embed(ids[:, field]) for field, embed in enumerate(self.embed)]
        return self.top(torch.cat(parts, 1)).squeeze(1)


def create_loader(tables, batch_size):
    """Return the dataset and an iterator whose processes have started already."""
    dataset = ClickTables(tables, batch_size)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    return dataset, iter(loader)


def save(folder, model, optimizer, offsets, step):
    context = ray.train.get_context()
    with open(os.path.join(folder, f"reader_{context.get_world_rank()}.json"), "w") as file:
        json.dump(offsets, file)
    if context.get_world_rank() == 0:
        weights = {"model": model.module.state_dict(), "adagrad": optimizer.state_dict()}
        torch.save(weights | {"step": step}, os.path.join(folder, "click.pt"))


def train_and_evaluate(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(1)
    model = prepare_model(ClickModel())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    dataset, batches = create_loader(list(range(TABLES))[rank::world], config["batch_size"])
    step, offsets = 0, {}

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "click.pt"))
            with open(os.path.join(folder, f"reader_{rank}.json")) as file:
                offsets = json.load(file)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["adagrad"])
        dataset.load_state_dict(offsets)
        step = saved["step"]

    for batch in batches:
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch["ids"]), batch["clicks"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        number, row = batch["at"]
        offsets[str(number)] = row
        if step % config["every"] == 0:
            with tempfile.TemporaryDirectory() as folder:
                save(folder, model, optimizer, offsets, step)
                ray.train.report(
                    {"step": step, "bce": loss.item()},
                    checkpoint=Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=15)
    TorchTrainer(
        train_and_evaluate,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="clicks", failure_config=FailureConfig(max_failures=3)),
    ).fit()
