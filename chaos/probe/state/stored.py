"""The content of objects as they store it, without a call of any code of the job."""

import sys
from collections.abc import Iterator
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any


def vars_of(value: Any, kind: type) -> dict[str, Any]:  # any object
    """Return the attributes that an object stores, in `__dict__` and in slots."""
    known = _layouts.get(id(kind))
    if known is None:
        known = _layouts[id(kind)] = kind, _slots(kind)
    if known[1] is None:
        return {}
    found: dict[str, Any] = {}
    for name, slot in known[1]:
        try:
            found[name] = slot.__get__(value, kind)
        except (AttributeError, TypeError):  # nothing is there, or it is not Python's
            continue
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return found
    return found | held if type(held) is dict else found


# By id, as a metaclass may have a hash of its own; each keeps its class.
_layouts: dict[int, tuple[type, list[tuple[str, Any]] | None]] = {}


def _slots(kind: type) -> list[tuple[str, Any]] | None:
    """Return the slots of a class; None for one whose `__dict__` is a property of the job's."""
    found: list[tuple[str, Any]] = []
    for cls in type.__dict__["__mro__"].__get__(kind):
        for name, own in list(type.__dict__["__dict__"].__get__(cls).items()):
            if name == "__dict__" and type(own) is not GetSetDescriptorType:
                return None
            if type(own) is MemberDescriptorType:
                found.append((name, own))
    return found


def is_module(kind: type) -> bool:
    """Return whether a class is one of modules."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.nn.Module)


def parts_of(module: Any) -> Iterator[Any]:  # a torch.nn.Module
    """Yield a module and those in it, by what they store: `modules` may be the job's own."""
    waiting, seen = [module], set[int]()
    while waiting:
        part = waiting.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(vars_of(part, type(part)).get("_modules", {}).values())


def saved_tensors(module: Any) -> Iterator[Any]:  # likewise
    """Yield the parameters and the persistent buffers of a module, as `state_dict` has them."""
    for part in parts_of(module):
        names = vars_of(part, type(part))
        kept = names.get("_non_persistent_buffers_set", ())
        yield from (p for p in names.get("_parameters", {}).values() if p is not None)
        buffers = names.get("_buffers", {}).items()
        yield from (b for name, b in buffers if b is not None and name not in kept)
