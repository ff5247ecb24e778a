"""Values that a census reads through an object: parameter groups, states, flags, and hooks.

A schedule that keeps `optimizer.param_groups` has the optimizer's own list until `load_state_dict`
puts another one in its place (torch 2.13); from then on it sets rates that no step uses. A module
whose parameters were frozen, or thawed, before a save is built with the flags of its first epoch.
An optimizer that is made anew has not the hooks of the one before it. `load_state_dict` of one
optimizer's state into another makes both train with the same tensors (torch 2.13 copies none whose
type and device fit), until each is loaded from a save of its own. None of this lies in a
checkpoint; all but hooks can be given back.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple, TypeAlias

from chaos.probe.job_code import is_job_file
from chaos.probe.state.stored_attributes import is_module, iterate_modules, list_attributes

#: The number of an optimizer, and that of one of its groups; None: the list of them.
GroupKey: TypeAlias = tuple[int, int | None]


class GroupLink(NamedTuple):
    """A list of parameter groups, or one group, that an object of the job has."""

    #: the optimizer's whose own it is; None if it is no longer any optimizer's
    key: GroupKey | None
    #: those of the optimizers that train now
    groups_by_key: Mapping[GroupKey, Any]


class StateLink(NamedTuple):
    """A tensor of an optimizer's state that is one of another optimizer's as well."""

    #: the number of a parameter, and the name of a tensor of its state
    parameter: int
    name: str
    #: the number of the other optimizer, and that of its parameter
    other_optimizer: int
    other_parameter: int


class IndirectValue:
    """A value that is read and set through an object; it lies nowhere as such."""

    def extract(self) -> Any:  # what `set` takes, and pickle
        """Return the content."""
        raise NotImplementedError

    def set(self, content: Any) -> bool:  # what `extract` returned
        """Set the content; return whether it could be set."""
        raise NotImplementedError


@dataclass(frozen=True)
class StateLinks(IndirectValue):
    """The tensors that an optimizer's state shares with optimizers before it."""

    number: int
    #: all that train
    optimizers: Sequence[Any]

    def list_links(self) -> list[StateLink]:
        """Return a link for each shared tensor, in the order of the parameters."""
        owners = {
            (id(tensor), name): (number, index)
            for number, optimizer in reversed([*enumerate(self.optimizers[: self.number])])
            for index, name, tensor in _iterate_state_tensors(optimizer)
        }
        return [
            StateLink(index, name, *owners[id(tensor), name])
            for index, name, tensor in _iterate_state_tensors(self.optimizers[self.number])
            if (id(tensor), name) in owners
        ]

    def extract(self) -> list[tuple[int | str, ...]]:
        """Return the links as plain tuples."""
        return [tuple(link) for link in self.list_links()]

    def set(self, links: Sequence[StateLink]) -> bool:
        """Share exactly these tensors; return whether all of them are there."""
        if [*map(tuple, self.list_links())] == [*map(tuple, links)]:
            return True
        for index, name, other_number, other_index in links:
            states, other_states = (
                list_states(self.optimizers[number]) for number in (self.number, other_number)
            )
            if index >= len(states) or other_index >= len(other_states):
                return False
            if name not in states[index] or name not in other_states[other_index]:
                return False
            states[index][name] = other_states[other_index][name]
        return bool(links)


@dataclass(frozen=True)
class OptimizerState(IndirectValue):
    """The state that an optimizer keeps of its parameters, such as moments and numbers of steps."""

    optimizer: Any

    def extract(self) -> list[tuple[int, str, Any]]:
        """Return a parameter's number, a name and a value for each, in the parameters' order."""
        tensor_type = sys.modules["torch"].Tensor
        return [
            (index, name, value.detach() if isinstance(value, tensor_type) else value)
            for index, state in enumerate(list_states(self.optimizer))
            for name, value in list(state.items())
        ]

    def set(self, values: Sequence[tuple[int, str, Any]]) -> bool:
        """Set the values, and no others, in tensors of their own; return whether all fit."""
        groups = list_attributes(self.optimizer, type(self.optimizer))["param_groups"]
        parameters = [parameter for group in groups for parameter in group["params"]]
        if any(index >= len(parameters) for index, _, _ in values):
            return False
        states: dict[int, dict[str, Any]] = {}
        for index, name, value in values:
            states.setdefault(index, {})[name] = value
        for index, parameter in enumerate(parameters):
            # Another optimizer may have the old tensors as well, and keeps them.
            self.optimizer.state.pop(parameter, None)
            if index in states:
                self.optimizer.state[parameter] = states[index]
        return True

    def list_tensors(self) -> list[Any]:
        """Return the tensors among the values, and those in lists, as LBFGS keeps them."""
        tensor_type = sys.modules["torch"].Tensor
        return [
            tensor
            for state in list_states(self.optimizer)
            for value in list(state.values())
            for tensor in (value if isinstance(value, list | tuple) else [value])
            if isinstance(tensor, tensor_type)
        ]


@dataclass(frozen=True)
class TrainingFlags(IndirectValue):
    """The flags of a module's parameters: for which of them gradients are made."""

    module: Any

    def extract(self) -> list[bool]:
        """Return `requires_grad` of each parameter, in the order of `parameters()`."""
        return [parameter.requires_grad for parameter in iterate_parameters(self.module)]

    def set(self, flags: Sequence[bool]) -> bool:
        """Set the flags; return whether there are as many."""
        parameters = [*iterate_parameters(self.module)]
        if len(parameters) != len(flags):
            return False
        for parameter, flag in zip(parameters, flags, strict=True):
            parameter.requires_grad_(flag)
        return True


def index_groups(optimizers: Iterable[Any]) -> dict[GroupKey, Any]:
    """Return the lists of parameter groups of optimizers, and each group."""
    groups_by_key: dict[GroupKey, Any] = {}
    for number, optimizer in enumerate(optimizers):
        groups = list_attributes(optimizer, type(optimizer)).get("param_groups")
        if type(groups) is list:
            groups_by_key[number, None] = groups
            groups_by_key.update({(number, index): group for index, group in enumerate(groups)})
    return groups_by_key


def find_group_link(value: Any, groups_by_key: Mapping[GroupKey, Any]) -> GroupLink | None:
    """Return whose groups an object is; None for one that has not the form of any."""
    group = value[0] if type(value) is list and value else value
    if type(group) is not dict or type(group.get("params")) is not list or "lr" not in group:
        return None
    key = next((key for key, groups in groups_by_key.items() if groups is value), None)
    return GroupLink(key, groups_by_key)


def list_states(optimizer: Any) -> list[dict[str, Any]]:
    """Return the state of each parameter of an optimizer, in the order of its groups."""
    attributes = list_attributes(optimizer, type(optimizer))
    states, groups = attributes.get("state"), attributes.get("param_groups")
    if not isinstance(states, dict) or type(groups) is not list:
        return []
    parameters = (parameter for group in groups for parameter in group["params"])
    return [states.get(parameter, {}) for parameter in parameters]


def _iterate_state_tensors(optimizer: Any) -> Iterable[tuple[int, str, Any]]:
    """Yield the tensors of an optimizer's state: a parameter's number, a name, and the tensor."""
    tensor_type = sys.modules["torch"].Tensor
    for index, state in enumerate(list_states(optimizer)):
        for name, value in list(state.items()):
            if isinstance(value, tensor_type):
                yield index, name, value


def list_hooks(owner: Any) -> list[str]:  # an optimizer, or a module
    """Return the names of the job's functions that an object calls, in alphabetical order."""
    holders = iterate_modules(owner) if is_module(type(owner)) else [owner]
    names = (
        _find_job_name(hook)
        for holder in holders
        for attribute, hooks in list_attributes(holder, type(holder)).items()
        if attribute.endswith("_hooks") and isinstance(hooks, dict)
        for hook in list(hooks.values())
    )
    return sorted(filter(None, names))


def _find_job_name(hook: Any) -> str | None:  # whatever was registered
    """Return the name of a function of the job's; None for any other."""
    if type(hook) is tuple and hook:  # torch 2.13: with what else it was registered with
        hook = hook[0]
    while type(hook) is partial:
        hook = hook.func
    function = hook.__func__ if type(hook) is MethodType else hook
    while type(function) is FunctionType and "__wrapped__" in vars(function):
        function = vars(function)["__wrapped__"]  # such as by `torch.no_grad`
    if type(function) is not FunctionType or not is_job_file(function.__code__.co_filename):
        return None
    return function.__qualname__.rpartition("<locals>.")[2]


def iterate_parameters(module: Any) -> Iterable[Any]:
    """Yield the parameters of a module, each once, by what it stores."""
    visited_ids = set[int]()
    for part in iterate_modules(module):
        for parameter in list_attributes(part, type(part)).get("_parameters", {}).values():
            if parameter is not None and id(parameter) not in visited_ids:
                visited_ids.add(id(parameter))
                yield parameter
