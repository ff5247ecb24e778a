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

from chaos.probe.state.part import UnreadPart

_COUNTERS = ("iteration", "learning_rate")  # as variables of an optimizer are named


def keras_parts(models: Sequence[Any], *, full: bool) -> Iterator[UnreadPart]:
    """Take the models that are trained with `fit`, and their optimizers."""
    for index, model in enumerate(models):
        if hasattr(model, "jax_state_sync"):  # on JAX a model gets its weights only after `fit`
            continue
        end = f".{index}" if index else ""
        weights = model.weights if model.built else ()
        yield _of_variables(f"model.weights{end}", weights, full=full, made=model.built)
        if getattr(model, "optimizer", None) is not None:
            yield from _of_optimizer(model.optimizer, end, full=full)


def _of_optimizer(optimizer: Any, end: str, *, full: bool) -> Iterator[UnreadPart]:
    steps = int(_local(optimizer.iterations).numpy())
    counted = UnreadPart.of(f"optimizer.iterations{end}", steps, with_size=False)
    yield replace(counted, count=steps)
    held = optimizer.variables
    slots = [v for v in (held() if callable(held) else held) if _own_name(v) not in _COUNTERS]
    # An optimizer that has made steps, by its own count, but has no slots is about to be restored.
    made = bool(slots) or not steps
    yield _of_variables(f"optimizer.slots{end}", slots, full=full, made=made)
    rate = optimizer.get_config().get("learning_rate") if full else None
    if isinstance(rate, numbers.Real):  # one of numpy, as that of a variable is
        yield UnreadPart.of_numbers(f"optimizer{end}.lr", [float(rate)])


def _of_variables(name: str, variables: Iterable[Any], *, full: bool, made: bool) -> UnreadPart:
    held = [_tensor(_local(variable)) for variable in variables if not _is_a_ranks_own(variable)]
    entries = [(str(number), tensor) for number, tensor in enumerate(held)]
    return replace(UnreadPart.of_entries(name, entries, with_size=full), pending=not made)


def _is_a_ranks_own(variable: Any) -> bool:  # a variable of TensorFlow's or Keras's
    """Return whether each rank has its own value until it is read, as of a moving mean.

    All ranks together must read it, and a rank's own value is not restored.
    """
    return _copies(variable) is not None and str(variable.synchronization).endswith("ON_READ")


def _local(variable: Any) -> Any:
    """Return this rank's copy of a variable that a strategy has spread over ranks."""
    copies = _copies(variable)
    return variable if copies is None else copies[0]


def _copies(variable: Any) -> tuple[Any, ...] | None:
    copies = getattr(variable, "values", None)
    return copies if isinstance(copies, tuple) and copies else None


def _own_name(variable: Any) -> str:
    return str(variable.name).rpartition("/")[2].partition(":")[0]


def _tensor(variable: Any) -> Any:
    """Return a variable's values as a tensor of torch, or as an array for types torch lacks."""
    import torch

    numbers = variable.numpy()
    try:
        return torch.from_numpy(numbers)
    except TypeError:  # bfloat16 and strings
        return numbers
