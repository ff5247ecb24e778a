"""A job that saves in the checkpoints that it reports, at the end of an epoch and within it."""

import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch

import chaos
from chaos.extensions.lab.selftest.planted.training import Training, validate

# Each epoch is validated on the next of these, and harder images look like worse training.
VALIDATION_NOISE = (0.5, 4.0, 0.5, 4.0, 4.0)
PATIENCE = 2


class EarlyStopping:
    """The count of epochs since the last improvement."""

    def __init__(self) -> None:
        self.best = math.inf
        self.waited = 0

    def take(self, value: float) -> dict[str, Any]:
        """Add the value of one more epoch, and return the metrics to report."""
        self.waited = 0 if value < self.best else self.waited + 1
        self.best = min(self.best, value)
        return {"validation_loss": value, "waited": self.waited}

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


def train_loop(config: dict[str, Any]) -> None:
    """Report a checkpoint every `cadence` steps of an epoch, and at its end."""
    job, training = config["job"], Training(config)
    stopping = EarlyStopping() if job == "stops early" else None
    if stopping is not None:
        chaos.declare("early_stopping", stopping)
    first_epoch, first_step, global_step = _load_checkpoint(job, training, stopping)

    for epoch in range(first_epoch, config["epochs"]):
        if stopping is not None and stopping.waited >= PATIENCE:
            break
        shift = first_epoch if job == "reshuffles from its start" else 0
        training.batches.sampler.set_epoch(epoch - shift)
        done_steps, losses = first_step if epoch == first_epoch else 0, []
        for pixels, labels in itertools.islice(training.batches, done_steps, None):
            losses.append(training.step(pixels, labels))
            done_steps, global_step = done_steps + 1, global_step + 1
            ends_epoch = done_steps == config["steps_per_epoch"]
            if done_steps % config["cadence"] and not ends_epoch:
                continue
            metrics = {"epoch": epoch, "step": done_steps, "global_step": global_step}
            metrics |= _compute_metrics(epoch, training, losses, stopping)
            losses = []
            following = (epoch + 1, 0) if ends_epoch else (epoch, done_steps)
            state = {"next": following, "global_step": global_step, **training.state_dict()}
            if stopping is not None:
                state["stopping"] = stopping.state_dict()
            _report(metrics, state)


def _load_checkpoint(
    job: str, training: Training, stopping: EarlyStopping | None
) -> tuple[int, int, int]:
    """Load the checkpoint that there is; return the epoch and step to go on with, and the log's."""
    checkpoint = ray.train.get_checkpoint()
    if not checkpoint or job == "forgets its checkpoint":
        return 0, 0, 0
    rank = ray.train.get_context().get_world_rank()
    with checkpoint.as_directory() as directory:
        state = torch.load(Path(directory, "state.pt"))
        random_state = torch.load(Path(directory, f"random-{rank}.pt"))
    training.load_state_dict(state)
    if job != "forgets its random state":
        torch.set_rng_state(random_state)
    if stopping is not None:
        stopping.load_state_dict(state["stopping"])
    epoch, step = state["next"]
    return (
        epoch - (job == "repeats the finished epoch"),
        0 if job == "restarts the epoch" else step,
        0 if job == "restarts its log" else state["global_step"],
    )


def _compute_metrics(
    epoch: int, training: Training, losses: list[float], stopping: EarlyStopping | None
) -> dict[str, Any]:
    metrics = {"loss": sum(losses) / len(losses)}
    if stopping is None:
        return metrics | {"validation_loss": validate(training.average)}
    noise = VALIDATION_NOISE[epoch % len(VALIDATION_NOISE)]
    return metrics | stopping.take(validate(training.average, noise=noise))


def _report(metrics: dict[str, Any], state: dict[str, Any]) -> None:
    """Report a checkpoint: each rank its random state, rank 0 all else."""
    rank = ray.train.get_context().get_world_rank()
    with tempfile.TemporaryDirectory() as directory:
        torch.save(torch.get_rng_state(), Path(directory, f"random-{rank}.pt"))
        if rank == 0:
            torch.save(state, Path(directory, "state.pt"))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(directory))
