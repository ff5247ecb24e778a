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

from chaos.model.events.state import IN_LOADER
from chaos.model.places import Place
from chaos.probe.state.stored import is_module, saved_tensors

FOLDER = "census"  # in the folder of a run
LOOK, KEEP, GIVE = "look.json", "keep.json", "give.json"
GIVEN = "given"  # begins the name of a rank's list of what it was given
GENERATORS = "generators"  # likewise of the generators among it


_WITHOUT_LOOPS = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"})


class Reached(NamedTuple):
    """A value of a census, what holds it, and by which name."""

    value: Any
    holder: Any
    name: Any


Loop: TypeAlias = tuple[str, int, int]
Moment: TypeAlias = int | None  # the number of a loop, the outermost first; None: the first call


class Orders:
    """The orders of a run, for one rank of one attempt; usually none."""

    def __init__(self, folder: Path, *, attempt: int, rank: int) -> None:
        self._folder, self._rank, self._who = folder, rank, f"{attempt}-{rank}"
        keep, give = _read(folder / KEEP), _read(folder / GIVE)
        look = keep or _read(folder / LOOK)
        self.keeps = bool(keep)
        #: those at which a census is taken where loops begin
        self.places = {Place(*place) for place in look.get("places", ())}
        due = give.get("attempts", {}).get(str(attempt))
        self._due = None if due is None else Path(give["from"]) / self._file(Place(*due))
        self._source = self._due
        is_due = bool(self.places) or self._source is not None
        self.wanted = frozenset((look or give)["paths"]) if is_due else frozenset()
        #: the bodies of loops: a file, the first line, the last
        self.loops: list[Loop] = [*map(tuple, (look or give)["loops"])] if is_due else []
        #: pickled one by one: what cannot be pickled is not kept
        self._held: dict[Moment, dict[str, bytes]] = {}
        self._given: dict[str, Moment] = {}
        self._generators: set[str] = set()
        self._had: set[Moment] = set()

    @property
    def is_over(self) -> bool:
        """Whether nothing is kept, and all that is due was given."""
        return not self.places and self._source is None

    def again(self) -> None:
        """Make due once more what was given: steps came before the save was read."""
        self._source = self._due
        self._had.clear()

    def asks(self, moment: Moment, place: Place) -> bool:
        """Return whether values are kept, or given, as training comes to a moment at a place."""
        is_outer = moment not in (None, len(self.loops) - 1)
        if self._source is not None:  # an outer loop goes on once with the epoch of the resume
            return not is_outer or moment not in self._had
        # Until the first step of an epoch the place may still be the last of the epoch before.
        ends = place.step > 0 and Place(place.epoch + 1, 0) in self.places
        return bool(self.places) and (is_outer or place in self.places or ends)

    def reached(self, moment: Moment, reached: Mapping[str, Reached]) -> bool:
        """Hold the values, or give those that are due; return whether any was given."""
        self._had.add(moment)
        if self.keeps:
            # At once: a container is another's as soon as training goes on.
            pickled = {path: _pickled(one.value) for path, one in reached.items()}
            self._held[moment] = {path: one for path, one in pickled.items() if one is not None}
        if self._source is None:
            return False
        # The file is one that `chaos explain` has let the same job write.
        kept: dict[Moment, dict[str, bytes]] = pickle.loads(self._source.read_bytes())  # noqa: S301
        values = kept.get(moment, {})
        both = self.wanted & reached.keys() & values.keys()
        given = [
            path
            for path in sorted(both)
            if not path.endswith(IN_LOADER) and put(reached[path], pickle.loads(values[path]))  # noqa: S301 - likewise
        ]
        self._given |= dict.fromkeys(given, moment)
        self._generators |= {p for p in given if type(reached[p].value) in generators()}
        if moment is None:
            self._source = None
            for name, paths in ((GIVEN, self._given), (GENERATORS, self._generators)):
                listed = self._folder / f"{name}-{self._who}.json"
                listed.write_text(json.dumps(sorted(paths)), encoding="utf-8")
        return bool(given)

    @property
    def copied(self) -> Mapping[str, str]:
        """By its path, each wanted value of a loader's processes."""
        return {p.removesuffix(IN_LOADER): p for p in self.wanted if p.endswith(IN_LOADER)}

    def give_to_copies(self, reached: Mapping[str, Reached]) -> Callable[[], None]:
        """Set values of an object that is about to be copied; return what takes them back."""
        source, before = self._source, []
        if source is None:
            return lambda: None
        kept: dict[Moment, dict[str, bytes]] = pickle.loads(source.read_bytes())  # noqa: S301
        values = kept.get(None, {})
        for base, path in self.copied.items():
            if base in reached and path in values:
                before.append(reached[base])
                put(reached[base], pickle.loads(values[path]))  # noqa: S301 - as above
                self._given[path] = None

        def take_back() -> None:
            for one in before:
                put(one, one.value)

        return take_back

    def at(self, place: Place) -> None:
        """Write the values that are held, if they are those of a place that is asked for."""
        if self.keeps and place in self.places:
            (self._folder / self._file(place)).write_bytes(pickle.dumps(self._held))

    def _file(self, place: Place) -> str:
        return f"kept-{self._rank}-{place.epoch}-{place.step}.pkl"


class LoopTrace:
    """A trace that calls `begun` with the number of a loop, and the frame, as its body begins."""

    def __init__(self, loops: Iterable[Loop], begun: Callable[[int, FrameType], None]) -> None:
        self._loops = {
            (file, first): (number, last) for number, (file, first, last) in enumerate(loops)
        }
        self._files = {file for file, _ in self._loops}
        self._begun = begun

    def start(self) -> None:
        """Begin with the functions that run, and with those that this and new threads call."""
        threading.settrace(self._calls)
        sys.settrace(self._calls)
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as a debugger does
        while frame is not None:
            if frame.f_code.co_filename in self._files:
                frame.f_trace = self._tracer(0)
            frame = frame.f_back

    @staticmethod
    def stop() -> None:
        threading.settrace(None)  # as Python's own documentation has it
        sys.settrace(None)

    def _calls(self, frame: FrameType, _: str, __: Any) -> Any:  # a trace function, or None
        # A comprehension on the first line of a body runs in a frame of its own, after what it
        # goes over was made: it is no body that begins.
        code = frame.f_code
        has_loops = code.co_name not in _WITHOUT_LOOPS and code.co_filename in self._files
        return self._tracer(0) if has_loops else None

    def _tracer(self, line: int) -> Any:  # a trace function of one call, which was at this line
        def lines(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal line
            before, line = line, frame.f_lineno
            number, last = self._loops.get((frame.f_code.co_filename, line), (None, 0))
            # Not from within the body: it may begin with a loop, which comes back to its line.
            if event == "line" and number is not None and not line <= before <= last:
                self._begun(number, frame)
                # Up to Python 3.12 what `f_locals` holds as a trace function returns is written to
                # the variables: it has to be what they are, whatever the census has made of it.
                frame.f_locals  # noqa: B018
            return lines

        return lines


def global_generators() -> dict[str, Any]:
    """Return the generators that modules share, by the names of their parts of the state."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    found: dict[str, Any] = {"rng.python": random._inst}  # noqa: SLF001
    if torch is not None:
        found["rng.torch"] = torch.default_generator
    if numpy is not None:
        found["rng.numpy"] = numpy.random.mtrand._rand  # noqa: SLF001 - what `seed` seeds
    return found


def put(reached: Reached, new: Any) -> bool:  # what `_content` returned
    """Set a value to another one; return whether it could be set."""
    old, holder, name = reached
    if type(holder) is GeneratorType:  # a function of the job that yields
        holder = holder.gi_frame
    fill = _filler(old)
    if fill is not None and _is_alike(old, new):
        fill(old, new)
        return True
    if type(holder) is FrameType:
        _put_variable(holder, name, new)
        return True
    if type(holder) is FunctionType:
        cells = dict(zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=False))
        cells[name].cell_contents = new
    elif isinstance(holder, dict | list | deque):
        holder[name] = new
    elif isinstance(holder, type):
        setattr(holder, name, new)
    elif isinstance(holder, tuple):
        return False
    else:
        object.__setattr__(holder, name, new)
    return True


def _put_variable(frame: FrameType, name: str, new: Any) -> None:
    frame.f_locals[name] = new
    if sys.version_info < (3, 13):  # from then on it writes through (PEP 667)
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


class Generator(NamedTuple):
    """The functions that read and set the state of a kind of generator."""

    get: Callable[[Any], Any]
    set: Callable[[Any, Any], object]


def generators() -> Mapping[type, Generator]:
    """Return the kinds of generators of random numbers, of the libraries that are imported."""
    return _generators(sys.modules.get("torch"), sys.modules.get("numpy"))


@cache
def _generators(torch: Any, numpy: Any) -> Mapping[type, Generator]:  # modules, or None
    found: dict[type, Generator] = {}
    found[random.Random] = Generator(random.Random.getstate, random.Random.setstate)
    if torch is not None:
        found[torch.Generator] = Generator(
            lambda it: it.get_state(), lambda it, to: it.set_state(to)
        )
    if numpy is not None:
        own = numpy.random
        found[own.RandomState] = Generator(
            lambda it: it.get_state(legacy=False), lambda it, to: it.set_state(to)
        )
        found[own.Generator] = Generator(
            lambda it: it.bit_generator.state, lambda it, to: setattr(it.bit_generator, "state", to)
        )
    return found


def _content(value: Any) -> Any:  # a value of a census
    """Return what is kept of a value: the state of a generator or a module, else the value."""
    if is_module(type(value)):
        return [tensor.detach() for tensor in saved_tensors(value)]
    if type(value) is defaultdict:  # its factory may be a function of the job, and stays there
        return dict(value)
    generator = generators().get(type(value))
    return value if generator is None else generator.get(value)


def _pickled(value: Any) -> bytes | None:  # likewise
    """Return what is kept of a value; None for what cannot be pickled."""
    try:
        return pickle.dumps(_content(value))
    except Exception:  # noqa: BLE001 - a lock, a function of the job, an object that refuses
        return None


def _is_alike(old: Any, new: Any) -> bool:
    """Return whether content of one fits into the other; True where that is no question."""
    if isinstance(old, deque):
        return isinstance(new, deque) and old.maxlen == new.maxlen
    return getattr(old, "shape", None) == getattr(new, "shape", None) or not hasattr(old, "shape")


def _filler(old: Any) -> Callable[[Any, Any], object] | None:
    """Return what gives an object new content; None for one that has to be replaced."""
    torch, numpy, kind = sys.modules.get("torch"), sys.modules.get("numpy"), type(old)
    if (generator := generators().get(kind)) is not None:
        return generator.set
    if is_module(kind):
        return _refill_module
    if torch is not None and issubclass(kind, torch.Tensor):
        return lambda old, new: old.detach().copy_(new)
    if numpy is not None and kind is numpy.ndarray:
        return lambda old, new: old.__setitem__(..., new)
    return _FILLERS.get(kind)


def _refill_module(old: Any, new: Any) -> None:  # a module, and tensors
    for before, tensor in zip(saved_tensors(old), new, strict=True):
        before.detach().copy_(tensor)


def _refill_list(old: list[Any], new: Any) -> None:
    """Replace the members of a list; a tensor stays, as others may hold it, and is filled."""
    if len(old) != len(new):
        old[:] = new
        return
    for place, (before, member) in enumerate(zip(list(old), new, strict=True)):
        put(Reached(before, old, place), member)


def _refill_dict(old: dict[Any, Any], new: Mapping[Any, Any]) -> None:
    """Replace the members of a dictionary, likewise."""
    for key in old.keys() - new.keys():
        del old[key]
    for key, member in new.items():
        put(Reached(old.get(key), old, key), member)


_FILLERS: Mapping[type, Callable[[Any, Any], object]] = {
    list: _refill_list,
    **dict.fromkeys((dict, OrderedDict, defaultdict), _refill_dict),
    set: lambda old, new: (old.clear(), old.update(new)),
    deque: lambda old, new: (old.clear(), old.extend(new)),
}


def _read(path: Path) -> dict[str, Any]:
    try:
        order: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return order
