"""A job that keeps its states in a directory of its own, and reports only metrics."""

import os
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeAlias

import ray.train
import torch

from chaos.extensions.lab.selftest.planted.training import Training, validate

State: TypeAlias = dict[str, Any]


def parse_step(file: Path) -> int:
    """Return the optimizer step in the name of a state."""
    return int(file.stem.removeprefix("state-"))


def save_whole(directory: Path, state: State) -> None:
    """Write a state beside the others; it counts once it is whole, on disk, and marked."""
    file = directory / f"state-{state['global_step']}.pt"
    torch.save(state, file.with_suffix(".tmp"))
    with file.with_suffix(".tmp").open("rb") as written:
        os.fsync(written.fileno())
    file.with_suffix(".tmp").rename(file)
    file.with_suffix(".done").touch()


def load_newest_whole(
    directory: Path, *, order: Callable[[Path], Any] = parse_step
) -> State | None:
    """Return the last state that counts, or the one before if that cannot be read."""
    for mark in sorted(directory.glob("state-*.done"), key=order, reverse=True):
        try:
            state: State = torch.load(mark.with_suffix(".pt"))
        except (OSError, RuntimeError, EOFError, UnpicklingError):
            continue
        return state
    return None


def save_in_place(directory: Path, state: State) -> None:
    """Write a state beside the others."""
    torch.save(state, directory / f"state-{state['global_step']}.pt")


def load_newest_file(directory: Path) -> State | None:
    """Return the last state."""
    files = sorted(directory.glob("state-*.pt"), key=parse_step)
    if not files:
        return None
    state: State = torch.load(files[-1])
    return state


def train_loop(config: dict[str, Any]) -> None:
    """Save the state of an epoch after its report; all ranks wait until it is saved."""
    context, job = ray.train.get_context(), config["job"]
    rank, world = context.get_world_rank(), context.get_world_size()
    directory = Path(context.get_storage().experiment_fs_path, "states")
    is_shared = job != "saves without a barrier"  # it keeps states of each rank's own
    if not is_shared:
        directory /= f"rank-{rank}"
    directory.mkdir(parents=True, exist_ok=True)
    training = Training(config)
    save = save_in_place if job == "trusts a torn file" else save_whole
    # As text, 8 comes after 16.
    order = str if job == "sorts names as text" else parse_step

    first_epoch = global_step = 0
    state = (
        load_newest_file(directory)
        if save is save_in_place
        else load_newest_whole(directory, order=order)
    )
    if state:
        training.load_state_dict(state)
        torch.set_rng_state(state["random"][rank])
        first_epoch = state["epoch"] + 1
        global_step = state["global_step"]

    for epoch in range(first_epoch, config["epochs"]):
        training.batches.sampler.set_epoch(epoch)
        loss, steps = training.epoch()
        global_step += steps
        progress = {"epoch": epoch, "global_step": global_step}
        ray.train.report({**progress, "loss": loss, "validation_loss": validate(training.average)})
        random_state = torch.get_rng_state()
        if not is_shared:
            save(directory, {**progress, **training.state_dict(), "random": {rank: random_state}})
            continue
        random_states = [None] * world
        torch.distributed.all_gather_object(random_states, random_state)
        if rank == 0:
            save(directory, {**progress, **training.state_dict(), "random": random_states})
        torch.distributed.barrier()
