"""A census of the plain values that a job's own code holds: what lies in no part of its state.

A number of Python in an optimizer, the value of a controller, a buffer that is not saved, the
history of a class: where training comes out otherwise although all that is compared came back, one
of them is the reason. They are reached from the variables of the job's own functions that are
running, the globals of its files and the modules and optimizers that are known, at most `DEPTH_MAX`
objects deep, `OWN_DEPTH_MAX` through those of the job's own classes, and each has the path by which
it was reached (`trainer.kl_ctl.value`).

No code of the job is called: only values of exact built-in types, tensors, arrays and generators
are read, and attributes where they are stored. Of numbers the text is kept as well, unless the path
marks a secret.
"""

import re
import sys
from argparse import Namespace
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from itertools import chain, islice
from types import (
    CellType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    SimpleNamespace,
)
from typing import Any, NamedTuple, TypeAlias

import msgspec

from chaos.model.event import Held
from chaos.model.events.state import IN_LOADER
from chaos.model.masked import is_secret
from chaos.probe.job_code import is_of_the_job
from chaos.probe.state.canonical import Encoding
from chaos.probe.state.give_back import Reached, generators
from chaos.probe.state.stored import is_module, parts_of, saved_tensors, vars_of

ENTRIES_MAX = 1024
DEPTH_MAX = 3
OWN_DEPTH_MAX = 6  # of objects of the job's own classes, and of containers
MEMBERS_MAX = 64  # of a container whose members are looked at one by one
ELEMENTS_MAX = 1 << 19  # of a tensor, an array or a container
MODULE_MAX = 1 << 25  # elements of a module: a large tensor is summed, which is fast
_LEAF = 16  # elements as which a plain value of a container counts, and so does a container
_FEW = 40 * _LEAF  # up to which the text of a container may be short enough
TIME_MAX_NS = 300_000_000
_TEXT_MAX = 40

_NUMBERS = frozenset({int, float, bool, complex, type(None)})
_PLAIN = _NUMBERS | {str, bytes}
_SIZES = _PLAIN - {float} | {tuple}
_SEQUENCES = frozenset({list, tuple, deque, set, frozenset})
_MAPPINGS = frozenset({dict, OrderedDict, defaultdict})
_CLASS_NAME = type.__dict__["__name__"].__get__  # a metaclass may have another
_FRAME_READERS = frozenset({"locals", "vars", "eval", "exec"})
_OPTIMIZED = 0x1  # inspect.CO_OPTIMIZED
# Of libraries whose objects hold nothing of training: locks, files, processes, bars.
_FOREIGN = frozenset(sys.stdlib_module_names - {"__main__"}) | {
    "chaos",
    "ray",
    "tqdm",
    "pyarrow",
}
# Of modules that wrap another one: all that they hold is of it, or their machinery.
_WRAPPERS = ("torch.nn.parallel.", "torch.distributed.", "torch._dynamo.")
_OWN_OF_OPTIMIZERS = frozenset({"state", "param_groups", "defaults"})
Named: TypeAlias = Iterable[tuple[str, Any]]
_ROOT = re.compile(r"[.\[]")
_is_secret = lru_cache(2 * ENTRIES_MAX)(is_secret)


class Census:
    """One census; `entries` are in the order in which they were reached."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        wanted: frozenset[str] = frozenset(),
        *,
        keeps_all: bool = False,
        wants_all: bool = False,
        compared: frozenset[int] = frozenset(),
        most_ns: int = TIME_MAX_NS,
    ) -> None:
        """Begin a census; `compared`: the ids of tensors that parts of the state are made of.

        `wants_all`: every value that is read is wanted, beside the `wanted` paths.
        """
        self._wanted, self._wants_all = wanted, wants_all
        self._roots = {_ROOT.split(path, maxsplit=1)[0] for path in wanted}
        self._compared = compared
        #: if `keeps_all`, whatever has a name, by its path, the nearest first
        self.named: list[tuple[str, Reached]] | None = [] if keeps_all else None
        self._reached: dict[str, Reached] = {}
        self._now_ns = now_ns
        self._ends_ns = now_ns() + most_ns
        self._names: set[tuple[str, bool]] = set()
        #: by the id of an object that was reached, its path
        self._seen: dict[int, str] = {}
        self._covered: set[int] = set()
        self._waiting: deque[tuple[str, Any, int]] = deque()
        #: objects of the job's own classes, which are looked into first
        self._waiting_own: deque[tuple[str, Any, int]] = deque()
        self._found: dict[str, Held] = {}
        #: paths of what is too large to be read
        self.left_out: list[str] = []

    @property
    def entries(self) -> tuple[Held, ...]:
        return tuple(self._found.values())

    @property
    def reached(self) -> Mapping[str, Reached]:
        """The objects and values that were reached by wanted paths."""
        if not self._wants_all:
            return self._reached
        wanted = self._found.keys() | self._wanted
        return {path: one for path, one in self._reached.items() if path in wanted}

    def look_into_all(self) -> None:
        """Look into the objects that were reached, and into those that they hold."""
        # The nearest first: an object that is reached by several paths has the shortest, which is
        # the same in a resumed run, whatever that still has of what it loaded.
        # Those of the job first: a library's trainer may hold more than there is time for.
        while waiting := self._waiting_own or self._waiting:
            path, value, depth = waiting.popleft()
            self._look_into(path, value, depth)

    def path_of(self, value: Any) -> str | None:  # any object
        """Return the path by which an object was reached."""
        return self._seen.get(id(value))

    def of_copy(self, path: str, copied: "Copied") -> None:
        """Add the values of an object, by its path, as they were when it was copied."""
        for held in copied.held:
            within = f"{path}{held.path}{IN_LOADER}"
            self._found.setdefault(within, msgspec.structs.replace(held, path=within))
            if held.path in copied.plain:
                self._reach(within, copied.plain[held.path], None, None)

    def of_frames(self, frame: FrameType | None) -> None:
        """Look at the job's functions from a frame outwards, the innermost first, and its files."""
        files: dict[int, dict[str, Any]] = {}
        while frame is not None:
            if is_of_the_job(frame.f_code.co_filename):
                files[id(frame.f_globals)] = frame.f_globals
                if frame.f_code.co_flags & _OPTIMIZED:
                    self._of_function(frame)
            frame = frame.f_back
        for names in files.values():
            shown = [(n, v) for n, v in list(names.items()) if not n.startswith("__")]
            self.of(shown, names)

    def of(self, named: Named, holder: Any = None) -> None:  # what has them by these names
        """Look at values by their names."""
        for name, value in named:
            # The object of a method has the name of its class: `self` is another one in each. So it
            # has where what is wanted of it was reached so, before its method runs.
            path, of_class = name, _CLASS_NAME(type(value))
            if name == "self" or (of_class in self._roots and name not in self._roots):
                path = of_class
            self._reach(path, value, holder, name)
            key = path, issubclass(type(value), type)  # a class has that name as well
            if key not in self._names:
                self._names.add(key)
                self._look(path, value, 0)

    # -- inside ------------------------------------------------------------------------------

    def _of_function(self, frame: FrameType) -> None:
        # Up to Python 3.12 `f_locals` fills the dictionary that `locals()` has given to the
        # function, which may still have it. It also keeps what the function lets go of.
        if not _FRAME_READERS.isdisjoint(frame.f_code.co_names):
            return
        held = frame.f_locals
        self.of(list(held.items()), frame)
        if type(held) is dict:
            held.clear()

    def _reach(self, path: str, value: Any, holder: Any, name: Any) -> None:  # any values
        if self._wants_all or path in self._wanted:
            self._reached.setdefault(path, Reached(value, holder, name))
        if self.named is not None:
            self.named.append((path, Reached(value, holder, name)))

    def _look(self, path: str, value: Any, depth: int) -> None:  # any value
        kind = type(value)
        if len(self._found) >= ENTRIES_MAX or self._now_ns() > self._ends_ns or _is_odd(kind):
            return
        if kind in _PLAIN:
            self._add(path, value, repr(value) if kind in _NUMBERS else "")
        elif kind in _SEQUENCES or kind in _MAPPINGS:
            self._container(path, value, depth)
        elif _is_parameter(kind):
            if id(value) not in self._compared:
                self._readable(path, value, partial(_tensor, sys.modules["torch"]))
        elif (read := _reader(kind)) is not None:
            self._readable(path, value, read)
        else:
            self._wait(path, value, depth)

    def _wait(self, path: str, value: Any, depth: int) -> None:  # any object
        if depth < _depth_max(type(value)) and id(value) not in self._seen:
            self._seen[id(value)] = path
            waiting = self._waiting_own if _is_own(type(value)) else self._waiting
            waiting.append((path, value, depth + 1))

    def _look_into(self, path: str, value: Any, depth: int) -> None:  # an object, or a container
        if type(value) in _SEQUENCES or type(value) in _MAPPINGS:
            is_listed = type(value) in _SEQUENCES
            items: Iterable[Any] = enumerate(value) if is_listed else list(value.items())
            plain = ((key, one) for key, one in islice(items, MEMBERS_MAX) if type(key) in _PLAIN)
            named = ((f"{path}[{key!r}]", key, one) for key, one in plain)
        else:
            if is_module(type(value)):
                self._module(f"{path}.state_dict()", value)
            named = ((f"{path}.{name}", name, one) for name, one in _members(value))
        for within, name, member in named:
            self._reach(within, member, value, name)
            self._look(within, member, depth)

    def _module(self, path: str, module: Any) -> None:
        """Look at what a module saves, where none of it is a part of the state that is compared."""
        if id(module) in self._covered:
            return
        held = list(saved_tensors(module))
        compared = sum(id(tensor) in self._compared for tensor in held)
        if compared in (0, len(held)):
            self._covered |= {id(part) for part in parts_of(module)}
        if compared or not held:
            return
        self._reach(path, module, None, None)
        torch, size = sys.modules["torch"], sum(tensor.numel() for tensor in held)
        if size > MODULE_MAX or not all(_is_read(torch, tensor) for tensor in held):
            self.left_out.append(path)
        else:
            self._readable(path, held, lambda tensors: [tensor.detach() for tensor in tensors])

    def _container(self, path: str, value: Any, depth: int) -> None:
        if (size := _size(value)) is not None:
            if size > ELEMENTS_MAX:
                self.left_out.append(path)
                return
            text = repr(value) if size <= _FEW and _is_numbers(value) else ""
            read = _read_deque if type(value) is deque else lambda held: held
            self._readable(path, value, read, text)
            return
        if type(value) not in (set, frozenset):
            self._wait(path, value, depth)

    def _readable(self, path: str, value: Any, read: Callable[[Any], Any], text: str = "") -> None:
        try:
            content = read(value)
            if content is not None:
                self._add(path, content, repr(content) if type(content) in _NUMBERS else text)
                return
        except Exception:  # noqa: BLE001, S110 - a tensor without storage, and the like
            pass
        self.left_out.append(path)

    def _add(self, path: str, value: Any, text: str) -> None:
        encoding = Encoding()
        encoding.add(value)
        if text and (len(text) > _TEXT_MAX or _is_secret(path)):
            text = ""
        self._found[path] = Held(path=path, digest=encoding.digest(), text=text)


class Copied(NamedTuple):
    """The values of an object at the moment at which another process was given a copy of it."""

    #: paths begin at the object: `.epoch`
    held: tuple[Held, ...]
    #: of them numbers and texts
    plain: Mapping[str, Any]

    @classmethod
    def of(cls, value: Any, now_ns: Callable[[], int]) -> "Copied":  # any object
        """Read an object's values now."""
        census = Census(now_ns, wants_all=True)
        census.of([("", value)])
        census.look_into_all()
        reached = census.reached
        plain = {path: one.value for path, one in reached.items() if type(one.value) in _PLAIN}
        return cls(census.entries, plain)


# -- what an object holds ----------------------------------------------------------------------


def _read_deque(value: deque[Any]) -> list[Any]:
    """Return what a deque holds, and its bound: one that was made anew may have lost that alone."""
    return [*value] if value.maxlen is None else [[*value], value.maxlen]


def _members(value: Any) -> Iterator[tuple[str, Any]]:  # any object
    """Yield what an object stores, by name; nothing of what no census looks into."""
    kind = type(value)
    if kind is MethodType:
        yield "__self__", value.__self__
    elif kind is FunctionType:
        yield from _closure(value)
    elif kind is GeneratorType:
        yield from _variables(value)
    elif kind is type:
        if is_of_the_job(_file_of(value.__module__)):
            yield from ((n, v) for n, v in vars(value).items() if not n.startswith("__"))
    elif kind in (SimpleNamespace, Namespace):
        yield from vars(value).items()
    elif not issubclass(kind, type) and kind.__module__.partition(".")[0] not in _FOREIGN:
        yield from _stored(value, kind)


def hook_owners(modules: Iterable[Any]) -> Iterator[tuple[str, Any]]:  # modules of torch
    """Yield the objects of the job that `DistributedDataParallel` calls, by their classes' names.

    A hook that was registered to communicate gradients may hold state, such as the error that
    compression leaves, and nothing else may hold the hook.
    """
    for module in modules:
        # torch 2.13: pairs of the hook and the state that it is called with.
        for hook, state in vars(module).get("_comm_hooks", ()):
            owners = (getattr(hook, "__self__", None), state)
            yield from ((_CLASS_NAME(type(o)), o) for o in owners if o is not None)


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    if not is_of_the_job(function.__code__.co_filename):
        return
    cells: tuple[CellType, ...] = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=False):
        try:
            held = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        yield name, held


def _variables(generator: Any) -> list[tuple[str, Any]]:  # what it returns
    """Return the variables of a function of the job that yields, while it waits."""
    frame, code = generator.gi_frame, generator.gi_code
    is_read = not _FRAME_READERS.isdisjoint(code.co_names)
    if frame is None or generator.gi_running or is_read or not is_of_the_job(code.co_filename):
        return []
    held = frame.f_locals
    found = list(held.items())
    if type(held) is dict:  # as of a function that runs
        held.clear()
    return found


def _stored(value: Any, kind: type) -> Iterator[tuple[str, Any]]:  # any object
    """Yield the attributes of an object as they are stored: no code of its class is called."""
    names, of = vars_of(value, kind), _kind_of(kind)
    if of.is_module:
        kept = names.get("_non_persistent_buffers_set", ())
        if kept:
            yield from ((n, b) for n, b in names.get("_buffers", {}).items() if n in kept)
        yield from names.get("_modules", {}).items()
        if of.is_wrapper:
            return
    skipped, hides, is_sized = of.skipped, of.hides, of.is_sized
    for name, held in list(names.items()):
        if name in skipped or (hides and name[:1] == "_"):
            continue
        if not is_sized or type(held) not in _SIZES or name == "training":
            yield name, held


class _Kind(NamedTuple):
    """A class, by what a census leaves out of its objects."""

    is_module: bool
    #: all that it holds is of another module, or its machinery
    is_wrapper: bool
    skipped: frozenset[str]
    #: torch's own private attributes are of its machinery, such as DDP's buckets
    hides: bool
    #: the sizes of torch's modules stay as they are: a rate of dropout may not
    is_sized: bool


_kinds: dict[int, tuple[type, _Kind]] = {}  # by id, likewise


def _kind_of(kind: type) -> _Kind:
    known = _kinds.get(id(kind))
    if known is None:
        torch, module = sys.modules.get("torch"), kind.__module__
        is_module = torch is not None and issubclass(kind, torch.nn.Module)
        skipped = _own_of_modules() if is_module else frozenset[str]()
        if torch is not None and issubclass(kind, torch.optim.Optimizer):
            skipped = _OWN_OF_OPTIMIZERS
        hides, is_sized = module.startswith("torch."), module.startswith("torch.nn.modules.")
        found = _Kind(is_module, module.startswith(_WRAPPERS), skipped, hides, is_sized)
        known = _kinds[id(kind)] = kind, found
    return known[1]


def _depth_max(kind: type) -> int:
    is_container = kind in _SEQUENCES or kind in _MAPPINGS or kind is GeneratorType
    return OWN_DEPTH_MAX if is_container or _is_own(kind) else DEPTH_MAX


def _is_own(kind: type) -> bool:
    """Return whether a class is one of the job's own."""
    return is_of_the_job(_file_of(kind.__module__))


@cache
def _own_of_modules() -> frozenset[str]:
    from torch import nn

    return frozenset(vars(nn.Module())) - {"training"}


def _is_odd(kind: type) -> bool:
    """Return whether to hash a class, or to ask for its attributes, calls code of its metaclass."""
    meta = type(kind)
    own = (meta.__hash__, meta.__getattribute__)
    return own != (type.__hash__, type.__getattribute__)


# -- values ------------------------------------------------------------------------------------


def _size(value: Any) -> int | None:  # a container
    """Return the elements of a container of plain values, tensors and arrays, each value as some.

    None if it has any other; what is too large is counted until that is known.
    """
    count, waiting = 0, [value]
    while waiting and count <= ELEMENTS_MAX:
        kind = type(one := waiting.pop())
        # What lies in an inner deque is looked at by itself: an encoding takes it for an object.
        if _is_odd(kind) or (kind is deque and one is not value):
            return None
        elements = _LEAF  # of a container as well, which may hold itself
        if kind in _SEQUENCES:
            waiting.extend(islice(one, ELEMENTS_MAX // _LEAF + 1))
        elif kind in _MAPPINGS:
            waiting.extend(chain(*islice(one.items(), ELEMENTS_MAX // _LEAF + 1)))
        elif kind not in _PLAIN:
            read = _elements(kind, one)
            if read is None:
                return None
            elements = read
        count += elements
    return count


def _elements(kind: type, value: Any) -> int | None:  # any value
    """Return the elements of a tensor or an array: too many of what is not read; None of others."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and kind is torch.Tensor:
        return int(value.numel()) if _is_read(torch, value) else ELEMENTS_MAX + 1
    if numpy is not None and kind is numpy.ndarray:
        return ELEMENTS_MAX + 1 if value.dtype.hasobject else int(value.size)
    return _LEAF if _is_numpy_scalar(kind) else None


def _is_numpy_scalar(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy"


def _is_parameter(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.nn.Parameter)


def _is_numbers(value: Any) -> bool:
    members = value if type(value) in _SEQUENCES else value.values()
    return all(type(member) in _NUMBERS for member in members)


def _reader(kind: type) -> Callable[[Any], Any] | None:
    """Return what reads a tensor, an array or a generator; None for any other type."""
    if (generator := generators().get(kind)) is not None:
        return generator.get
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and kind is torch.Tensor:
        return partial(_tensor, torch)
    if numpy is None:
        return None
    if _is_numpy_scalar(kind):
        return lambda scalar: scalar.item()
    return _array if kind is numpy.ndarray else None


def _tensor(torch: Any, tensor: Any) -> Any:  # the module, and a torch.Tensor
    """Return what a tensor holds; None for what is large, or on an accelerator."""
    if not _is_read(torch, tensor) or tensor.numel() > ELEMENTS_MAX:
        return None
    return tensor.item() if tensor.numel() == 1 else tensor.detach()


def _is_read(torch: Any, tensor: Any) -> bool:  # likewise
    # torch 2.13: within `torch.func` a tensor stands for others, and has no storage.
    is_one_of_many = torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # noqa: SLF001
    is_near = tensor.device.type == "cpu" and tensor.layout is torch.strided
    return bool(is_near and not is_one_of_many)


def _array(array: Any) -> Any:  # a numpy.ndarray
    return None if array.dtype.hasobject or array.size > ELEMENTS_MAX else array


def _file_of(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or ""
