"""Jobs that save every few steps, in the checkpoints that they report."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch

from chaos.selftest.planted.training import Training, validate


def saves_mid_epoch(config: dict[str, Any]) -> None:
    """Save everything, the place in the epoch included: a job that is right."""
    _train(config)


def restarts_epoch(config: dict[str, Any]) -> None:
    """Save the place in the epoch, and resume with the epoch's first step."""
    _train(config, forgets_step=True)


def _train(config: dict[str, Any], *, forgets_step: bool = False) -> None:
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
