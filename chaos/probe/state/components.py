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
from chaos.probe.state.canonical import digest_structure
from chaos.probe.state.gradients import find_gradients
from chaos.probe.state.part import UnreadComponent

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


def build_name(base: str, index: int) -> str:
    """Return the name of the first, second, … of a kind: `schedule`, `schedule.1`."""
    return base if index == 0 else f"{base}.{index}"


def take_model_parts(
    roots: Sequence[Any], optimizers: Sequence[Any], *, full: bool
) -> Iterator[UnreadComponent]:
    """Take the trained parameters, and the other parameters of called modules."""
    for name, tensors in list_model_tensors(roots, optimizers).items():
        yield UnreadComponent.from_tensors(name, tensors, with_size=full)


def list_model_tensors(roots: Sequence[Any], optimizers: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the parameters of each part that `take_model_parts` takes."""
    tensors_by_part: dict[str, list[Any]] = {}
    trained_ids: set[int] = set()
    for index, parameters in enumerate(_select_largest(optimizers)):
        trained_ids.update(map(id, parameters))
        tensors_by_part[build_name("model", index)] = parameters
    for index, root in enumerate(roots):
        other_parameters = [
            parameter for parameter in root.parameters() if id(parameter) not in trained_ids
        ]
        if other_parameters:
            # Without an optimizer nothing says what is trained, and the called module is all that
            # is known.
            name = build_name("model.rest" if optimizers else "model", index)
            tensors_by_part[name] = other_parameters
    return tensors_by_part


def list_parameter_names(roots: Sequence[Any], optimizers: Sequence[Any]) -> list[str]:
    """Return the names of each trained parameter, those of one tensor joined by ` = `."""
    names_by_parameter: dict[int, list[str]] = {
        id(trained): [] for parameters in _select_largest(optimizers) for trained in parameters
    }
    for root in roots:
        for name, parameter in root.named_parameters(remove_duplicate=False):
            parameter_names = names_by_parameter.get(id(parameter))
            if parameter_names is not None and _strip_wrappers(name) not in parameter_names:
                parameter_names.append(_strip_wrappers(name))
    return sorted(" = ".join(sorted(names)) for names in names_by_parameter.values() if names)


def take_buffer_parts(roots: Sequence[Any], *, full: bool) -> Iterator[UnreadComponent]:
    """Take the buffers of modules that are in `state_dict`."""
    for index, root in enumerate(roots):
        tensors = list_persistent_buffers(root)
        if tensors:
            yield UnreadComponent.from_tensors(
                build_name("model.buffers", index), tensors, with_size=full
            )


def _select_largest(optimizers: Sequence[Any]) -> list[list[Any]]:
    """Return each optimizer's parameters, without those whose parameters another has as well."""
    all_parameters = [list(_iterate_parameters(optimizer)) for optimizer in optimizers]
    id_sets = [frozenset(map(id, parameters)) for parameters in all_parameters]

    def is_contained(index: int) -> bool:
        # A job that thaws its model makes a second optimizer over more of it: both would be a
        # model, with the head in each.
        own_ids = id_sets[index]
        return any(
            own_ids < other_ids or (own_ids == other_ids and position < index)
            for position, other_ids in enumerate(id_sets)
        )

    return [
        own_parameters
        for index, own_parameters in enumerate(all_parameters)
        if own_parameters and not is_contained(index)
    ]


def list_persistent_buffers(module: Any) -> list[Any]:  # a torch.nn.Module
    """Return the buffers that are in a module's `state_dict`."""
    buffer_by_id = {
        id(buffer): buffer
        for part in module.modules()
        for name, buffer in part._buffers.items()  # noqa: SLF001 - torch 2.13 has no public way
        if buffer is not None and name not in part._non_persistent_buffers_set  # noqa: SLF001
    }
    return list(buffer_by_id.values())


def take_gradient_part(optimizers: Sequence[Any]) -> UnreadComponent | None:
    """Take the gradients that are accumulated so far; None if there are none."""
    gradients = [gradient for _, gradient in find_gradients(optimizers)]
    part = UnreadComponent.from_tensors("gradients", gradients, with_size=True)
    return replace(part, structure="") if gradients else None  # if absent later, they are lost


def take_booster_parts(boosters: Sequence[Any]) -> Iterator[UnreadComponent]:
    """Take the trees of XGBoost's and LightGBM's boosters: `model.trees`, counted by rounds."""
    for index, booster in enumerate(boosters):
        if hasattr(booster, "num_boosted_rounds"):  # XGBoost
            rounds = booster.num_boosted_rounds()
            trees: str | bytes = bytes(booster.save_raw("ubj")) if rounds else b""
        else:
            rounds = booster.current_iteration()
            # The parameters follow, among them the number of rounds that the job asked for.
            trees = booster.model_to_string().partition("\nparameters:")[0]
        part = UnreadComponent.from_value(build_name("model.trees", index), trees, with_size=False)
        yield UnreadComponent(part.name, part.encoding, rounds, part.size)


def take_average_parts(averaged_models: Sequence[Any]) -> Iterator[UnreadComponent]:
    """Take the averaged models: `ema`, `ema.1` …."""
    for index, module in enumerate(averaged_models):
        named_tensors = [*module.named_parameters(), *module.named_buffers()]
        tensors = sorted(
            ((_strip_wrappers(name), tensor) for name, tensor in named_tensors), key=itemgetter(0)
        )
        yield UnreadComponent.from_entries(build_name("ema", index), tensors, with_size=True)


def take_optimizer_parts(base: str, optimizer: Any, *, full: bool) -> Iterator[UnreadComponent]:
    """Take an optimizer's state, name by name, and its settings."""
    structure = digest_optimizer(optimizer)
    for part in _take_state_parts(base, optimizer, full=full):
        yield replace(part, structure=structure)


def digest_optimizer(optimizer: Any) -> str:
    """Return a digest of an optimizer's kind and the shapes of its parameters."""
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    # Of as many parameters as it had: `add_param_group` makes it another.
    cached = _structures.get(optimizer)
    if cached is None or cached[0] != count:
        cached = count, digest_structure(_iterate_parameters(optimizer), type(optimizer).__name__)
        _structures[optimizer] = cached
    return cached[1]


def _take_state_parts(base: str, optimizer: Any, *, full: bool) -> Iterator[UnreadComponent]:
    names: dict[str, list[tuple[str, Any]]] = {name: [] for name in _find_initial_state(optimizer)}
    shape: list[tuple[str, Any]] = []
    for number, parameter in enumerate(_iterate_parameters(optimizer)):
        entry = optimizer.state.get(parameter)
        if entry:
            shape.append((str(number), " ".join(sorted(map(str, entry)))))
            for name, value in entry.items():
                names.setdefault(str(name), []).append((str(number), value))
    for name, values in sorted(names.items()):
        part_name = f"state.{name}" if name in SETTINGS else name
        yield _build_state_part(f"{base}.{part_name}", values, full=full)
    yield UnreadComponent.from_entries(f"{base}.state", shape, with_size=False)
    if full:
        yield from _take_settings(base, optimizer.param_groups)


def _build_state_part(
    name: str, entries: Sequence[tuple[str, Any]], *, full: bool
) -> UnreadComponent:
    if full and entries and all(_is_host_number(value) for _, value in entries):
        part = UnreadComponent.from_entries(name, entries, with_size=False)
        distinct_values = {float(value) for _, value in entries}
        size = distinct_values.pop() if len(distinct_values) == 1 else None
        return UnreadComponent(name, part.encoding, part.count, lambda: size)
    return UnreadComponent.from_entries(name, entries, with_size=full)


def _is_host_number(value: Any) -> bool:
    """Return whether a value is a number (Adam's count of steps) that is not on an accelerator."""
    if isinstance(value, int | float):
        return True
    shape, device = getattr(value, "shape", None), getattr(value, "device", None)
    return shape is not None and len(shape) == 0 and getattr(device, "type", "cpu") == "cpu"


def _take_settings(base: str, groups: Sequence[Mapping[str, Any]]) -> Iterator[UnreadComponent]:
    names = {name for group in groups for name, value in group.items() if _is_setting(value)}
    for name in sorted(names - _OF_SCHEDULES - {"params"}):
        values = [_convert_numbers(group.get(name)) for group in groups]
        part_name = name if name in SETTINGS else f"settings.{name}"
        yield UnreadComponent.from_numbers(f"{base}.{part_name}", values)


def _is_setting(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, tuple | list):
        return bool(value) and all(_is_setting(item) for item in value)
    if isinstance(value, int | float):
        return True
    return hasattr(value, "dtype") and getattr(value, "shape", None) == ()  # a learning rate may be


def _convert_numbers(value: Any) -> Any:
    """Return a setting with its numbers as floats: 0 and 0.0 are the same setting."""
    if isinstance(value, tuple | list):
        return [_convert_numbers(item) for item in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_scalar = hasattr(value, "dtype") and _is_host_number(value)
    return float(value) if is_number or is_scalar else value


def take_schedule_part(name: str, schedule: Any) -> UnreadComponent:
    """Take a learning-rate schedule; its size is the number of steps it has made."""
    part = UnreadComponent.from_value(
        name, _remove_keys(schedule.state_dict(), _FOR_WARNINGS), with_size=False
    )
    step_count = getattr(schedule, "last_epoch", None)
    size = float(step_count) if isinstance(step_count, int | float) else None
    optimizer = getattr(schedule, "optimizer", None)
    structure = type(schedule).__name__
    if optimizer is not None:
        structure += digest_optimizer(optimizer)
    return UnreadComponent(name, part.encoding, part.count, lambda: size, structure=structure)


def take_generator_parts() -> Iterator[UnreadComponent]:
    """Take the global generators of torch, numpy and Python, as far as they are in use."""
    import torch

    yield UnreadComponent.from_value(
        "rng.torch", torch.get_rng_state().numpy().tobytes(), with_size=False
    )
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, words, *rest = numpy.random.get_state()
        yield UnreadComponent.from_value(
            "rng.numpy", (kind, words.tobytes(), *rest), with_size=False
        )
    version, numbers, gauss = random.getstate()
    yield UnreadComponent.from_value(
        "rng.python", (version, array("Q", numbers).tobytes(), gauss), with_size=False
    )
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        yield UnreadComponent.from_value("rng.cuda", torch.cuda.get_rng_state(), with_size=False)


def take_declared_parts(declarations: Iterable[tuple[str, Any]]) -> Iterator[UnreadComponent]:
    """Take the values that the job named with `chaos.declare`: `declared.<name>`."""
    for name, declared_value in declarations:
        value = declared_value() if _is_getter(declared_value) else declared_value
        yield UnreadComponent.from_value(f"declared.{name}", value, with_size=True)


def _is_getter(declared_value: Any) -> bool:
    return (
        callable(declared_value)
        and not hasattr(declared_value, "state_dict")
        and not isinstance(declared_value, type)
    )


def _remove_keys(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _remove_keys(item_value, keys)
            for key, item_value in value.items()
            if key not in keys
        }
    if isinstance(value, list | tuple):
        return [_remove_keys(item, keys) for item in value]
    return value


def _strip_wrappers(name: str) -> str:
    """Strip the prefixes of DDP and torch.compile from a name, anywhere in it."""
    for wrapper in _WRAPPERS:
        if name.startswith(wrapper):
            return _strip_wrappers(name.removeprefix(wrapper))
    return name.replace("._orig_mod.", ".")


def _iterate_parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _find_initial_state(optimizer: Any) -> tuple[str, ...]:
    kind = type(optimizer).__name__
    if kind == "SGD" and any(group.get("momentum") for group in optimizer.param_groups):
        return ("momentum_buffer",)
    return _FIRST_STATE.get(kind, ())
