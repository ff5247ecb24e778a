"""The job's own declaration of its state: `chaos.declare("sampler", sampler)`.

A training script may call it whether or not chaos is running: outside of a run it has no effect.
Nothing heavy is imported here.
"""

import os
from collections.abc import Callable
from typing import Any

TOKEN_ENV = "CHAOS_RUN_TOKEN"  # noqa: S105 - marks a run's processes; not a secret

GUARD_ENV = "CHAOS_GUARD"  # the folder of `chaos guard`, in the processes that it goes along with

EPOCH_STEPS = "epoch_steps"  # the name of the steps of an epoch, in a job that torchrun starts

_declared: dict[str, Any] = {}
_listeners: list[Callable[[str], None]] = []


def declare(name: str, obj: Any) -> None:  # noqa: ANN401 - whatever holds state
    """Name a part of the job's state, so that chaos compares it across restarts.

    `obj` has a `state_dict()`, or is a dict, list, tensor, number or string, or is a function
    without arguments that returns one. It is read as each epoch begins and ends; a name that is
    declared again means the new object.

    `declare("epoch_steps", 50)`, before the first step of a job that torchrun starts, makes an
    epoch of every 50 optimizer steps of a rank, whatever the job saves.
    """
    if TOKEN_ENV not in os.environ and GUARD_ENV not in os.environ:
        return
    _declared[name] = obj
    for listener in _listeners:
        listener(name)


def list_declared_parts() -> list[tuple[str, Any]]:
    """Return the objects declared in this process, in the order of their names."""
    return sorted(_declared.items())


def find_epoch_steps() -> int | None:
    """Return the steps of an epoch that the job has declared, None for no positive number."""
    steps = _declared.get(EPOCH_STEPS)
    return steps if type(steps) is int and steps > 0 else None


def add_declare_listener(listener: Callable[[str], None]) -> None:
    """Register the function to call with each declared name, and with those declared already."""
    _listeners[:] = [listener]
    for name in _declared:
        listener(name)
