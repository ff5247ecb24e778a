"""Keeps its states in a directory of its own, each whole or not at all: a job that is right."""

import os
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import ray.train
import ray.train.torch
import torch
from torch.nn.functional import cross_entropy

import chaos
from chaos.zoo.digits import MovingAverage, network, optimizer_of, training_batches, validate


def save(directory: Path, state: dict[str, Any]) -> None:
    """Write a state beside the others; it counts once it is whole, on disk, and marked so."""
    file = directory / f"state-{state['global_step']}.pt"
    torch.save(state, file.with_suffix(".tmp"))
    with file.with_suffix(".tmp").open("rb") as written:
        os.fsync(written.fileno())
    file.with_suffix(".tmp").rename(file)
    file.with_suffix(".done").touch()


def newest(directory: Path) -> dict[str, Any] | None:
    """Read the last state that counts; the one before where that cannot be read."""
    marks = sorted(directory.glob("state-*.done"), key=lambda mark: int(mark.stem[6:]))
    for mark in reversed(marks):
        try:
            state: dict[str, Any] = torch.load(mark.with_suffix(".pt"))
        except (OSError, RuntimeError, EOFError, UnpicklingError):
            continue
        return state
    return None


def train_loop(config: dict[str, Any]) -> None:
    """Train on one rank."""
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    directory = Path(context.get_storage().experiment_fs_path, "states")
    directory.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config["seed"])
    model = ray.train.torch.prepare_model(network())
    torch.manual_seed(1000 * config["seed"] + rank)  # ranks start equal and drop out differently
    optimizer = optimizer_of(model, config)
    steps = config["epochs"] * config["steps_per_epoch"]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    average = MovingAverage(model.module)
    chaos.declare("ema", average)
    batches = training_batches(config)

    first_epoch = global_step = 0
    state = newest(directory)
    if state:
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        average.load_state_dict(state["average"])
        torch.set_rng_state(state["random"][rank])
        first_epoch = state["epoch"] + 1
        global_step = state["global_step"]

    for epoch in range(first_epoch, config["epochs"]):
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
        metrics = {
            "epoch": epoch,
            "global_step": global_step,
            "loss": total / len(batches),
            "validation_loss": validate(average),
        }
        ray.train.report(metrics)
        random_states = [None] * world
        torch.distributed.all_gather_object(random_states, torch.get_rng_state())
        if rank == 0:
            state = {
                "epoch": epoch,
                "global_step": global_step,
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "average": average.state_dict(),
                "random": random_states,
            }
            save(directory, state)
        torch.distributed.barrier()
