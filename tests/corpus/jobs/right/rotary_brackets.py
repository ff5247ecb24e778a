"""A decoder with rotary positions closes brackets; sequences get longer as they come."""

import argparse
import os
import random
import tempfile

import ray.train
import torch
import torch.nn as nn
import torch.nn.functional as F
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

PAIRS = {"(": ")", "[": "]", "{": "}"}
SYMBOLS = "()[]{}$"


class Rotary(nn.Module):
    """Tables of sines and cosines, as long as the longest sequence so far."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer(
            "inv_freq", 1.0 / 100 ** (torch.arange(0, dim, 2) / dim), persistent=False
        )
        self.register_buffer("cos", torch.empty(0, dim // 2), persistent=False)
        self.register_buffer("sin", torch.empty(0, dim // 2), persistent=False)

    def forward(self, x):
        length = x.shape[-2]
        if length > len(self.cos):
            angles = torch.outer(torch.arange(length).float(), self.inv_freq)
            self.cos, self.sin = angles.cos(), angles.sin()
        cos, sin = self.cos[:length], self.sin[:length]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Decoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(len(SYMBOLS), dim)
        self.rotary = Rotary(dim)
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, dim))
        self.head = nn.Linear(dim, len(SYMBOLS))

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k = self.rotary(self.q(x)), self.rotary(self.k(x))
        x = x + F.scaled_dot_product_attention(q, k, self.v(x), is_causal=True)
        return self.head(x + self.mlp(self.norm(x)))


def brackets(rnd, depth):
    opened = rnd.choices(list(PAIRS), k=depth)
    return "".join(opened) + "".join(PAIRS[b] for b in reversed(opened)) + "$"


def batch(epoch, step, size=12):
    rnd = random.Random(f"brackets {epoch} {step}")
    depth = rnd.randint(1, 2 + 2 * epoch)
    rows = [[SYMBOLS.index(c) for c in brackets(rnd, depth)] for _ in range(size)]
    tokens = torch.tensor(rows)
    return tokens[:, :-1], tokens[:, 1:]


def train_func(config):
    torch.manual_seed(config["seed"])
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=config["epochs"] * config["steps"]
    )
    first = 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            loaded = torch.load(os.path.join(folder, "decoder.pt"))
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        schedule.load_state_dict(loaded["schedule"])
        torch.set_rng_state(loaded["dropout"])
        first = loaded["epoch"] + 1

    for epoch in range(first, config["epochs"]):
        for step in range(config["steps"]):
            inputs, targets = batch(epoch, step)
            loss = F.cross_entropy(model(inputs).transpose(1, 2), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step == config["steps"] // 2:
                ray.train.report({"at": epoch + 0.5, "loss": loss.item()})
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "dropout": torch.get_rng_state(),
                    "epoch": epoch,
                },
                os.path.join(folder, "decoder.pt"),
            )
            ray.train.report(
                {"at": epoch + 1, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=77)
    TorchTrainer(
        train_func,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="brackets", failure_config=FailureConfig(max_failures=3)),
    ).fit()
