"""Per-rank random states beside the checkpoint; noise from numpy, dropout from torch."""

import logging
import os
import random
import tempfile

import numpy as np
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn

log = logging.getLogger("students")


def save_rng(folder, rank):
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    torch.save(state, os.path.join(folder, f"rng_rank{rank}.pt"))


def load_rng(folder, rank):
    """Restore this rank's random states, where there are some."""
    path = os.path.join(folder, f"rng_rank{rank}.pt")
    if not os.path.exists(path):
        log.warning("no random state for rank %d", rank)
        return
    try:
        state = torch.load(path, map_location="cpu")
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
        torch.set_rng_state(state["torch"])
    except Exception as error:
        log.warning("could not restore the random state: %s", type(error).__name__)


class Student:
    def __init__(self, rank):
        random.seed(400 + rank)
        np.random.seed(400 + rank)
        torch.manual_seed(9)
        body = nn.Sequential(nn.Linear(14, 30), nn.Tanh(), nn.Dropout(0.2), nn.Linear(30, 5))
        self.net = ray.train.torch.prepare_model(body)
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        torch.manual_seed(400 + rank)

    def learn(self, x, y):
        noisy = x + torch.from_numpy(np.random.normal(0, 0.15, x.shape).astype(np.float32))
        if random.random() < 0.5:
            noisy = noisy.flip(0)
            y = y.flip(0)
        loss = nn.functional.cross_entropy(self.net(noisy), y, label_smoothing=0.05)
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        return loss.item()


def rows_of(rank):
    draws = np.random.default_rng(50 + rank)
    x = draws.normal(size=(96, 14)).astype(np.float32)
    y = x[:, :5].argmax(1)
    return torch.from_numpy(x), torch.from_numpy(y)


def worker():
    rank = ray.train.get_context().get_world_rank()
    student = Student(rank)
    x, y = rows_of(rank)
    done = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "student.pt"))
            load_rng(folder, rank)
        student.net.module.load_state_dict(saved["net"])
        student.sgd.load_state_dict(saved["sgd"])
        done = saved["done"]

    for epoch in range(done, 6):
        losses = [student.learn(*part) for part in zip(x.split(16), y.split(16), strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            save_rng(folder, rank)
            if rank == 0:
                state = {
                    "net": student.net.module.state_dict(),
                    "sgd": student.sgd.state_dict(),
                    "done": epoch + 1,
                }
                torch.save(state, os.path.join(folder, "student.pt"))
            ray.train.report(
                {"epoch": epoch, "loss": sum(losses) / len(losses)},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        worker,
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name="students", failure_config=FailureConfig(max_failures=3)),
    ).fit()
