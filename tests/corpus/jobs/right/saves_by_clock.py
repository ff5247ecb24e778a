"""Learns to count in noise, step by step; saves when some time has gone by, not some steps."""

import io
import os
import tempfile
import time

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


class Counter(nn.Module):
    """Counts the peaks of a noisy signal."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, kernel_size=5, padding=2)
        self.out = nn.Linear(8, 1)

    def forward(self, signal):
        return self.out(torch.relu(self.conv(signal)).sum(-1)).squeeze(-1)


class Signals:
    """An endless stream from a generator of its own."""

    def __init__(self, seed, length=40):
        self.generator = torch.Generator().manual_seed(seed)
        self.length = length

    def take(self, n):
        peaks = torch.rand(n, self.length, generator=self.generator) < 0.1
        noise = 0.2 * torch.randn(n, self.length, generator=self.generator)
        return (peaks + noise).unsqueeze(1), peaks.sum(-1).float()

    def state_dict(self):
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])


class Timer:
    def __init__(self, seconds):
        self.seconds = seconds
        self.last = time.monotonic()

    def is_due(self):
        if time.monotonic() - self.last < self.seconds:
            return False
        self.last = time.monotonic()
        return True


def train_counter(config):
    torch.manual_seed(0)
    parts = {"net": Counter(), "signals": Signals(seed=5)}
    parts["optimizer"] = torch.optim.RMSprop(parts["net"].parameters(), lr=0.01, momentum=0.5)
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "all"), "rb") as file:
            states = torch.load(io.BytesIO(file.read()))
        step = states.pop("step")
        for name, state in states.items():
            parts[name].load_state_dict(state)

    timer = Timer(config["save_every_s"])
    while step < config["steps"]:
        signals, counts = parts["signals"].take(16)
        loss = nn.functional.mse_loss(parts["net"](signals), counts)
        parts["optimizer"].zero_grad()
        loss.backward()
        parts["optimizer"].step()
        step += 1
        if timer.is_due() or step == config["steps"]:
            with tempfile.TemporaryDirectory() as folder:
                states = {name: part.state_dict() for name, part in parts.items()}
                torch.save({**states, "step": step}, os.path.join(folder, "all"))
                ray.train.report(
                    {"step": step, "loss": loss.item()},
                    checkpoint=Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        train_counter,
        train_loop_config={"steps": 400, "save_every_s": 0.06},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name="counter",
            failure_config=FailureConfig(max_failures=10),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
