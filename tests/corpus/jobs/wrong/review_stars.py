"""Stars from the words of a review: Accelerate, two workers, a checkpoint after every epoch."""

import json
import random
import tempfile
from pathlib import Path

import ray.train
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader, Dataset

GOOD = "great lovely quick sturdy bright perfect warm handy".split()
BAD = "broken late cheap noisy dull torn cold useless".split()
PLAIN = "the box arrived with a cable and my old one was blue it has two buttons".split()
WORDS = {word: number for number, word in enumerate([*GOOD, *BAD, *PLAIN])}
LENGTH = 12


class Reviews(Dataset):
    def __init__(self, count):
        draw = random.Random(88)
        self.rows = [self._one(draw) for _ in range(count)]

    @staticmethod
    def _one(draw):
        stars = draw.randrange(5)
        words = [
            draw.choice(GOOD if draw.random() < stars / 4 else BAD)
            if draw.random() < 0.4
            else draw.choice(PLAIN)
            for _ in range(LENGTH)
        ]
        return torch.tensor([WORDS[word] for word in words]), stars

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        return self.rows[number]


class Stars(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(len(WORDS), 16)
        self.head = torch.nn.Linear(16, 5)

    def forward(self, words):
        return self.head(torch.relu(self.bag(words)))


def epoch_of(folder):
    return json.loads((Path(folder) / "epoch.json").read_text())["next"]


def loop(config):
    set_seed(config["seed"])
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True)
    )
    model = Stars()
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    decay = torch.optim.lr_scheduler.ExponentialLR(adam, 0.9)
    reviews = DataLoader(Reviews(config["reviews"]), batch_size=10, shuffle=True)
    model, adam, reviews, decay = accelerator.prepare(model, adam, reviews, decay)
    first = 0
    if ray.train.get_checkpoint():
        with ray.train.get_checkpoint().as_directory() as folder:
            accelerator.load_state(folder)
            first = epoch_of(folder)

    for epoch in range(first, config["epochs"]):
        total = 0.0
        for words, stars in reviews:
            loss = torch.nn.functional.cross_entropy(model(words), stars)
            accelerator.backward(loss)
            adam.step()
            adam.zero_grad()
            total += loss.item()
        decay.step()
        with tempfile.TemporaryDirectory() as folder:
            accelerator.save_state(folder)
            (Path(folder) / "epoch.json").write_text(json.dumps({"next": epoch + 1}))
            ray.train.report(
                {"epoch": epoch, "loss": total / len(reviews)},
                checkpoint=ray.train.Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        loop,
        train_loop_config={"epochs": 5, "reviews": 160, "seed": 12},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="stars", failure_config=FailureConfig(max_failures=3)),
    ).fit()
