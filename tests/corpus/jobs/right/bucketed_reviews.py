"""Rates reviews of very different lengths, in buckets; the sampler can be saved in mid-epoch."""

import os
import random
import tempfile
from collections import Counter

import numpy as np
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

GOOD = "great lovely superb fun warm clever moving fresh".split()
BAD = "dull awful slow weak stale noisy boring cold".split()
NEUTRAL = "the film plot actor scene music and a with of it".split()


class Reviews(Dataset):
    def __init__(self, n=192):
        rnd = random.Random(2718)
        self.texts, self.labels = [], []
        for _ in range(n):
            label = rnd.randint(0, 1)
            words = rnd.choices(NEUTRAL, k=rnd.randint(1, 14))
            words += rnd.choices(GOOD if label else BAD, k=rnd.randint(1, 4))
            rnd.shuffle(words)
            self.texts.append(words)
            self.labels.append(label)
        counts = Counter(word for words in self.texts for word in words)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        self.numbers = {word: i + 1 for i, word in enumerate(ranked)}

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return torch.tensor([self.numbers[w] for w in self.texts[i]]), self.labels[i]


class BucketBatches:
    """Batches of like lengths, in an order of each rank's own; remembers what is still to come."""

    def __init__(self, lengths, batch_size, rank, world):
        self.mine = [i for i in range(len(lengths)) if i % world == rank]
        self.lengths, self.batch_size = lengths, batch_size
        self.rng = np.random.default_rng([rank, 99])
        self.to_come = []

    def __iter__(self):
        if not self.to_come:
            jitter = self.rng.random(len(self.mine))
            order = sorted(
                range(len(self.mine)), key=lambda k: self.lengths[self.mine[k]] + jitter[k]
            )
            ids = [self.mine[k] for k in order]
            self.to_come = [
                ids[i : i + self.batch_size] for i in range(0, len(ids), self.batch_size)
            ]
            self.rng.shuffle(self.to_come)
        while self.to_come:
            yield self.to_come.pop()

    def state_dict(self):
        return {"rng": self.rng.bit_generator.state, "to_come": [list(b) for b in self.to_come]}

    def load_state_dict(self, state):
        self.rng.bit_generator.state = state["rng"]
        self.to_come = state["to_come"]


def collate(items):
    texts, labels = zip(*items)
    return pad_sequence(texts, batch_first=True), torch.tensor(labels)


class Rater(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words + 1, 12, padding_idx=0)
        self.attention = nn.Linear(12, 1)
        self.out = nn.Linear(12, 2)

    def forward(self, ids):
        x = self.embedding(ids)
        weights = self.attention(x).masked_fill((ids == 0).unsqueeze(-1), -1e9).softmax(1)
        return self.out((weights * x).sum(1))


def train_rater(config):
    context = ray.train.get_context()
    rank = context.get_world_rank()
    torch.manual_seed(1)
    reviews = Reviews()
    lengths = [len(t) for t in reviews.texts]
    batches = BucketBatches(lengths, config["batch_size"], rank, context.get_world_size())
    loader = DataLoader(
        reviews, batch_sampler=batches, collate_fn=collate, generator=torch.Generator()
    )
    net = Rater(len(reviews.numbers))
    ddp = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.02)
    epoch = steps = 0

    def save():
        with tempfile.TemporaryDirectory() as folder:
            torch.save(batches.state_dict(), os.path.join(folder, f"sampler.{rank}"))
            if rank == 0:
                torch.save(
                    (net.state_dict(), optimizer.state_dict(), epoch, steps),
                    os.path.join(folder, "shared"),
                )
            ray.train.report(
                {"epoch": epoch, "steps": steps, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
            )

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            weights, moments, epoch, steps = torch.load(os.path.join(folder, "shared"))
            batches.load_state_dict(
                torch.load(os.path.join(folder, f"sampler.{rank}"), weights_only=False)
            )
        net.load_state_dict(weights)
        optimizer.load_state_dict(moments)

    while epoch < config["epochs"]:
        for ids, labels in loader:
            loss = nn.functional.cross_entropy(ddp(ids), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps % config["save_every"] == 0 and batches.to_come:
                save()
        epoch += 1
        if epoch == config["epochs"]:
            save()


if __name__ == "__main__":
    TorchTrainer(
        train_rater,
        train_loop_config={"epochs": 4, "batch_size": 12, "save_every": 5},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="reviews", failure_config=FailureConfig(max_failures=3)),
    ).fit()
