"""Values of a clean run that are kept at a place, and given to another run as it resumes there.

`chaos explain` writes an order into a run's folder, before the run:

    look.json  the places at which a census is taken where the bodies of the loops begin
    keep.json  likewise, and all values of the census are kept there, in a file for each rank
    give.json  the attempts, each with its place, and the paths that get what another folder keeps

A path is one of a census, or a global generator's. Values are kept, and given, where the bodies of
the job's loops begin in which the model is called, since data is drawn there, and before its first
call. A container, a tensor, an array and a generator get their content where
they are, since other objects may hold them; any other value is put in its place.
"""

import ctypes
import json
import pickle
import random
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType, FunctionType, GeneratorType
from typing import Any, NamedTuple, TypeAlias

from chaos.model.events.state import IN_LOADER, SHARED_STATE
from chaos.model.places import TrainingPlace
from chaos.probe.state.indirect_values import GroupLink, IndirectValue
from chaos.probe.state.stored_attributes import is_module, iterate_saved_tensors

FOLDER = "census"  # in the folder of a run
LOOK, KEEP, GIVE = "look.json", "keep.json", "give.json"
GIVEN = "given"  # begins the name of a rank's list of what it was given
GENERATORS = "generators"  # likewise of the generators among it
#: begins the path of a part of the state, before its name; see `chaos.extensions.controls`
STATE_PART = "state: "


_WITHOUT_LOOPS = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"})


class HeldValue(NamedTuple):
    """A value of a census, what holds it, and by which name."""

    value: Any
    holder: Any
    name: Any


Loop: TypeAlias = tuple[str, int, int]
Moment: TypeAlias = int | None  # the number of a loop, the outermost first; None: the first call


class ValueOrders:
    """The orders of a run, for one rank of one attempt; usually none."""

    def __init__(self, folder: Path, *, attempt: int, rank: int) -> None:
        self._folder, self._rank, self._attempt_rank = folder, rank, f"{attempt}-{rank}"
        keep_order, restore_order = _load_order(folder / KEEP), _load_order(folder / GIVE)
        census_order = keep_order or _load_order(folder / LOOK)
        self.is_keeping = bool(keep_order)
        #: those at which a census is taken where loops begin
        self.census_places = {TrainingPlace(*place) for place in census_order.get("places", ())}
        restore_place = restore_order.get("attempts", {}).get(str(attempt))
        self._restore_file = (
            None
            if restore_place is None
            else Path(restore_order["from"]) / self._build_file_name(TrainingPlace(*restore_place))
        )
        self._pending_file = self._restore_file
        is_active = bool(self.census_places) or self._pending_file is not None
        self.wanted_paths = (
            frozenset((census_order or restore_order)["paths"]) if is_active else frozenset()
        )
        #: parts of the state are asked for, which no path of a census reaches
        self.wants_state = any(path.startswith(STATE_PART) for path in self.wanted_paths)
        #: the bodies of loops: a file, the first line, the last
        self.loops: list[Loop] = (
            [*map(tuple, (census_order or restore_order)["loops"])] if is_active else []
        )
        #: pickled one by one: what cannot be pickled is not kept
        self._values_by_moment: dict[Moment, dict[str, bytes]] = {}
        self._restored_paths: dict[str, Moment] = {}
        self._restored_generators: set[str] = set()
        self._passed_moments: set[Moment] = set()

    @property
    def is_finished(self) -> bool:
        """Whether nothing is kept, and all that is due was given."""
        return not self.census_places and self._pending_file is None

    def restart(self) -> None:
        """Make due once more what was given: steps came before the save was read."""
        self._pending_file = self._restore_file
        self._passed_moments.clear()

    def needs_census(self, moment: Moment, place: TrainingPlace) -> bool:
        """Return whether values are kept, or given, as training comes to a moment at a place."""
        is_outer = moment not in (None, len(self.loops) - 1)
        if (
            self._pending_file is not None
        ):  # an outer loop goes on once with the epoch of the resume
            return not is_outer or moment not in self._passed_moments
        # Until the first step of an epoch the place may still be the last of the epoch before.
        can_end_epoch = place.step > 0 and TrainingPlace(place.epoch + 1, 0) in self.census_places
        return bool(self.census_places) and (
            is_outer or place in self.census_places or can_end_epoch
        )

    def exchange_values(self, moment: Moment, reached: Mapping[str, HeldValue]) -> bool:
        """Hold the values, or give those that are due; return whether any was given."""
        self._passed_moments.add(moment)
        if self.is_keeping:
            # At once: a container is another's as soon as training goes on.
            pickled = {path: _pickle_content(item.value) for path, item in reached.items()}
            self._values_by_moment[moment] = {
                path: item for path, item in pickled.items() if item is not None
            }
        if self._pending_file is None:
            return False
        # The file is one that `chaos explain` has let the same job write.
        values_by_moment: dict[Moment, dict[str, bytes]] = pickle.loads(  # noqa: S301
            self._pending_file.read_bytes()
        )
        values = values_by_moment.get(moment, {})
        shared_paths = self.wanted_paths & reached.keys() & values.keys()
        restored_paths = [
            path
            for path in sorted(shared_paths, key=lambda path: (path.endswith(SHARED_STATE), path))
            if not path.endswith(IN_LOADER) and set_value(reached[path], pickle.loads(values[path]))  # noqa: S301 - likewise
        ]
        self._restored_paths |= dict.fromkeys(restored_paths, moment)
        self._restored_generators |= {
            restored_path
            for restored_path in restored_paths
            if type(reached[restored_path].value) in find_generator_kinds()
        }
        if moment is None:
            self._pending_file = None
            for name, paths in (
                (GIVEN, self._restored_paths),
                (GENERATORS, self._restored_generators),
            ):
                list_file = self._folder / f"{name}-{self._attempt_rank}.json"
                list_file.write_text(json.dumps(sorted(paths)), encoding="utf-8")
        return bool(restored_paths)

    @property
    def loader_paths(self) -> Mapping[str, str]:
        """By its path, each wanted value of a loader's processes."""
        return {
            path.removesuffix(IN_LOADER): path
            for path in self.wanted_paths
            if path.endswith(IN_LOADER)
        }

    def restore_copies(self, reached: Mapping[str, HeldValue]) -> Callable[[], None]:
        """Set values of an object that is about to be copied; return what takes them back."""
        pending_file, changed_values = self._pending_file, []
        if pending_file is None:
            return lambda: None
        values_by_moment: dict[Moment, dict[str, bytes]] = pickle.loads(pending_file.read_bytes())  # noqa: S301
        values = values_by_moment.get(None, {})
        for base, path in self.loader_paths.items():
            if base in reached and path in values:
                changed_values.append(reached[base])
                set_value(reached[base], pickle.loads(values[path]))  # noqa: S301 - as above
                self._restored_paths[path] = None

        def take_back() -> None:
            for changed_value in changed_values:
                set_value(changed_value, changed_value.value)

        return take_back

    def write_values(self, place: TrainingPlace) -> None:
        """Write the values that are held, if they are those of a place that is asked for."""
        if self.is_keeping and place in self.census_places:
            (self._folder / self._build_file_name(place)).write_bytes(
                pickle.dumps(self._values_by_moment)
            )

    def _build_file_name(self, place: TrainingPlace) -> str:
        return f"kept-{self._rank}-{place.epoch}-{place.step}.pkl"


class LoopTrace:
    """A trace that calls `on_loop_begin` with a loop's number, and the frame, as a body begins."""

    def __init__(
        self, loops: Iterable[Loop], on_loop_begin: Callable[[int, FrameType], None]
    ) -> None:
        self._loops = {
            (file, first_line): (number, last_line)
            for number, (file, first_line, last_line) in enumerate(loops)
        }
        self._files = {file for file, _ in self._loops}
        self._on_loop_begin = on_loop_begin

    def start(self) -> None:
        """Begin with the functions that run, and with those that this and new threads call."""
        threading.settrace(self._trace_call)
        sys.settrace(self._trace_call)
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as a debugger does
        while frame is not None:
            if frame.f_code.co_filename in self._files:
                frame.f_trace = self._build_tracer(0)
            frame = frame.f_back

    @staticmethod
    def stop() -> None:
        threading.settrace(None)  # as Python's own documentation has it
        sys.settrace(None)

    def _trace_call(self, frame: FrameType, _: str, __: Any) -> Any:  # a trace function, or None
        # A comprehension on the first line of a body runs in a frame of its own, after what it
        # goes over was made: it is no body that begins.
        code = frame.f_code
        has_loops = code.co_name not in _WITHOUT_LOOPS and code.co_filename in self._files
        return self._build_tracer(0) if has_loops else None

    def _build_tracer(
        self, line: int
    ) -> Any:  # a trace function of one call, which was at this line
        def trace_line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal line
            previous_line, line = line, frame.f_lineno
            number, last_line = self._loops.get((frame.f_code.co_filename, line), (None, 0))
            # Not from within the body: it may begin with a loop, which comes back to its line.
            if event == "line" and number is not None and not line <= previous_line <= last_line:
                self._on_loop_begin(number, frame)
                # Up to Python 3.12 what `f_locals` holds as a trace function returns is written to
                # the variables: it has to be what they are, whatever the census has made of it.
                frame.f_locals  # noqa: B018
            return trace_line

        return trace_line


def find_global_generators() -> dict[str, Any]:
    """Return the generators that modules share, by the names of their parts of the state."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    generator_by_name: dict[str, Any] = {"rng.python": random._inst}  # noqa: SLF001
    if torch is not None:
        generator_by_name["rng.torch"] = torch.default_generator
    if numpy is not None:
        generator_by_name["rng.numpy"] = numpy.random.mtrand._rand  # noqa: SLF001 - what `seed` seeds
    return generator_by_name


def set_value(reached: HeldValue, new_value: Any) -> bool:  # what `_extract_content` returned
    """Set a value to another one; return whether it could be set."""
    old_value, holder, name = reached
    if isinstance(old_value, IndirectValue):
        return old_value.set(new_value)
    if isinstance(old_value, GroupLink):
        if new_value not in old_value.groups_by_key:
            return False
        return _put_value(holder, name, old_value.groups_by_key[new_value])
    fill = _find_filler(old_value)
    if fill is not None and _can_refill(old_value, new_value):
        fill(old_value, new_value)
        return True
    return _put_value(holder, name, new_value)


def _put_value(holder: Any, name: Any, new_value: Any) -> bool:  # any object
    """Put a value in the place of another one; return whether its holder allows it."""
    if type(holder) is GeneratorType:  # a function of the job that yields
        holder = holder.gi_frame
    if type(holder) is FrameType:
        _set_variable(holder, name, new_value)
        return True
    if type(holder) is FunctionType:
        cells = dict(zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=False))
        cells[name].cell_contents = new_value
    elif isinstance(holder, dict | list | deque):
        holder[name] = new_value
    elif isinstance(holder, type):
        setattr(holder, name, new_value)
    elif isinstance(holder, tuple):
        return False
    else:
        object.__setattr__(holder, name, new_value)
    return True


def _set_variable(frame: FrameType, name: str, new_value: Any) -> None:
    frame.f_locals[name] = new_value
    if sys.version_info < (3, 13):  # from then on it writes through (PEP 667)
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


class GeneratorAccess(NamedTuple):
    """The functions that read and set the state of a kind of generator."""

    get_state: Callable[[Any], Any]
    set_state: Callable[[Any, Any], object]


def find_generator_kinds() -> Mapping[type, GeneratorAccess]:
    """Return the kinds of generators of random numbers, of the libraries that are imported."""
    return _build_generator_kinds(sys.modules.get("torch"), sys.modules.get("numpy"))


@cache
def _build_generator_kinds(
    torch: Any, numpy: Any
) -> Mapping[type, GeneratorAccess]:  # modules, or None
    access_by_kind: dict[type, GeneratorAccess] = {}
    access_by_kind[random.Random] = GeneratorAccess(random.Random.getstate, random.Random.setstate)
    if torch is not None:
        access_by_kind[torch.Generator] = GeneratorAccess(
            lambda generator: generator.get_state(),
            lambda generator, new_state: generator.set_state(new_state),
        )
    if numpy is not None:
        numpy_random = numpy.random
        access_by_kind[numpy_random.RandomState] = GeneratorAccess(
            lambda generator: generator.get_state(legacy=False),
            lambda generator, new_state: generator.set_state(new_state),
        )
        access_by_kind[numpy_random.Generator] = GeneratorAccess(
            lambda generator: generator.bit_generator.state,
            lambda generator, new_state: setattr(generator.bit_generator, "state", new_state),
        )
    return access_by_kind


def _extract_content(value: Any) -> Any:  # a value of a census
    """Return what is kept of a value: the state of a generator or a module, else the value."""
    if isinstance(value, IndirectValue):
        return value.extract()
    if isinstance(value, GroupLink):
        return value.key
    if is_module(type(value)):
        return [tensor.detach() for tensor in iterate_saved_tensors(value)]
    if type(value) is defaultdict:  # its factory may be a function of the job, and stays there
        return dict(value)
    generator = find_generator_kinds().get(type(value))
    return value if generator is None else generator.get_state(value)


def _pickle_content(value: Any) -> bytes | None:  # likewise
    """Return what is kept of a value; None for what cannot be pickled."""
    try:
        return pickle.dumps(_extract_content(value))
    except Exception:  # noqa: BLE001 - a lock, a function of the job, an object that refuses
        return None


def _can_refill(old_value: Any, new_value: Any) -> bool:
    """Return whether content of one fits into the other; True where that is no question."""
    if isinstance(old_value, deque):
        return isinstance(new_value, deque) and old_value.maxlen == new_value.maxlen
    return getattr(old_value, "shape", None) == getattr(new_value, "shape", None) or not hasattr(
        old_value, "shape"
    )


def _find_filler(old: Any) -> Callable[[Any, Any], object] | None:
    """Return what gives an object new content; None for one that has to be replaced."""
    torch, numpy, kind = sys.modules.get("torch"), sys.modules.get("numpy"), type(old)
    if (generator := find_generator_kinds().get(kind)) is not None:
        return generator.set_state
    if is_module(kind):
        return _refill_module
    if torch is not None and issubclass(kind, torch.Tensor):
        return lambda old, new: old.detach().copy_(new)
    if numpy is not None and kind is numpy.ndarray:
        return lambda old, new: old.__setitem__(..., new)
    return _FILLERS.get(kind)


def _refill_module(module: Any, new_tensors: Any) -> None:  # a module, and tensors
    for old_tensor, new_tensor in zip(iterate_saved_tensors(module), new_tensors, strict=True):
        old_tensor.detach().copy_(new_tensor)


def _refill_list(old_list: list[Any], new_list: Any) -> None:
    """Replace the members of a list; a tensor stays, as others may hold it, and is filled."""
    if len(old_list) != len(new_list):
        old_list[:] = new_list
        return
    for index, (old_member, member) in enumerate(zip(list(old_list), new_list, strict=True)):
        set_value(HeldValue(old_member, old_list, index), member)


def _refill_dict(old_dict: dict[Any, Any], new_dict: Mapping[Any, Any]) -> None:
    """Replace the members of a dictionary, likewise."""
    for key in old_dict.keys() - new_dict.keys():
        del old_dict[key]
    for key, member in new_dict.items():
        set_value(HeldValue(old_dict.get(key), old_dict, key), member)


_FILLERS: Mapping[type, Callable[[Any, Any], object]] = {
    list: _refill_list,
    **dict.fromkeys((dict, OrderedDict, defaultdict), _refill_dict),
    set: lambda old, new: (old.clear(), old.update(new)),
    deque: lambda old, new: (old.clear(), old.extend(new)),
}


def _load_order(path: Path) -> dict[str, Any]:
    try:
        order: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return order
