"""Stops when validation has not improved for two epochs: a job that is right."""

import math
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from torch.nn.functional import cross_entropy

import chaos
from chaos.zoo.digits import MovingAverage, network, optimizer_of, training_batches, validate

# Each epoch is validated on the next of these, and harder images look like worse training.
VALIDATION_NOISE = (0.5, 4.0, 0.5, 4.0, 4.0)
PATIENCE = 2


class EarlyStopping:
    """Counts the epochs since the last improvement."""

    def __init__(self) -> None:
        self.best = math.inf
        self.waited = 0

    def take(self, value: float) -> None:
        """Take in the value of one more epoch."""
        self.waited = 0 if value < self.best else self.waited + 1
        self.best = min(self.best, value)

    def state_dict(self) -> dict[str, Any]:
        """Give everything that a checkpoint needs of it."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.best, self.waited = state["best"], state["waited"]


def train_loop(config: dict[str, Any]) -> None:
    """Train on one rank."""
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(config["seed"])
    model = ray.train.torch.prepare_model(network())
    torch.manual_seed(1000 * config["seed"] + rank)  # ranks start equal and drop out differently
    optimizer = optimizer_of(model, config)
    steps = config["epochs"] * config["steps_per_epoch"]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    average = MovingAverage(model.module)
    chaos.declare("ema", average)
    stopping = EarlyStopping()
    chaos.declare("early_stopping", stopping)
    batches = training_batches(config)

    first_epoch = global_step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory, "state.pt"))
            random_state = torch.load(Path(directory, f"random-{rank}.pt"))
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        average.load_state_dict(state["average"])
        stopping.load_state_dict(state["stopping"])
        torch.set_rng_state(random_state)
        first_epoch = state["epoch"] + 1
        global_step = state["global_step"]

    for epoch in range(first_epoch, config["epochs"]):
        if stopping.waited >= PATIENCE:
            break
        batches.sampler.set_epoch(epoch)
        total = 0.0
        for pixels, labels in batches:
            optimizer.zero_grad()
            loss = cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update(model.module)
            global_step += 1
            total += loss.item()
        noise = VALIDATION_NOISE[epoch % len(VALIDATION_NOISE)]
        validation_loss = validate(average, noise=noise)
        stopping.take(validation_loss)
        metrics = {
            "epoch": epoch,
            "global_step": global_step,
            "loss": total / len(batches),
            "validation_loss": validation_loss,
            "waited": stopping.waited,
        }
        with tempfile.TemporaryDirectory() as directory:
            torch.save(torch.get_rng_state(), Path(directory, f"random-{rank}.pt"))
            if rank == 0:
                state = {
                    "epoch": epoch,
                    "global_step": global_step,
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "average": average.state_dict(),
                    "stopping": stopping.state_dict(),
                }
                torch.save(state, Path(directory, "state.pt"))
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(directory))
