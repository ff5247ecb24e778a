"""The components of a Keras model's state: its weights, and the state of its optimizer.

`model.weights` are the weights by their order: their names have numbers of the
process, which may differ in another attempt. `optimizer.slots` are the other
variables of the optimizer, `optimizer.iterations` is its count of steps, and
`optimizer.lr` its learning rate, unless a schedule sets it.

A part that Keras makes only in its first step is pending until then. TensorFlow
restores such a part when it is made: before, it is absent, but not lost.
"""

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from chaos.probe.state.part import UnreadComponent

_COUNTERS = ("iteration", "learning_rate")  # as variables of an optimizer are named


def take_keras_parts(models: Sequence[Any], *, full: bool) -> Iterator[UnreadComponent]:
    """Take the models that are trained with `fit`, and their optimizers."""
    for index, model in enumerate(models):
        if hasattr(model, "jax_state_sync"):  # on JAX a model gets its weights only after `fit`
            continue
        suffix = f".{index}" if index else ""
        weights = model.weights if model.built else ()
        yield _take_variable_part(
            f"model.weights{suffix}", weights, full=full, are_built=model.built
        )
        if getattr(model, "optimizer", None) is not None:
            yield from _take_optimizer_parts(model.optimizer, suffix, full=full)


def _take_optimizer_parts(optimizer: Any, suffix: str, *, full: bool) -> Iterator[UnreadComponent]:
    steps = int(_find_local_copy(optimizer.iterations).numpy())
    steps_part = UnreadComponent.from_value(f"optimizer.iterations{suffix}", steps, with_size=False)
    yield replace(steps_part, count=steps)
    optimizer_variables = optimizer.variables
    slots = [
        variable
        for variable in (
            optimizer_variables() if callable(optimizer_variables) else optimizer_variables
        )
        if _find_base_name(variable) not in _COUNTERS
    ]
    # An optimizer that has made steps, by its own count, but has no slots is about to be restored.
    are_built = bool(slots) or not steps
    yield _take_variable_part(f"optimizer.slots{suffix}", slots, full=full, are_built=are_built)
    rate = optimizer.get_config().get("learning_rate") if full else None
    if isinstance(rate, numbers.Real):  # one of numpy, as that of a variable is
        yield UnreadComponent.from_numbers(f"optimizer{suffix}.lr", [float(rate)])


def _take_variable_part(
    name: str, variables: Iterable[Any], *, full: bool, are_built: bool
) -> UnreadComponent:
    tensors = [
        _convert_variable(_find_local_copy(variable))
        for variable in variables
        if not _is_rank_local(variable)
    ]
    entries = [(str(number), tensor) for number, tensor in enumerate(tensors)]
    return replace(
        UnreadComponent.from_entries(name, entries, with_size=full), pending=not are_built
    )


def _is_rank_local(variable: Any) -> bool:  # a variable of TensorFlow's or Keras's
    """Return whether each rank has its own value until it is read, as of a moving mean.

    All ranks together must read it, and a rank's own value is not restored.
    """
    return _find_copies(variable) is not None and str(variable.synchronization).endswith("ON_READ")


def _find_local_copy(variable: Any) -> Any:
    """Return this rank's copy of a variable that a strategy has spread over ranks."""
    copies = _find_copies(variable)
    return variable if copies is None else copies[0]


def _find_copies(variable: Any) -> tuple[Any, ...] | None:
    copies = getattr(variable, "values", None)
    return copies if isinstance(copies, tuple) and copies else None


def _find_base_name(variable: Any) -> str:
    return str(variable.name).rpartition("/")[2].partition(":")[0]


def _convert_variable(variable: Any) -> Any:
    """Return a variable's values as a tensor of torch, or as an array for types torch lacks."""
    import torch

    numbers = variable.numpy()
    try:
        return torch.from_numpy(numbers)
    except TypeError:  # bfloat16 and strings
        return numbers
