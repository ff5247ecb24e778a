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

import dis
import re
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, lru_cache, partial
from itertools import chain, islice
from queue import Queue
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    SimpleNamespace,
)
from typing import Any, NamedTuple, TypeAlias

import msgspec

from chaos.model.event import Held
from chaos.model.events.state import (
    HOOKS,
    IN_LOADER,
    IS_PARAM_GROUPS,
    MODULE_STATE,
    OPTIMIZER_STATE,
    SHARED_STATE,
    TRAINING_FLAGS,
)
from chaos.model.masking import is_secret
from chaos.probe.job_code import is_job_file
from chaos.probe.state.canonical import Encoding
from chaos.probe.state.indirect_values import (
    OptimizerState,
    StateLinks,
    TrainingFlags,
    find_group_link,
    index_groups,
    iterate_parameters,
    list_hooks,
)
from chaos.probe.state.plain_values import (
    ELEMENTS_MAX,
    MAPPING_TYPES,
    NUMBER_TYPES,
    PLAIN_TYPES,
    SEQUENCE_TYPES,
    SHORT_ELEMENTS,
    count_elements,
    extract_tensor,
    find_reader,
    has_custom_metaclass,
    has_only_numbers,
    is_host_tensor,
    is_parameter,
)
from chaos.probe.state.restored_values import HeldValue
from chaos.probe.state.stored_attributes import (
    is_module,
    is_optimizer,
    iterate_modules,
    iterate_own_tensors,
    iterate_saved_tensors,
    list_attributes,
)

ENTRIES_MAX = 1024
DEPTH_MAX = 3
OWN_DEPTH_MAX = 6  # of objects of the job's own classes, and of containers
MEMBERS_MAX = 64  # of a container whose members are looked at one by one
MODULE_MAX = 1 << 25  # elements of a module: a large tensor is summed, which is fast
TIME_MAX_NS = 300_000_000
_TEXT_MAX = 40

_SIZES = PLAIN_TYPES - {float} | {tuple}
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
# Of the standard library, with the attributes that are read; none: all. A batch that a thread has
# made ahead waits in a future or a queue.
_HOLDERS: Mapping[type, frozenset[str]] = {
    SimpleNamespace: frozenset(),
    Namespace: frozenset(),
    Future: frozenset({"_result"}),
    Queue: frozenset({"queue"}),
}
_OWN_OF_OPTIMIZERS = frozenset({"state", "param_groups", "defaults"})
Named: TypeAlias = Iterable[tuple[str, Any]]
_ROOT = re.compile(r"[.\[]")
_is_secret = lru_cache(2 * ENTRIES_MAX)(is_secret)


class Census:
    """One census; `entries` are in the order in which they were reached."""

    def __init__(  # noqa: PLR0913 (what it reads, and what it keeps)
        self,
        now_ns: Callable[[], int],
        wanted_paths: frozenset[str] = frozenset(),
        *,
        keeps_all: bool = False,
        wants_all: bool = False,
        compared_tensors: frozenset[int] = frozenset(),
        optimizers: Iterable[Any] = (),
        limit_ns: int = TIME_MAX_NS,
    ) -> None:
        """Begin a census; `compared_tensors`: the ids of tensors that parts of the state have.

        `optimizers`: those that train.
        `wants_all`: every value that is read is wanted, beside the `wanted_paths`.
        """
        self._wanted_paths, self._wants_all = wanted_paths, wants_all
        self._roots = {_ROOT.split(path, maxsplit=1)[0] for path in wanted_paths}
        self._compared_tensors = compared_tensors
        self._optimizers = tuple(optimizers)
        self._groups_by_key = index_groups(self._optimizers)
        self._flagged_parameters: set[int] = set()
        #: if `keeps_all`, whatever has a name, by its path, the nearest first
        self.named_values: list[tuple[str, HeldValue]] | None = [] if keeps_all else None
        self._reached_values: dict[str, HeldValue] = {}
        self._now_ns = now_ns
        self._ends_ns = now_ns() + limit_ns
        self._root_names: set[tuple[str, bool]] = set()
        #: by the id of an object that was reached, its path
        self._path_by_object: dict[int, str] = {}
        self._covered_modules: set[int] = set()
        self._queue: deque[tuple[str, Any, int]] = deque()
        #: objects of the job's own classes, which are looked into first
        self._job_queue: deque[tuple[str, Any, int]] = deque()
        self._entry_by_path: dict[str, Held] = {}
        #: paths of what is too large to be read
        self.omitted_paths: list[str] = []

    @property
    def entries(self) -> tuple[Held, ...]:
        return tuple(self._entry_by_path.values())

    @property
    def wanted_values(self) -> Mapping[str, HeldValue]:
        """The objects and values that were reached by wanted paths."""
        if not self._wants_all:
            return self._reached_values
        wanted_paths = self._entry_by_path.keys() | self._wanted_paths
        return {
            path: reached_value
            for path, reached_value in self._reached_values.items()
            if path in wanted_paths
        }

    def add_state(self, values: Mapping[str, HeldValue]) -> None:
        """Add parts of the state by their paths, unread: they are compared elsewhere."""
        self._reached_values.update(values)

    def expand_all(self) -> None:
        """Look into the objects that were reached, and into those that they hold."""
        # The nearest first: an object that is reached by several paths has the shortest, which is
        # the same in a resumed run, whatever that still has of what it loaded.
        # Those of the job first: a library's trainer may hold more than there is time for.
        while queue := self._job_queue or self._queue:
            path, value, depth = queue.popleft()
            self._expand_value(path, value, depth)

    def find_path(self, value: Any) -> str | None:  # any object
        """Return the path by which an object was reached."""
        return self._path_by_object.get(id(value))

    def add_copy(self, path: str, copied_values: "CopiedValues") -> None:
        """Add the values of an object, by its path, as they were when it was copied."""
        for entry in copied_values.entries:
            entry_path = f"{path}{entry.path}{IN_LOADER}"
            self._entry_by_path.setdefault(
                entry_path, msgspec.structs.replace(entry, path=entry_path)
            )
            if entry.path in copied_values.plain_values:
                self._record_value(entry_path, copied_values.plain_values[entry.path], None, None)

    def add_frames(self, frame: FrameType | None) -> None:
        """Look at the job's functions from a frame outwards, the innermost first, and its files."""
        globals_by_file: dict[int, dict[str, Any]] = {}
        while frame is not None:
            if is_job_file(frame.f_code.co_filename):
                globals_by_file[id(frame.f_globals)] = frame.f_globals
                if frame.f_code.co_flags & _OPTIMIZED:
                    self._add_function(frame)
            frame = frame.f_back
        for names in globals_by_file.values():
            public_values = [
                (name, value) for name, value in list(names.items()) if not name.startswith("__")
            ]
            self.add_values(public_values, names)

    def add_values(
        self, named_values: Named, holder: Any = None
    ) -> None:  # what has them by these names
        """Look at values by their names."""
        for name, value in named_values:
            # The object of a method has the name of its class: `self` is another one in each. So it
            # has where what is wanted of it was reached so, before its method runs.
            path, class_name = name, _CLASS_NAME(type(value))
            if name == "self" or (class_name in self._roots and name not in self._roots):
                path = class_name
            self._record_value(path, value, holder, name)
            self._add_group_link(path, value, holder, name)
            key = path, issubclass(type(value), type)  # a class has that name as well
            if key not in self._root_names:
                self._root_names.add(key)
                self._visit_value(path, value, 0)

    # -- inside ------------------------------------------------------------------------------

    def _add_function(self, frame: FrameType) -> None:
        # Up to Python 3.12 `f_locals` fills the dictionary that `locals()` has given to the
        # function, which may still have it. It also keeps what the function lets go of.
        if _reads_variables(frame.f_code):
            return
        variables = frame.f_locals
        self.add_values(list(variables.items()), frame)
        if type(variables) is dict:
            variables.clear()

    def _record_value(self, path: str, value: Any, holder: Any, name: Any) -> None:  # any values
        if self._wants_all or path in self._wanted_paths:
            self._reached_values.setdefault(path, HeldValue(value, holder, name))
        if self.named_values is not None:
            self.named_values.append((path, HeldValue(value, holder, name)))

    def _visit_value(self, path: str, value: Any, depth: int) -> None:  # any value
        kind = type(value)
        if (
            len(self._entry_by_path) >= ENTRIES_MAX
            or self._now_ns() > self._ends_ns
            or has_custom_metaclass(kind)
        ):
            return
        if kind in PLAIN_TYPES:
            self._add_entry(path, value, repr(value) if kind in NUMBER_TYPES else "")
        elif kind in SEQUENCE_TYPES or kind in MAPPING_TYPES:
            self._add_container(path, value, depth)
        elif is_parameter(kind):
            if id(value) not in self._compared_tensors:
                self._add_readable(path, value, partial(extract_tensor, sys.modules["torch"]))
        elif (read := find_reader(kind)) is not None:
            self._add_readable(path, value, read)
        else:
            self._enqueue(path, value, depth)

    def _enqueue(self, path: str, value: Any, depth: int) -> None:  # any object
        if depth < _find_depth_max(type(value)) and id(value) not in self._path_by_object:
            self._path_by_object[id(value)] = path
            queue = self._job_queue if _is_job_class(type(value)) else self._queue
            queue.append((path, value, depth + 1))

    def _expand_value(self, path: str, value: Any, depth: int) -> None:  # an object, or a container
        if type(value) in SEQUENCE_TYPES or type(value) in MAPPING_TYPES:
            is_listed = type(value) in SEQUENCE_TYPES
            items: Iterable[Any] = enumerate(list(value)) if is_listed else list(value.items())
            plain_items = (
                (key, item) for key, item in islice(items, MEMBERS_MAX) if type(key) in PLAIN_TYPES
            )
            named_members = ((f"{path}[{key!r}]", key, item) for key, item in plain_items)
        else:
            if is_module(type(value)):
                self._add_module(f"{path}{MODULE_STATE}", value)
                self._add_training_flags(path, value)
            elif is_optimizer(type(value)):
                self._add_hooks(path, value)
                self._add_state_links(path, value)
                self._add_optimizer_state(path, value)
            members = chain(self._iterate_uncompared_tensors(value), _iterate_members(value))
            named_members = ((f"{path}.{name}", name, item) for name, item in members)
        for member_path, name, member in named_members:
            self._record_value(member_path, member, value, name)
            self._add_group_link(member_path, member, value, name)
            self._visit_value(member_path, member, depth)

    def _add_group_link(self, path: str, value: Any, holder: Any, name: Any) -> None:  # any values
        """Look whether a list of parameter groups is that of an optimizer that trains."""
        link = find_group_link(value, self._groups_by_key)
        if link is not None:
            path = f"{path}{IS_PARAM_GROUPS}"
            self._record_value(path, link, holder, name)
            self._add_entry(path, link.key, str(link.key is not None))

    def _add_hooks(self, path: str, owner: Any) -> None:  # an optimizer, or a module
        """Look at the functions of the job that an object calls."""
        hooks = list_hooks(owner)
        self._add_entry(f"{path}{HOOKS}", hooks, ", ".join(hooks) or "none")

    def _add_state_links(self, path: str, optimizer: Any) -> None:
        """Look which tensors of an optimizer's state are those of another one as well."""
        numbers = (n for n, other in enumerate(self._optimizers) if other is optimizer)
        number = next(numbers, 0)
        if number:
            path, links = f"{path}{SHARED_STATE}", StateLinks(number, self._optimizers)
            self._record_value(path, links, optimizer, None)
            values = links.list_links()
            self._add_entry(path, values, f"{len(values)} tensors")

    def _add_optimizer_state(self, path: str, optimizer: Any) -> None:
        """Look at the state of one of several optimizers: compared parts are of all of them."""
        other_optimizers = [o for o in self._optimizers if o is not optimizer]
        if not other_optimizers or len(other_optimizers) == len(self._optimizers):
            return
        path, state = f"{path}{OPTIMIZER_STATE}", OptimizerState(optimizer)
        self._record_value(path, state, optimizer, None)
        self._add_tensors(path, state, state.list_tensors(), OptimizerState.extract)

    def _add_tensors(
        self, path: str, value: Any, tensors: Sequence[Any], extract: Callable[[Any], Any]
    ) -> None:  # of torch's
        """Look at a value, unless its tensors are too large or on an accelerator."""
        torch, size = sys.modules["torch"], sum(tensor.numel() for tensor in tensors)
        if size > MODULE_MAX or not all(is_host_tensor(torch, tensor) for tensor in tensors):
            self.omitted_paths.append(path)
        else:
            self._add_readable(path, value, extract)

    def _add_training_flags(self, path: str, module: Any) -> None:
        """Look which parameters of a module train, and its hooks, if no module is around it."""
        parameter_ids = {id(parameter) for parameter in iterate_parameters(module)}
        if parameter_ids <= self._flagged_parameters:
            return
        self._flagged_parameters |= parameter_ids
        self._add_hooks(path, module)
        path, flags = f"{path}{TRAINING_FLAGS}", TrainingFlags(module)
        self._record_value(path, flags, module, None)
        values = flags.extract()
        self._add_entry(path, values, f"{sum(values)} of {len(values)} True")

    def _add_module(self, path: str, module: Any) -> None:
        """Look at what a module saves, where none of it is a part of the state that is compared."""
        if id(module) in self._covered_modules:
            return
        module_tensors = list(iterate_saved_tensors(module))
        compared_count = sum(id(tensor) in self._compared_tensors for tensor in module_tensors)
        if compared_count in (0, len(module_tensors)):
            self._covered_modules |= {id(part) for part in iterate_modules(module)}
        if compared_count or not module_tensors:
            return
        self._record_value(path, module, None, None)
        self._add_tensors(
            path, module_tensors, module_tensors, lambda tensors: [t.detach() for t in tensors]
        )

    def _iterate_uncompared_tensors(
        self, module: Any
    ) -> Iterator[tuple[str, Any]]:  # or any object
        """Yield what a module itself would save, where only parts of it are compared.

        The module of which an optimizer trains a part may have buffers of its own, such as the
        queue of keys beside the encoder that is trained.
        """
        if not is_module(type(module)) or id(module) in self._covered_modules:
            return
        for name, tensor in iterate_own_tensors(module):
            if id(tensor) not in self._compared_tensors:
                yield name, tensor

    def _add_container(self, path: str, value: Any, depth: int) -> None:
        if (size := count_elements(value)) is not None:
            if size > ELEMENTS_MAX:
                self.omitted_paths.append(path)
                return
            text = repr(value) if size <= SHORT_ELEMENTS and has_only_numbers(value) else ""
            read = _copy_deque if type(value) is deque else lambda values: values
            self._add_readable(path, value, read, text)
            return
        if type(value) not in (set, frozenset):
            self._enqueue(path, value, depth)

    def _add_readable(
        self, path: str, value: Any, read: Callable[[Any], Any], text: str = ""
    ) -> None:
        try:
            content = read(value)
            if content is not None:
                self._add_entry(
                    path, content, repr(content) if type(content) in NUMBER_TYPES else text
                )
                return
        except Exception:  # noqa: BLE001, S110 - a tensor without storage, and the like
            pass
        self.omitted_paths.append(path)

    def _add_entry(self, path: str, value: Any, text: str) -> None:
        encoding = Encoding()
        encoding.add(value)
        if text and (len(text) > _TEXT_MAX or _is_secret(path)):
            text = ""
        self._entry_by_path[path] = Held(path=path, digest=encoding.digest(), text=text)


class CopiedValues(NamedTuple):
    """The values of an object at the moment at which another process was given a copy of it."""

    #: paths begin at the object: `.epoch`
    entries: tuple[Held, ...]
    #: of them numbers and texts
    plain_values: Mapping[str, Any]

    @classmethod
    def from_object(cls, value: Any, now_ns: Callable[[], int]) -> "CopiedValues":  # any object
        """Read an object's values now."""
        census = Census(now_ns, wants_all=True)
        census.add_values([("", value)])
        census.expand_all()
        wanted_values = census.wanted_values
        plain_values = {
            path: reached_value.value
            for path, reached_value in wanted_values.items()
            if type(reached_value.value) in PLAIN_TYPES
        }
        return cls(census.entries, plain_values)


# -- what an object holds ----------------------------------------------------------------------


def _copy_deque(value: deque[Any]) -> list[Any]:
    """Return what a deque holds, and its bound: one that was made anew may have lost that alone."""
    return [*value] if value.maxlen is None else [[*value], value.maxlen]


def _iterate_members(value: Any) -> Iterator[tuple[str, Any]]:  # any object
    """Yield what an object stores, by name; nothing of what no census looks into."""
    kind = type(value)
    if kind is MethodType:
        yield "__self__", value.__self__
    elif kind is FunctionType:
        yield from _iterate_closure(value)
    elif kind is GeneratorType:
        yield from _list_variables(value)
    elif kind is type:
        if is_job_file(_find_file(value.__module__)):
            yield from ((n, v) for n, v in vars(value).items() if not n.startswith("__"))
    elif kind in _HOLDERS:
        names = _HOLDERS[kind]
        yield from ((n, v) for n, v in vars(value).items() if not names or n in names)
    elif not issubclass(kind, type) and kind.__module__.partition(".")[0] not in _FOREIGN:
        yield from _iterate_attributes(value, kind)


def find_hook_owners(modules: Iterable[Any]) -> Iterator[tuple[str, Any]]:  # modules of torch
    """Yield the objects of the job that `DistributedDataParallel` calls, by their classes' names.

    A hook that was registered to communicate gradients may hold state, such as the error that
    compression leaves, and nothing else may hold the hook.
    """
    for module in modules:
        # torch 2.13: pairs of the hook and the state that it is called with.
        for hook, state in vars(module).get("_comm_hooks", ()):
            owners = (getattr(hook, "__self__", None), state)
            yield from ((_CLASS_NAME(type(o)), o) for o in owners if o is not None)


def _iterate_closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    if not is_job_file(function.__code__.co_filename):
        return
    cells: tuple[CellType, ...] = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=False):
        try:
            content = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        yield name, content


@cache
def _reads_variables(code: CodeType) -> bool:
    """Return whether a function calls what may read its variables; `model.eval()` does not."""
    readers = _FRAME_READERS.intersection(code.co_names)
    return bool(readers - {"eval"}) or any(
        (instruction.opname, instruction.argval) == ("LOAD_GLOBAL", "eval")
        for instruction in (dis.get_instructions(code) if readers else ())
    )


def _list_variables(generator: Any) -> list[tuple[str, Any]]:  # what it returns
    """Return the variables of a function of the job that yields, while it waits."""
    frame, code = generator.gi_frame, generator.gi_code
    if frame is None or generator.gi_running or not is_job_file(code.co_filename):
        return []
    if _reads_variables(code):
        return []
    local_values = frame.f_locals
    variables = list(local_values.items())
    if type(local_values) is dict:  # as of a function that runs
        local_values.clear()
    return variables


def _iterate_attributes(value: Any, kind: type) -> Iterator[tuple[str, Any]]:  # any object
    """Yield the attributes of an object as they are stored: no code of its class is called."""
    names, kind_facts = list_attributes(value, kind), _find_kind_facts(kind)
    if kind_facts.is_module:
        unsaved_buffers = names.get("_non_persistent_buffers_set", ())
        if unsaved_buffers:
            yield from (
                (buffer_name, buffer)
                for buffer_name, buffer in names.get("_buffers", {}).items()
                if buffer_name in unsaved_buffers
            )
        yield from names.get("_modules", {}).items()
        if kind_facts.is_wrapper:
            return
    skipped, hides, is_sized = (
        kind_facts.skipped_names,
        kind_facts.hides_private,
        kind_facts.has_fixed_sizes,
    )
    for name, attribute in list(names.items()):
        if name in skipped or (hides and name[:1] == "_"):
            continue
        if not is_sized or type(attribute) not in _SIZES or name == "training":
            yield name, attribute


class _KindFacts(NamedTuple):
    """A class, by what a census leaves out of its objects."""

    is_module: bool
    #: all that it holds is of another module, or its machinery
    is_wrapper: bool
    skipped_names: frozenset[str]
    #: torch's own private attributes are of its machinery, such as DDP's buckets
    hides_private: bool
    #: the sizes of torch's modules stay as they are: a rate of dropout may not
    has_fixed_sizes: bool


_kinds: dict[int, tuple[type, _KindFacts]] = {}  # by id, likewise


def _find_kind_facts(kind: type) -> _KindFacts:
    cached = _kinds.get(id(kind))
    if cached is None:
        module, skipped = kind.__module__, _OWN_OF_OPTIMIZERS if is_optimizer(kind) else frozenset()
        skipped = _find_module_attributes() if is_module(kind) else skipped
        hides, is_sized = module.startswith("torch."), module.startswith("torch.nn.modules.")
        wraps = module.startswith(_WRAPPERS)
        kind_facts = _KindFacts(is_module(kind), wraps, skipped, hides, is_sized)
        cached = _kinds[id(kind)] = kind, kind_facts
    return cached[1]


def _find_depth_max(kind: type) -> int:
    is_container = kind in SEQUENCE_TYPES or kind in MAPPING_TYPES or kind is GeneratorType
    return OWN_DEPTH_MAX if is_container or _is_job_class(kind) else DEPTH_MAX


def _is_job_class(kind: type) -> bool:
    """Return whether a class is one of the job's own."""
    return is_job_file(_find_file(kind.__module__))


@cache
def _find_module_attributes() -> frozenset[str]:
    from torch import nn

    return frozenset(vars(nn.Module())) - {"training"}


def _find_file(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or ""
