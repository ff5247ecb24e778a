"""Jobs that keep their states in a directory of their own, and report only metrics."""

import os
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeAlias

import ray.train
import torch

from chaos.selftest.planted.training import Training, validate

State: TypeAlias = dict[str, Any]


def saves_atomically(config: dict[str, Any]) -> None:
    """Keep each state whole or not at all: a job that is right."""
    _train(config)


def trusts_torn_file(config: dict[str, Any]) -> None:
    """Write states in place, and trust the newest."""
    _train(config, save=save_in_place, newest=newest_file)


def sorts_as_text(config: dict[str, Any]) -> None:
    """Look for the newest state by name, by which 8 comes after 16."""
    _train(config, newest=lambda directory: newest_whole(directory, order=str))


def saves_without_barrier(config: dict[str, Any]) -> None:
    """Keep states of each rank's own, and resume with its own newest."""
    _train(config, is_shared=False)


def step_of(file: Path) -> int:
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


def newest_whole(directory: Path, *, order: Callable[[Path], Any] = step_of) -> State | None:
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


def newest_file(directory: Path) -> State | None:
    """Return the last state."""
    files = sorted(directory.glob("state-*.pt"), key=step_of)
    if not files:
        return None
    state: State = torch.load(files[-1])
    return state


def _train(
    config: dict[str, Any],
    *,
    save: Callable[[Path, State], None] = save_whole,
    newest: Callable[[Path], State | None] = newest_whole,
    is_shared: bool = True,
) -> None:
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    directory = Path(context.get_storage().experiment_fs_path, "states")
    if not is_shared:
        directory /= f"rank-{rank}"
    directory.mkdir(parents=True, exist_ok=True)
    training = Training(config)

    first_epoch = global_step = 0
    state = newest(directory)
    if state:
        training.load_state_dict(state)
        torch.set_rng_state(state["random"][rank])
        first_epoch = state["epoch"] + 1
        global_step = state["global_step"]

    for epoch in range(first_epoch, config["epochs"]):
        training.batches.sampler.set_epoch(epoch)
        loss, steps = training.epoch()
        global_step += steps
        place = {"epoch": epoch, "global_step": global_step}
        ray.train.report({**place, "loss": loss, "validation_loss": validate(training.average)})
        own = torch.get_rng_state()
        if not is_shared:
            save(directory, {**place, **training.state_dict(), "random": {rank: own}})
            continue
        random_states = [None] * world
        torch.distributed.all_gather_object(random_states, own)
        if rank == 0:
            save(directory, {**place, **training.state_dict(), "random": random_states})
        torch.distributed.barrier()
