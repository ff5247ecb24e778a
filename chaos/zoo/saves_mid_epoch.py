"""Saves everything every few steps, its place in the epoch included: a job that is right."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from torch.nn.functional import cross_entropy

import chaos
from chaos.zoo.digits import MovingAverage, network, optimizer_of, training_batches, validate


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
    batches = training_batches(config)

    first_epoch = first_step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory, "state.pt"))
            random_state = torch.load(Path(directory, f"random-{rank}.pt"))
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        average.load_state_dict(state["average"])
        torch.set_rng_state(random_state)
        first_epoch, first_step = state["next"]

    for epoch in range(first_epoch, config["epochs"]):
        batches.sampler.set_epoch(epoch)
        done = first_step if epoch == first_epoch else 0
        for pixels, labels in itertools.islice(batches, done, None):
            optimizer.zero_grad()
            loss = cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update(model.module)
            done += 1
            ends_epoch = done == config["steps_per_epoch"]
            if done % config["cadence"] and not ends_epoch:
                continue
            metrics = {
                "epoch": epoch,
                "step": done,
                "loss": loss.item(),
                "validation_loss": validate(average),
            }
            with tempfile.TemporaryDirectory() as directory:
                torch.save(torch.get_rng_state(), Path(directory, f"random-{rank}.pt"))
                if rank == 0:
                    state = {
                        "next": (epoch + 1, 0) if ends_epoch else (epoch, done),
                        "model": model.module.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "average": average.state_dict(),
                    }
                    torch.save(state, Path(directory, "state.pt"))
                checkpoint = ray.train.Checkpoint.from_directory(directory)
                ray.train.report(metrics, checkpoint=checkpoint)
