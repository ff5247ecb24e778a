"""A spam filter on hashed words; rank 0 keeps a table of all epochs for the plots."""

import csv
import os
import random
import tempfile
import zlib

import torch
import torch.distributed as dist
from ray.train import (
    Checkpoint,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from ray.train.torch import TorchTrainer

BUCKETS = 64
LOG = os.path.join(tempfile.gettempdir(), "spam-filter", "history.csv")
HAM = "meeting lunch report project deadline family photos thanks tomorrow notes".split()
SPAM = "winner free prize click casino pills offer limited credit urgent".split()


def mails(n, seed):
    rnd = random.Random(seed)
    for _ in range(n):
        is_spam = rnd.random() < 0.5
        pool = SPAM + HAM[:4] if is_spam else HAM + SPAM[:4]
        yield rnd.choices(pool, k=7), float(is_spam)


def hashed(words):
    row = torch.zeros(BUCKETS)
    for word in words:
        row[zlib.crc32(word.encode()) % BUCKETS] += 1
    return row


class History:
    def __init__(self, path, columns):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = open(path, "w", newline="")
        self.table = csv.DictWriter(self.file, columns)
        self.table.writeheader()

    def add(self, **row):
        self.table.writerow(row)
        self.file.flush()


def train_filter():
    rank, world = get_context().get_world_rank(), get_context().get_world_size()
    torch.manual_seed(50)
    rows = list(mails(320, seed=1))[rank::world]
    x = torch.stack([hashed(words) for words, _ in rows])
    y = torch.tensor([label for _, label in rows])
    weight = torch.nn.Parameter(torch.zeros(BUCKETS))
    bias = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.Adamax([weight, bias], lr=0.05)
    epoch = 0

    checkpoint = get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "filter.pt"))
        with torch.no_grad():
            weight.copy_(saved["weight"])
            bias.copy_(saved["bias"])
        optimizer.load_state_dict(saved["optimizer"])
        epoch = saved["epoch"]

    history = History(LOG, ["epoch", "loss", "accuracy"]) if rank == 0 else None
    while epoch < 7:
        order = list(range(len(x)))
        random.Random(f"{rank}/{epoch}").shuffle(order)
        sums = torch.zeros(2)
        for at in range(0, len(order), 20):
            picked = order[at : at + 20]
            score = x[picked] @ weight + bias
            loss = torch.nn.functional.binary_cross_entropy_with_logits(score, y[picked])
            optimizer.zero_grad()
            loss.backward()
            for p in (weight, bias):
                dist.all_reduce(p.grad)
                p.grad /= world
            optimizer.step()
            sums += torch.tensor([loss.item(), ((score > 0) == y[picked].bool()).float().mean()])
        dist.all_reduce(sums)
        mean_loss, accuracy = (sums / world / (len(order) / 20)).tolist()
        epoch += 1
        metrics = {"epoch": epoch, "loss": mean_loss, "accuracy": accuracy}
        if rank:
            report({"epoch": epoch})
            continue
        history.add(**metrics)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {
                    "weight": weight.detach(),
                    "bias": bias.detach(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                },
                os.path.join(folder, "filter.pt"),
            )
            report(metrics, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_filter,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="spam-filter", failure_config=FailureConfig(max_failures=2)),
    ).fit()
