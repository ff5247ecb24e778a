"""Which line a short post about trains is about; posts come as a shuffled stream of four files."""

import random
import tempfile
import zlib
from pathlib import Path

import datasets
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

ABOUT = {
    "north": "bridge harbour ferry wind gulls".split(),
    "south": "market castle garden festival wine".split(),
    "ring": "office school traffic tower lunch".split(),
}
ANY = "the train was late again today and i waited near a platform for my friend".split()
BUCKETS = 64


def posts(parts):
    for part in parts:
        draw = random.Random(1000 + part)
        for _ in range(30):
            line = draw.randrange(3)
            words = [
                draw.choice(list(ABOUT.values())[line] if draw.random() < 0.35 else ANY)
                for _ in range(9)
            ]
            yield {"text": " ".join(words), "line": line}


def hashed(row):
    counts = [0.0] * BUCKETS
    for word in row["text"].split():
        counts[zlib.crc32(word.encode()) % BUCKETS] += 1.0
    return {"counts": counts}


def stream_of(epoch):
    stream = datasets.IterableDataset.from_generator(posts, gen_kwargs={"parts": [0, 1, 2, 3]})
    parts = random.Random(epoch).sample(range(4), 4)
    stream = datasets.concatenate_datasets([stream.shard(4, part) for part in parts])
    return stream.map(hashed, remove_columns=["text"]).with_format("torch").batch(8)


class Run:
    def __init__(self):
        torch.manual_seed(8)
        self.model = torch.nn.Linear(BUCKETS, 3)
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=0.3)
        self.epoch = 0
        self.stream = stream_of(0)

    def resume(self, checkpoint):
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "run.pt", weights_only=False)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"]
        self.stream = stream_of(self.epoch)
        self.stream.load_state_dict(state["stream"])

    def report(self, metrics):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "stream": self.stream.state_dict(),
        }
        with tempfile.TemporaryDirectory() as folder:
            torch.save(state, Path(folder) / "run.pt")
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))

    def train(self, epochs):
        while self.epoch < epochs:
            for number, batch in enumerate(self.stream, 1):
                scores = self.model(batch["counts"])
                loss = torch.nn.functional.cross_entropy(scores, batch["line"])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if number % 5 == 0:
                    self.report({"loss": loss.item(), "epoch": self.epoch})
            self.epoch += 1
            self.stream = stream_of(self.epoch)


def work(config):
    run = Run()
    if ray.train.get_checkpoint():
        run.resume(ray.train.get_checkpoint())
    run.train(config["epochs"])


if __name__ == "__main__":
    TorchTrainer(
        work,
        train_loop_config={"epochs": 3},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="posts", failure_config=FailureConfig(max_failures=3)),
    ).fit()
