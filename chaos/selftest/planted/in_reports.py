"""Jobs that save in the checkpoints that they report: every epoch, or every few steps."""

import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch

import chaos
from chaos.selftest.planted.training import Forgotten, Training, validate

# Each epoch is validated on the next of these, and harder images look like worse training.
VALIDATION_NOISE = (0.5, 4.0, 0.5, 4.0, 4.0)
PATIENCE = 2


def saves_every_epoch(config: dict[str, Any]) -> None:
    """Save everything, and resume from it: a job that is right."""
    _train_epochs(config)


def stops_early(config: dict[str, Any]) -> None:
    """Stop when validation has not improved for two epochs: a job that is right."""
    _train_epochs(config, stopping=EarlyStopping())


def forgets_checkpoint(config: dict[str, Any]) -> None:
    """Save everything, and never load the checkpoint."""
    _train_epochs(config, forgets="checkpoint")


def repeats_epoch(config: dict[str, Any]) -> None:
    """Resume with the epoch that was finished."""
    _train_epochs(config, forgets="epoch")


def loses_momentum(config: dict[str, Any]) -> None:
    """Save the optimizer's state, and do not load it."""
    _train_epochs(config, forgets="optimizer")


def restarts_schedule(config: dict[str, Any]) -> None:
    """Save the learning rate's schedule, and begin it anew."""
    _train_epochs(config, forgets="schedule")


def forgets_random_state(config: dict[str, Any]) -> None:
    """Save each rank's random state, and do not set it."""
    _train_epochs(config, forgets="random")


def resets_average(config: dict[str, Any]) -> None:
    """Begin the moving average with the loaded weights, and not with the saved average."""
    _train_epochs(config, forgets="average")


def reshuffles_from_start(config: dict[str, Any]) -> None:
    """Shuffle by the number of epochs since the job was started."""
    _train_epochs(config, forgets="order")


def restarts_log(config: dict[str, Any]) -> None:
    """Count the steps of the log from 0 after every start."""
    _train_epochs(config, forgets="global_step")


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


def _train_epochs(
    config: dict[str, Any],
    *,
    forgets: Forgotten | None = None,
    stopping: EarlyStopping | None = None,
) -> None:
    training = Training(config)
    if stopping is not None:
        chaos.declare("early_stopping", stopping)
    first_epoch = global_step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint and forgets != "checkpoint":
        state = _loaded(checkpoint, forgets)
        training.load_state_dict(state, forgets=forgets)
        if stopping is not None:
            stopping.load_state_dict(state["stopping"])
        first_epoch = state["epoch"] + (forgets != "epoch")
        global_step = 0 if forgets == "global_step" else state["global_step"]

    for epoch in range(first_epoch, config["epochs"]):
        if stopping is not None and stopping.waited >= PATIENCE:
            break
        training.batches.sampler.set_epoch(epoch - first_epoch if forgets == "order" else epoch)
        loss, steps = training.epoch()
        global_step += steps
        state = {"epoch": epoch, "global_step": global_step, **training.state_dict()}
        metrics = {"epoch": epoch, "global_step": global_step, "loss": loss}
        if stopping is None:
            metrics["validation_loss"] = validate(training.average)
        else:
            noise = VALIDATION_NOISE[epoch % len(VALIDATION_NOISE)]
            metrics |= stopping.take(validate(training.average, noise=noise))
            state["stopping"] = stopping.state_dict()
        _report(metrics, state)


def _loaded(checkpoint: ray.train.Checkpoint, forgets: Forgotten | None) -> dict[str, Any]:
    """Read a checkpoint, and set this rank's random state."""
    rank = ray.train.get_context().get_world_rank()
    with checkpoint.as_directory() as directory:
        if forgets != "random":
            torch.set_rng_state(torch.load(Path(directory, f"random-{rank}.pt")))
        state: dict[str, Any] = torch.load(Path(directory, "state.pt"))
        return state


def _report(metrics: dict[str, Any], state: dict[str, Any]) -> None:
    """Report a checkpoint: each rank its random state, rank 0 all else."""
    rank = ray.train.get_context().get_world_rank()
    with tempfile.TemporaryDirectory() as directory:
        torch.save(torch.get_rng_state(), Path(directory, f"random-{rank}.pt"))
        if rank == 0:
            torch.save(state, Path(directory, "state.pt"))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(directory))


def saves_mid_epoch(config: dict[str, Any]) -> None:
    """Save everything, the place in the epoch included: a job that is right."""
    _train_steps(config)


def restarts_epoch(config: dict[str, Any]) -> None:
    """Save the place in the epoch, and resume with the epoch's first step."""
    _train_steps(config, forgets_step=True)


def _train_steps(config: dict[str, Any], *, forgets_step: bool = False) -> None:
    rank = ray.train.get_context().get_world_rank()
    training = Training(config)
    first_epoch = first_step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory, "state.pt"))
            random_state = torch.load(Path(directory, f"random-{rank}.pt"))
        training.load_state_dict(state)
        torch.set_rng_state(random_state)
        first_epoch, saved_step = state["next"]
        first_step = 0 if forgets_step else saved_step

    for epoch in range(first_epoch, config["epochs"]):
        training.batches.sampler.set_epoch(epoch)
        done = first_step if epoch == first_epoch else 0
        for pixels, labels in itertools.islice(training.batches, done, None):
            loss = training.step(pixels, labels)
            done += 1
            ends_epoch = done == config["steps_per_epoch"]
            if done % config["cadence"] and not ends_epoch:
                continue
            validation_loss = validate(training.average)
            metrics = {
                "epoch": epoch,
                "step": done,
                "loss": loss,
                "validation_loss": validation_loss,
            }
            with tempfile.TemporaryDirectory() as directory:
                torch.save(torch.get_rng_state(), Path(directory, f"random-{rank}.pt"))
                if rank == 0:
                    following = (epoch + 1, 0) if ends_epoch else (epoch, done)
                    state = {"next": following, **training.state_dict()}
                    torch.save(state, Path(directory, "state.pt"))
                checkpoint = ray.train.Checkpoint.from_directory(directory)
                ray.train.report(metrics, checkpoint=checkpoint)
