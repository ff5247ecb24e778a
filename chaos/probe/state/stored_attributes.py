"""The content of objects as they store it, without a call of any code of the job."""

import sys
from collections.abc import Iterator
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any


def list_attributes(value: Any, kind: type) -> dict[str, Any]:  # any object
    """Return the attributes that an object stores, in `__dict__` and in slots."""
    cached = _layouts.get(id(kind))
    if cached is None:
        cached = _layouts[id(kind)] = kind, _find_slots(kind)
    if cached[1] is None:
        return {}
    attributes: dict[str, Any] = {}
    for name, slot in cached[1]:
        try:
            attributes[name] = slot.__get__(value, kind)
        except (AttributeError, TypeError):  # nothing is there, or it is not Python's
            continue
    try:
        instance_attributes = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return attributes
    return attributes | instance_attributes if type(instance_attributes) is dict else attributes


# By id, as a metaclass may have a hash of its own; each keeps its class.
_layouts: dict[int, tuple[type, list[tuple[str, Any]] | None]] = {}


def _find_slots(kind: type) -> list[tuple[str, Any]] | None:
    """Return the slots of a class; None for one whose `__dict__` is a property of the job's."""
    slots: list[tuple[str, Any]] = []
    for cls in type.__dict__["__mro__"].__get__(kind):
        for name, member in list(type.__dict__["__dict__"].__get__(cls).items()):
            if name == "__dict__" and type(member) is not GetSetDescriptorType:
                return None
            if type(member) is MemberDescriptorType:
                slots.append((name, member))
    return slots


def is_module(kind: type) -> bool:
    """Return whether a class is one of modules."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.nn.Module)


def is_optimizer(kind: type) -> bool:
    """Return whether a class is one of torch's optimizers."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.optim.Optimizer)


def iterate_modules(module: Any) -> Iterator[Any]:  # a torch.nn.Module
    """Yield a module and those in it, by what they store: `modules` may be the job's own."""
    stack, visited_ids = [module], set[int]()
    while stack:
        part = stack.pop()
        if part is not None and id(part) not in visited_ids:
            visited_ids.add(id(part))
            yield part
            stack.extend(list_attributes(part, type(part)).get("_modules", {}).values())


def iterate_saved_tensors(module: Any) -> Iterator[Any]:  # likewise
    """Yield the parameters and the persistent buffers of a module, as `state_dict` has them."""
    for part in iterate_modules(module):
        for _, tensor in iterate_own_tensors(part):
            yield tensor


def iterate_own_tensors(module: Any) -> Iterator[tuple[str, Any]]:  # likewise
    """Yield those that are a module's own, and of none within it, by name."""
    names = list_attributes(module, type(module))
    unsaved_names = names.get("_non_persistent_buffers_set", ())
    for kind in ("_parameters", "_buffers"):
        for name, tensor in names.get(kind, {}).items():
            if tensor is not None and name not in unsaved_names:
                yield name, tensor
