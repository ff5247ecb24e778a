"""The components of a job's state, read from the objects that hold it.

`model`, `model.1` … are the parameters of one optimizer each, in the order in which
the optimizers were made, whatever modules own them. `model.rest` are the parameters of
called modules that no optimizer has (frozen ones, such as a DeepSpeed model's own), and
`model.buffers` their buffers that are in `state_dict`; any other buffer is no state.
`gradients` are those that were there before the first backward pass.
`optimizer.<name>` is one entry of the state over all parameters, `optimizer.state` the
entries that each parameter has, and `optimizer.lr` or `optimizer.settings.<name>` one
number of the parameter groups. A job that boosts trees has `model.trees` instead.

The numbers in names depend on the objects of the moment. Another attempt may have more of
them, or fewer (an optimizer of an earlier phase, a copy that was tried out). So each part
has the structure of its owner, by which it is matched (see `check.state_snapshots`).
"""

import random
import sys
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from chaos.model.events.state import SETTINGS
from chaos.probe.state.canonical import structure_of
from chaos.probe.state.gradients import waiting
from chaos.probe.state.part import UnreadPart

_WRAPPERS = ("module.", "_orig_mod.")
# Entries that a schedule writes into the groups for itself alone; they are in its own state.
_OF_SCHEDULES = frozenset(
    {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"}
)
# torch 2.13: kept to warn of a wrong order of calls, such as the number of calls of `step()`.
_FOR_WARNINGS = frozenset({"_step_count", "_get_lr_called_within_step", "_is_initial", "verbose"})
# The state that the first step will make (torch 2.13): empty until then, and not missing.
_FIRST_STATE = {
    "Adam": ("exp_avg", "exp_avg_sq", "step"),
    "AdamW": ("exp_avg", "exp_avg_sq", "step"),
}

_structures: weakref.WeakKeyDictionary[Any, tuple[int, str]] = weakref.WeakKeyDictionary()


def numbered(base: str, index: int) -> str:
    """Return the name of the first, second, … of a kind: `schedule`, `schedule.1`."""
    return base if index == 0 else f"{base}.{index}"


def model_parts(
    roots: Sequence[Any], optimizers: Sequence[Any], *, full: bool
) -> Iterator[UnreadPart]:
    """Take the trained parameters, and the other parameters of called modules."""
    known: set[int] = set()
    for index, parameters in enumerate(_largest(optimizers)):
        known.update(map(id, parameters))
        yield UnreadPart.of_tensors(numbered("model", index), parameters, with_size=full)
    for index, root in enumerate(roots):
        rest = [p for p in root.parameters() if id(p) not in known]
        if rest:
            # Without an optimizer nothing says what is trained, and the called module is all that
            # is known.
            name = numbered("model.rest" if optimizers else "model", index)
            yield UnreadPart.of_tensors(name, rest, with_size=full)


def parameter_names(roots: Sequence[Any], optimizers: Sequence[Any]) -> list[str]:
    """Return the names of each trained parameter, those of one tensor joined by ` = `."""
    found: dict[int, list[str]] = {id(p): [] for own in _largest(optimizers) for p in own}
    for root in roots:
        for name, parameter in root.named_parameters(remove_duplicate=False):
            known = found.get(id(parameter))
            if known is not None and _unwrapped(name) not in known:
                known.append(_unwrapped(name))
    return sorted(" = ".join(sorted(names)) for names in found.values() if names)


def buffer_parts(roots: Sequence[Any], *, full: bool) -> Iterator[UnreadPart]:
    """Take the buffers of modules that are in `state_dict`."""
    for index, root in enumerate(roots):
        tensors = _persistent(root)
        if tensors:
            yield UnreadPart.of_tensors(numbered("model.buffers", index), tensors, with_size=full)


def _largest(optimizers: Sequence[Any]) -> list[list[Any]]:
    """Return each optimizer's parameters, without those whose parameters another has as well."""
    every = [list(_parameters(optimizer)) for optimizer in optimizers]
    ids = [frozenset(map(id, parameters)) for parameters in every]

    def is_within(index: int) -> bool:
        # A job that thaws its model makes a second optimizer over more of it: both would be a
        # model, with the head in each.
        own = ids[index]
        return any(own < other or (own == other and at < index) for at, other in enumerate(ids))

    return [own for index, own in enumerate(every) if own and not is_within(index)]


def _persistent(module: Any) -> list[Any]:  # a torch.nn.Module
    """Return the buffers that are in a module's `state_dict`."""
    found = {
        id(buffer): buffer
        for part in module.modules()
        for name, buffer in part._buffers.items()  # noqa: SLF001 - torch 2.13 has no public way
        if buffer is not None and name not in part._non_persistent_buffers_set  # noqa: SLF001
    }
    return list(found.values())


def gradient_part(optimizers: Sequence[Any]) -> UnreadPart | None:
    """Take the gradients that are accumulated so far; None if there are none."""
    found = [gradient for _, gradient in waiting(optimizers)]
    part = UnreadPart.of_tensors("gradients", found, with_size=True)
    return replace(part, structure="") if found else None  # if absent later, they are lost


def booster_parts(boosters: Sequence[Any]) -> Iterator[UnreadPart]:
    """Take the trees of XGBoost's and LightGBM's boosters: `model.trees`, counted by rounds."""
    for index, booster in enumerate(boosters):
        if hasattr(booster, "num_boosted_rounds"):  # XGBoost
            rounds = booster.num_boosted_rounds()
            trees: str | bytes = bytes(booster.save_raw("ubj")) if rounds else b""
        else:
            rounds = booster.current_iteration()
            # The parameters follow, among them the number of rounds that the job asked for.
            trees = booster.model_to_string().partition("\nparameters:")[0]
        encoded = UnreadPart.of(numbered("model.trees", index), trees, with_size=False)
        yield UnreadPart(encoded.name, encoded.encoding, rounds, encoded.size)


def averaged_parts(averaged: Sequence[Any]) -> Iterator[UnreadPart]:
    """Take the averaged models: `ema`, `ema.1` …."""
    for index, module in enumerate(averaged):
        named = [*module.named_parameters(), *module.named_buffers()]
        tensors = sorted(((_unwrapped(name), own) for name, own in named), key=itemgetter(0))
        yield UnreadPart.of_entries(numbered("ema", index), tensors, with_size=True)


def optimizer_parts(base: str, optimizer: Any, *, full: bool) -> Iterator[UnreadPart]:
    """Take an optimizer's state, name by name, and its settings."""
    structure = optimizer_structure(optimizer)
    for part in _optimizer_parts(base, optimizer, full=full):
        yield replace(part, structure=structure)


def optimizer_structure(optimizer: Any) -> str:
    """Return a digest of an optimizer's kind and the shapes of its parameters."""
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    # Of as many parameters as it had: `add_param_group` makes it another.
    known = _structures.get(optimizer)
    if known is None or known[0] != count:
        known = count, structure_of(_parameters(optimizer), type(optimizer).__name__)
        _structures[optimizer] = known
    return known[1]


def _optimizer_parts(base: str, optimizer: Any, *, full: bool) -> Iterator[UnreadPart]:
    names: dict[str, list[tuple[str, Any]]] = {name: [] for name in _first_state(optimizer)}
    shape: list[tuple[str, Any]] = []
    for number, parameter in enumerate(_parameters(optimizer)):
        entry = optimizer.state.get(parameter)
        if entry:
            shape.append((str(number), " ".join(sorted(map(str, entry)))))
            for name, value in entry.items():
                names.setdefault(str(name), []).append((str(number), value))
    for name, values in sorted(names.items()):
        own = f"state.{name}" if name in SETTINGS else name
        yield _state_part(f"{base}.{own}", values, full=full)
    yield UnreadPart.of_entries(f"{base}.state", shape, with_size=False)
    if full:
        yield from _settings(base, optimizer.param_groups)


def _state_part(name: str, entries: Sequence[tuple[str, Any]], *, full: bool) -> UnreadPart:
    if full and entries and all(_is_host_number(value) for _, value in entries):
        part = UnreadPart.of_entries(name, entries, with_size=False)
        alike = {float(value) for _, value in entries}
        size = alike.pop() if len(alike) == 1 else None
        return UnreadPart(name, part.encoding, part.count, lambda: size)
    return UnreadPart.of_entries(name, entries, with_size=full)


def _is_host_number(value: Any) -> bool:
    """Return whether a value is a number (Adam's count of steps) that is not on an accelerator."""
    if isinstance(value, int | float):
        return True
    shape, device = getattr(value, "shape", None), getattr(value, "device", None)
    return shape is not None and len(shape) == 0 and getattr(device, "type", "cpu") == "cpu"


def _settings(base: str, groups: Sequence[Mapping[str, Any]]) -> Iterator[UnreadPart]:
    names = {name for group in groups for name, value in group.items() if _is_setting(value)}
    for name in sorted(names - _OF_SCHEDULES - {"params"}):
        values = [_as_floats(group.get(name)) for group in groups]
        own = name if name in SETTINGS else f"settings.{name}"
        yield UnreadPart.of_numbers(f"{base}.{own}", values)


def _is_setting(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, tuple | list):
        return bool(value) and all(_is_setting(item) for item in value)
    if isinstance(value, int | float):
        return True
    return hasattr(value, "dtype") and getattr(value, "shape", None) == ()  # a learning rate may be


def _as_floats(value: Any) -> Any:
    """Return a setting with its numbers as floats: 0 and 0.0 are the same setting."""
    if isinstance(value, tuple | list):
        return [_as_floats(item) for item in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_scalar = hasattr(value, "dtype") and _is_host_number(value)
    return float(value) if is_number or is_scalar else value


def schedule_part(name: str, schedule: Any) -> UnreadPart:
    """Take a learning-rate schedule; its size is the number of steps it has made."""
    part = UnreadPart.of(name, _without(schedule.state_dict(), _FOR_WARNINGS), with_size=False)
    last = getattr(schedule, "last_epoch", None)
    size = float(last) if isinstance(last, int | float) else None
    optimizer = getattr(schedule, "optimizer", None)
    structure = type(schedule).__name__
    if optimizer is not None:
        structure += optimizer_structure(optimizer)
    return UnreadPart(name, part.encoding, part.count, lambda: size, structure=structure)


def rng_parts() -> Iterator[UnreadPart]:
    """Take the global generators of torch, numpy and Python, as far as they are in use."""
    import torch

    yield UnreadPart.of("rng.torch", torch.get_rng_state().numpy().tobytes(), with_size=False)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, words, *rest = numpy.random.get_state()
        yield UnreadPart.of("rng.numpy", (kind, words.tobytes(), *rest), with_size=False)
    version, numbers, gauss = random.getstate()
    yield UnreadPart.of(
        "rng.python", (version, array("Q", numbers).tobytes(), gauss), with_size=False
    )
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        yield UnreadPart.of("rng.cuda", torch.cuda.get_rng_state(), with_size=False)


def declared_parts(declared: Iterable[tuple[str, Any]]) -> Iterator[UnreadPart]:
    """Take the values that the job named with `chaos.declare`: `declared.<name>`."""
    for name, held in declared:
        value = held() if _is_question(held) else held
        yield UnreadPart.of(f"declared.{name}", value, with_size=True)


def _is_question(held: Any) -> bool:
    return callable(held) and not hasattr(held, "state_dict") and not isinstance(held, type)


def _without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {k: _without(v, keys) for k, v in value.items() if k not in keys}
    if isinstance(value, list | tuple):
        return [_without(item, keys) for item in value]
    return value


def _unwrapped(name: str) -> str:
    """Strip the prefixes of DDP and torch.compile from a name, anywhere in it."""
    for wrapper in _WRAPPERS:
        if name.startswith(wrapper):
            return _unwrapped(name.removeprefix(wrapper))
    return name.replace("._orig_mod.", ".")


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _first_state(optimizer: Any) -> tuple[str, ...]:
    kind = type(optimizer).__name__
    if kind == "SGD" and any(group.get("momentum") for group in optimizer.param_groups):
        return ("momentum_buffer",)
    return _FIRST_STATE.get(kind, ())
