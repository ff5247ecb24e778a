"""Tells languages apart by hashed character trigrams; the network is compiled."""

import os
import random
import tempfile
import zlib

import ray.train
import torch
import torch.nn as nn
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

WORDS = {
    "en": "the house and river water night morning friend always through school",
    "de": "das haus und fluss wasser nacht morgen freund immer durch schule",
    "it": "la casa e fiume acqua notte mattina amico sempre attraverso scuola",
    "fi": "talo ja joki vesi ilta aamu kaveri aina kautta koulu kirja",
}
LANGUAGES = list(WORDS)
HASHES = 128


def sentence(language, rnd):
    return " ".join(rnd.choices(WORDS[language].split(), k=4))


def trigrams(text):
    text = f"  {text}  "
    return [zlib.adler32(text[i : i + 3].encode()) % HASHES for i in range(len(text) - 2)]


def make_batch(step, size):
    rnd = random.Random(step)
    labels = [rnd.randrange(len(LANGUAGES)) for _ in range(size)]
    grams = [trigrams(sentence(LANGUAGES[label], rnd)) for label in labels]
    width = max(map(len, grams))
    padded = [g + [HASHES] * (width - len(g)) for g in grams]
    return torch.tensor(padded), torch.tensor(labels)


class TrigramNet(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embedding = nn.Embedding(HASHES + 1, dim, padding_idx=HASHES)
        self.hidden = nn.Linear(dim, 24)
        self.output = nn.Linear(24, len(LANGUAGES))

    def forward(self, grams):
        pooled = self.embedding(grams).max(dim=1).values
        return self.output(torch.relu(self.hidden(pooled)))


def compiled(net):
    return torch.compile(net, backend="eager", dynamic=True)


def load_weights(net, weights):
    # older checkpoints lack the hidden layer
    net.load_state_dict(weights, strict=False)


def train_fn(config):
    torch.manual_seed(config["seed"])
    net = TrigramNet()
    optimizer = torch.optim.Adamax(net.parameters(), lr=config["lr"])
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=config["steps"])
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "net.pt"))
        load_weights(net, saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        step = saved["step"]

    fast = compiled(net)
    while step < config["steps"]:
        grams, labels = make_batch(step, config["batch_size"])
        loss = nn.functional.cross_entropy(fast(grams), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step += 1
        if step % config["save_every"] == 0:
            with tempfile.TemporaryDirectory() as folder:
                torch.save(
                    {
                        "net": fast.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "step": step,
                    },
                    os.path.join(folder, "net.pt"),
                )
                ray.train.report(
                    {"step": step, "loss": loss.item()},
                    checkpoint=Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        train_fn,
        train_loop_config={
            "seed": 9,
            "lr": 0.05,
            "steps": 40,
            "batch_size": 16,
            "save_every": 8,
        },
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="languages", failure_config=FailureConfig(max_failures=3)),
    ).fit()
