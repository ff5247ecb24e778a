"""Values that a census reads as they are: numbers, texts, containers, tensors, arrays, generators.

No code of the job runs as one is read.
"""

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import Any

from chaos.probe.state.restored_values import find_generator_kinds

ELEMENTS_MAX = 1 << 19  # of a tensor, an array or a container
LEAF_ELEMENTS = 16  # elements as which a plain value of a container counts, and so does a container
SHORT_ELEMENTS = 40 * LEAF_ELEMENTS  # up to which the text of a container may be short enough
NUMBER_TYPES = frozenset({int, float, bool, complex, type(None)})
PLAIN_TYPES = NUMBER_TYPES | {str, bytes}
SEQUENCE_TYPES = frozenset({list, tuple, deque, set, frozenset})
MAPPING_TYPES = frozenset({dict, OrderedDict, defaultdict})


def has_custom_metaclass(kind: type) -> bool:
    """Return whether to hash a class, or to ask for its attributes, calls code of its metaclass."""
    meta = type(kind)
    class_methods = (meta.__hash__, meta.__getattribute__)
    return class_methods != (type.__hash__, type.__getattribute__)


# -- values ------------------------------------------------------------------------------------


def count_elements(value: Any) -> int | None:  # a container
    """Return the elements of a container of plain values, tensors and arrays, each value as some.

    None if it has any other; what is too large is counted until that is known.
    """
    count, stack = 0, [value]
    while stack and count <= ELEMENTS_MAX:
        kind = type(item := stack.pop())
        # What lies in an inner deque is looked at by itself: an encoding takes it for an object.
        if has_custom_metaclass(kind) or (kind is deque and item is not value):
            return None
        elements = LEAF_ELEMENTS  # of a container as well, which may hold itself
        if kind in SEQUENCE_TYPES or _is_named_tuple(kind):
            stack.extend(islice(item, ELEMENTS_MAX // LEAF_ELEMENTS + 1))
        elif kind in MAPPING_TYPES:
            stack.extend(chain(*islice(item.items(), ELEMENTS_MAX // LEAF_ELEMENTS + 1)))
        elif kind not in PLAIN_TYPES:
            read = _count_array_elements(kind, item)
            if read is None:
                return None
            elements = read
        count += elements
    return count


def _is_named_tuple(kind: type) -> bool:
    """Return whether a class is one of named tuples, of which no code runs as it is read."""
    return issubclass(kind, tuple) and kind.__iter__ is tuple.__iter__ and "_fields" in vars(kind)


def _count_array_elements(kind: type, value: Any) -> int | None:  # any value
    """Return the elements of a tensor or an array: too many of what is not read; None of others."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and kind is torch.Tensor:
        return int(value.numel()) if is_host_tensor(torch, value) else ELEMENTS_MAX + 1
    if numpy is not None and kind is numpy.ndarray:
        return ELEMENTS_MAX + 1 if value.dtype.hasobject else int(value.size)
    return LEAF_ELEMENTS if _is_numpy_scalar(kind) else None


def _is_numpy_scalar(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy"


def is_parameter(kind: type) -> bool:
    """Return whether a class is that of a module's parameters."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.nn.Parameter)


def has_only_numbers(value: Any) -> bool:  # a container
    """Return whether all values of a container are numbers."""
    members = value if type(value) in SEQUENCE_TYPES else value.values()
    return all(type(member) in NUMBER_TYPES for member in members)


def find_reader(kind: type) -> Callable[[Any], Any] | None:
    """Return what reads a tensor, an array or a generator; None for any other type."""
    if (generator := find_generator_kinds().get(kind)) is not None:
        return generator.get_state
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and kind is torch.Tensor:
        return partial(extract_tensor, torch)
    if numpy is None:
        return None
    if _is_numpy_scalar(kind):
        return lambda scalar: scalar.item()
    return _extract_array if kind is numpy.ndarray else None


def extract_tensor(torch: Any, tensor: Any) -> Any:  # the module, and a torch.Tensor
    """Return what a tensor holds; None for what is large, or on an accelerator."""
    if not is_host_tensor(torch, tensor) or tensor.numel() > ELEMENTS_MAX:
        return None
    return tensor.item() if tensor.numel() == 1 else tensor.detach()


def is_host_tensor(torch: Any, tensor: Any) -> bool:  # likewise
    """Return whether a tensor's numbers lie in the memory of this process."""
    # torch 2.13: within `torch.func` a tensor stands for others, and has no storage.
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # noqa: SLF001
    is_dense_host = tensor.device.type == "cpu" and tensor.layout is torch.strided
    return bool(is_dense_host and not is_wrapped)


def _extract_array(array: Any) -> Any:  # a numpy.ndarray
    return None if array.dtype.hasobject or array.size > ELEMENTS_MAX else array
