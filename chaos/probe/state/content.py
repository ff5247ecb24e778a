"""The entries of a saved file: a digest and the kind of each, and the whole numbers among them.

Those are the job's own record of its progress.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

from chaos.model.event import SavedPart
from chaos.probe.state.canonical import Encoding, UnorderedTensors
from chaos.probe.state.part import UnreadComponent

PARTS_MAX = 64
# Of the tensors of one file, which are digested while the job waits.
BYTES_MAX = 1 << 30
_DEPTH_MAX = 3
COUNTS_MAX = 64
LOOKED_AT_MAX = 4096
_COUNTS_DEPTH_MAX = 4
_LARGEST = 2**63 - 1  # the largest that a journal can hold
# Torch's on the host and on CUDA; Python's and numpy's as tuples.
_TORCH_STATES = (5056, 16)
# The length of the state of Python's generator: 624 words and a position.
_PYTHON_STATE = 625
# Of batch normalisation: buffers, which are not trained.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_FEWER_BITS = ("bfloat16", "float16")
_GENERATORS = ("random", "numpy.random", "torch")

Kind: TypeAlias = Literal["numbers", "counts", "words", "random"]


def list_parts(saved: Any) -> tuple[SavedPart, ...]:  # whatever is saved
    """Return the entries of a saved object, the shallowest first; at most `PARTS_MAX`.

    A mapping of names is opened, three deep at most, unless it lies in another and holds
    only tensors, as the state of a module does. A name that begins with an underscore is
    internal to a library, and left out. After `BYTES_MAX` of tensors, entries have no digest.
    """
    parts, bytes_left = [], BYTES_MAX
    for name, value in _iterate_entries(saved):
        bytes_left -= _count_bytes(value)
        parts.append(_build_part(name, value, has_digest=bytes_left >= 0))
    if (
        parts and bytes_left >= 0 and parts[0].name
    ):  # one mapping of tensors is opened, and is a model
        parts[0] = msgspec.structs.replace(parts[0], **_digest_module(saved))
    return tuple(parts)


def _iterate_entries(saved: Any) -> Iterator[tuple[str, Any]]:
    queue = deque([("", saved, 0)])
    yielded_count = 0
    while queue:
        name, value, depth = queue.popleft()
        if _can_expand(value, depth) and yielded_count + len(queue) + len(value) <= PARTS_MAX:
            for key, member in value.items():
                if not key.startswith("_"):
                    queue.append((f"{name}.{key}" if name else key, member, depth + 1))
        else:
            yielded_count += 1
            yield name, value


def _can_expand(value: Any, depth: int) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and depth < _DEPTH_MAX
        and all(isinstance(key, str) for key in value)
        and not (depth and (all(map(_is_tensor, value.values())) or _is_random(value)))
    )


def _build_part(name: str, value: Any, *, has_digest: bool) -> SavedPart:
    if not has_digest:
        return SavedPart(name=name, kind="numbers", digest="", count=_count_members(value))
    part = UnreadComponent.from_value(name, value, with_size=True)
    assert isinstance(part.encoding, Encoding)
    component = part.build_component()
    kind: Kind = "random" if _is_random(value) else _find_kind(part.encoding)
    return SavedPart(
        name=name,
        kind=kind,
        digest=part.encoding.digest(),
        size=component.size,
        count=_count_members(value),
        first=_find_initial_name(value),
        **_digest_module(value),
    )


def _digest_module(value: Any) -> dict[str, str]:
    """Return the digests of a module's state, to be compared with those of its parameters."""
    if not isinstance(value, Mapping) or not value or not all(map(_is_dense, value.values())):
        return {}
    trained_tensors = (
        tensor_item for name, tensor_item in value.items() if not str(name).endswith(_STATISTICS)
    )
    # Tied parameters have two names in a file and one memory: the model has one parameter there.
    tensor_by_memory = {
        (tensor_item.data_ptr(), tensor_item.shape): tensor_item
        for tensor_item in trained_tensors
        if tensor_item.is_floating_point() and tensor_item.numel()
    }
    types = {str(tensor.dtype).removeprefix("torch.") for tensor in tensor_by_memory.values()}
    digests = {
        "tensors": UnorderedTensors(tensor_by_memory.values()).digest(),
        "dtype": "".join(types),
    }
    # Saved as bfloat16 and trained as float32, a model comes back rounded. Where the file, widened,
    # is what came back, the save is named as the cause, and not the load.
    if len(types) != 1 or types.isdisjoint(_FEWER_BITS):
        return digests if len(types) == 1 else {}
    return {
        **digests,
        "widened": UnorderedTensors(
            tensor.float() for tensor in tensor_by_memory.values()
        ).digest(),
    }


def _find_kind(encoding: Encoding) -> Kind:
    if encoding.leaf_kinds & {b"f", b"c"}:
        return "numbers"
    return "counts" if b"i" in encoding.leaf_kinds else "words"


def _is_random(value: Any) -> bool:
    """Return whether a value is a generator, its state, or a collection of such only."""
    if _is_tensor(value):
        return str(value.dtype) == "torch.uint8" and value.shape in [(n,) for n in _TORCH_STATES]
    if isinstance(value, Mapping):
        return "bit_generator" in value or (bool(value) and all(map(_is_random, value.values())))
    if isinstance(value, list | tuple) and value:
        is_python_state = len(value) == 3 and _find_length(value[1]) == _PYTHON_STATE  # noqa: PLR2004
        is_numpy_state = isinstance(value[0], str) and value[0] == "MT19937"
        return is_python_state or is_numpy_state or all(map(_is_random, value))
    module, name = type(value).__module__, type(value).__name__
    return name in ("Generator", "Random", "RandomState") and module.startswith(_GENERATORS)


def _count_bytes(value: Any, depth: int = 0) -> int:
    if hasattr(value, "nbytes") and isinstance(value.nbytes, int):
        return value.nbytes
    if depth > _DEPTH_MAX:
        return 0
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return sum(_count_bytes(member, depth + 1) for member in value)
    return 0


def count_elements(saved: Any) -> int | None:  # whatever is saved
    """Return the numbers in a saved object, without generators' states; None: unknown.

    Of an object that is no collection, such as a whole module, nothing is known.
    """
    element_count, stack, visited_count = 0, [saved], 0
    while stack:
        value = stack.pop()
        visited_count += 1
        if visited_count > LOOKED_AT_MAX:
            return None
        if value is None or isinstance(value, str | bytes | bool) or _is_random(value):
            continue
        if isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            stack.extend(value)
        elif isinstance(value, int | float | complex):
            element_count += 1
        elif isinstance(elements := _find_element_count(value), int):
            element_count += elements
        else:
            return None
    return element_count


def _find_element_count(value: Any) -> int | None:  # a tensor or an array
    return value.numel() if _is_tensor(value) else getattr(value, "size", None)


def _count_members(value: Any) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple) else 1


def _find_initial_name(value: Any) -> str:
    # Where names alone differ, as of a compiled module that was saved as it is
    # (pytorch/torchtitan#961), the numbers are the same to the last bit, and no other field shows
    # it.
    first = next(iter(value), "") if isinstance(value, Mapping) else ""
    return first if isinstance(first, str) else ""


def _find_length(value: Any) -> int:
    return len(value) if isinstance(value, Sequence) else 0


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and hasattr(value, "numel")


def _is_dense(value: Any) -> bool:
    """Return whether a value is a tensor whose numbers are all here, and of its own."""
    if not _is_tensor(value) or hasattr(value, "placements"):
        return False
    return str(value.layout) == "torch.strided" and not value.is_meta


def find_counts(saved: Any) -> dict[str, int]:  # whatever `torch.save` is given
    """Return the whole numbers in nested mappings by dotted name, the shallowest first.

    A name that begins with an underscore is internal to a library, such as
    `_step_count` of torch's schedules, and left out. At most `COUNTS_MAX`, of the
    first `LOOKED_AT_MAX` entries.
    """
    count_by_name: dict[str, int] = {}
    queue = deque([("", saved, 0)])
    visited_count = 0
    while queue and len(count_by_name) < COUNTS_MAX and visited_count < LOOKED_AT_MAX:
        prefix, value, depth = queue.popleft()
        if isinstance(value, int) and not isinstance(value, bool) and prefix:
            if abs(value) <= _LARGEST:
                count_by_name[prefix] = value
        elif isinstance(value, Mapping) and depth < _COUNTS_DEPTH_MAX:
            for key, member in islice(value.items(), LOOKED_AT_MAX):
                visited_count += 1
                name = str(key) if isinstance(key, str | int) else ""
                if name and not name.startswith("_") and isinstance(member, int | Mapping):
                    queue.append((f"{prefix}.{name}" if prefix else name, member, depth + 1))
    return count_by_name
