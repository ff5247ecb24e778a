"""The entries of a saved file: a digest and the kind of each, and the whole numbers among them.

Those are the job's own record of its progress.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

from chaos.model.event import SavedPart
from chaos.probe.state.canonical import Encoding, Unordered
from chaos.probe.state.part import UnreadPart

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


def parts_of(saved: Any) -> tuple[SavedPart, ...]:  # whatever is saved
    """Return the entries of a saved object, the shallowest first; at most `PARTS_MAX`.

    A mapping of names is opened, three deep at most, unless it lies in another and holds
    only tensors, as the state of a module does. A name that begins with an underscore is
    internal to a library, and left out. After `BYTES_MAX` of tensors, entries have no digest.
    """
    found, room = [], BYTES_MAX
    for name, value in _entries(saved):
        room -= _bytes_in(value)
        found.append(_part(name, value, is_read=room >= 0))
    if found and room >= 0 and found[0].name:  # one mapping of tensors is opened, and is a model
        found[0] = msgspec.structs.replace(found[0], **_as_model(saved))
    return tuple(found)


def _entries(saved: Any) -> Iterator[tuple[str, Any]]:
    waiting = deque([("", saved, 0)])
    given = 0
    while waiting:
        name, value, depth = waiting.popleft()
        if _is_opened(value, depth) and given + len(waiting) + len(value) <= PARTS_MAX:
            for key, below in value.items():
                if not key.startswith("_"):
                    waiting.append((f"{name}.{key}" if name else key, below, depth + 1))
        else:
            given += 1
            yield name, value


def _is_opened(value: Any, depth: int) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and depth < _DEPTH_MAX
        and all(isinstance(key, str) for key in value)
        and not (depth and (all(map(_is_tensor, value.values())) or _is_random(value)))
    )


def _part(name: str, value: Any, *, is_read: bool) -> SavedPart:
    if not is_read:
        return SavedPart(name=name, kind="numbers", digest="", count=_count(value))
    part = UnreadPart.of(name, value, with_size=True)
    assert isinstance(part.encoding, Encoding)
    seen = part.component()
    kind: Kind = "random" if _is_random(value) else _kind(part.encoding)
    return SavedPart(
        name=name,
        kind=kind,
        digest=part.encoding.digest(),
        size=seen.size,
        count=_count(value),
        first=_first_name(value),
        **_as_model(value),
    )


def _as_model(value: Any) -> dict[str, str]:
    """Return the digests of a module's state, to be compared with those of its parameters."""
    if not isinstance(value, Mapping) or not value or not all(map(_is_dense, value.values())):
        return {}
    named = (t for name, t in value.items() if not str(name).endswith(_STATISTICS))
    # Tied parameters have two names in a file and one memory: the model has one parameter there.
    own = {(t.data_ptr(), t.shape): t for t in named if t.is_floating_point() and t.numel()}
    types = {str(tensor.dtype).removeprefix("torch.") for tensor in own.values()}
    found = {"tensors": Unordered(own.values()).digest(), "dtype": "".join(types)}
    # Saved as bfloat16 and trained as float32, a model comes back rounded. Where the file, widened,
    # is what came back, the save is named as the cause, and not the load.
    if len(types) != 1 or types.isdisjoint(_FEWER_BITS):
        return found if len(types) == 1 else {}
    return {**found, "widened": Unordered(tensor.float() for tensor in own.values()).digest()}


def _kind(encoding: Encoding) -> Kind:
    if encoding.leaves & {b"f", b"c"}:
        return "numbers"
    return "counts" if b"i" in encoding.leaves else "words"


def _is_random(value: Any) -> bool:
    """Return whether a value is a generator, its state, or a collection of such only."""
    if _is_tensor(value):
        return str(value.dtype) == "torch.uint8" and value.shape in [(n,) for n in _TORCH_STATES]
    if isinstance(value, Mapping):
        return "bit_generator" in value or (bool(value) and all(map(_is_random, value.values())))
    if isinstance(value, list | tuple) and value:
        of_python = len(value) == 3 and _length(value[1]) == _PYTHON_STATE  # noqa: PLR2004
        of_numpy = isinstance(value[0], str) and value[0] == "MT19937"
        return of_python or of_numpy or all(map(_is_random, value))
    module, name = type(value).__module__, type(value).__name__
    return name in ("Generator", "Random", "RandomState") and module.startswith(_GENERATORS)


def _bytes_in(value: Any, depth: int = 0) -> int:
    if hasattr(value, "nbytes") and isinstance(value.nbytes, int):
        return value.nbytes
    if depth > _DEPTH_MAX:
        return 0
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return sum(_bytes_in(below, depth + 1) for below in value)
    return 0


def elements_of(saved: Any) -> int | None:  # whatever is saved
    """Return the numbers in a saved object, without generators' states; None: unknown.

    Of an object that is no collection, such as a whole module, nothing is known.
    """
    found, waiting, looked = 0, [saved], 0
    while waiting:
        value = waiting.pop()
        looked += 1
        if looked > LOOKED_AT_MAX:
            return None
        if value is None or isinstance(value, str | bytes | bool) or _is_random(value):
            continue
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            waiting.extend(value)
        elif isinstance(value, int | float | complex):
            found += 1
        elif isinstance(elements := _elements(value), int):
            found += elements
        else:
            return None
    return found


def _elements(value: Any) -> int | None:  # a tensor or an array
    return value.numel() if _is_tensor(value) else getattr(value, "size", None)


def _count(value: Any) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple) else 1


def _first_name(value: Any) -> str:
    # Where names alone differ, as of a compiled module that was saved as it is
    # (pytorch/torchtitan#961), the numbers are the same to the last bit, and no other field shows
    # it.
    first = next(iter(value), "") if isinstance(value, Mapping) else ""
    return first if isinstance(first, str) else ""


def _length(value: Any) -> int:
    return len(value) if isinstance(value, Sequence) else 0


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and hasattr(value, "numel")


def _is_dense(value: Any) -> bool:
    """Return whether a value is a tensor whose numbers are all here, and of its own."""
    if not _is_tensor(value) or hasattr(value, "placements"):
        return False
    return str(value.layout) == "torch.strided" and not value.is_meta


def counts_of(saved: Any) -> dict[str, int]:  # whatever `torch.save` is given
    """Return the whole numbers in nested mappings by dotted name, the shallowest first.

    A name that begins with an underscore is internal to a library, such as
    `_step_count` of torch's schedules, and left out. At most `COUNTS_MAX`, of the
    first `LOOKED_AT_MAX` entries.
    """
    found: dict[str, int] = {}
    waiting = deque([("", saved, 0)])
    looked = 0
    while waiting and len(found) < COUNTS_MAX and looked < LOOKED_AT_MAX:
        prefix, value, depth = waiting.popleft()
        if isinstance(value, int) and not isinstance(value, bool) and prefix:
            if abs(value) <= _LARGEST:
                found[prefix] = value
        elif isinstance(value, Mapping) and depth < _COUNTS_DEPTH_MAX:
            for key, below in islice(value.items(), LOOKED_AT_MAX):
                looked += 1
                name = str(key) if isinstance(key, str | int) else ""
                if name and not name.startswith("_") and isinstance(below, int | Mapping):
                    waiting.append((f"{prefix}.{name}" if prefix else name, below, depth + 1))
    return found
