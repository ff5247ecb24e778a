"""The history: all recorded events of one run, in order."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar, overload

import msgspec

from chaos.model.event import AnyEvent, Event, JournalOpened, RunEnded

HISTORY, BASELINE = "history.jsonl", "baseline.jsonl"

E = TypeVar("E", bound=Event)
T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: an event with its time, its journal, and its number in that journal."""

    time_ns: int
    source: str
    seq: int
    what: AnyEvent


class History(Sequence[Entry]):
    """The merged journals of one run. An event's number is its position here, from 0.

    `torn` names the journals whose last line was cut short; its content is not known. `hidden` are
    the numbers of events that `of` passes over.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        torn: Sequence[str] = (),
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        self.entries = tuple(entries)
        self.torn = tuple(torn)
        self.hidden = hidden
        self._made: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return its entries for another process, without what was computed of them."""
        own = ("entries", "torn", "hidden", "repeats")
        return {**{name: self.__dict__[name] for name in own if name in self.__dict__}, "_made": {}}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` returned when it was first asked for by this name.

        A baseline serves many runs: what is computed of it alone is kept with it.
        """
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        return self.entries[index]

    def of(self, kind: type[E]) -> Iterator[tuple[int, E]]:
        """Yield the events of one kind in order, each with its number."""
        entries = self.entries
        for number in self._numbers_of(kind):
            what: E = entries[number].what  # type: ignore[assignment] # found by its kind
            yield number, what

    def numbers_of(self, *kinds: type[Event]) -> Sequence[int]:
        """Return the numbers of all events of several kinds, in order."""
        found = array("I")
        for kind in kinds:
            found.extend(self._numbers_of(kind))
        return sorted(found)

    def count(self, kind: type[Event]) -> int:
        return len(self._numbers_of(kind))

    def _numbers_of(self, kind: type[Event]) -> Sequence[int]:
        exact = self._by_kind.get(kind)
        if exact is not None:
            return exact
        kinds = [numbers for of, numbers in self._by_kind.items() if issubclass(of, kind)]
        return sorted(number for numbers in kinds for number in numbers)

    @cached_property
    def tokens(self) -> dict[str, set[str]]:
        """The tokens of the runs that its journals belong to, each with the journals that carry it.

        Journals of an older chaos carry none.
        """
        found: dict[str, set[str]] = {}
        for number, opened in self.of(JournalOpened):
            if opened.token is not None:
                found.setdefault(opened.token, set()).add(self.entries[number].source)
        return found

    @cached_property
    def missing(self) -> dict[str, int]:
        """The first missing line, from 0, of each journal that is not whole.

        Each journal numbers its lines, and at the end the harness records their number; lines that
        killed workers did not write were never counted. A history without the first lines of
        journals was not recorded, but written by hand.
        """
        if not self.count(JournalOpened):
            return {}
        seen: dict[str, list[int]] = {}
        for entry in self.entries:
            seen.setdefault(entry.source, []).append(entry.seq)
        due = {s: n for _, ended in self.of(RunEnded) for s, n in ended.lines.items()}
        found = {s: _first_missing(seen.get(s, []), due.get(s, 0)) for s in {**seen, **due}}
        return {source: line for source, line in found.items() if line is not None}

    @cached_property
    def _by_kind(self) -> "dict[type[Event], array[int]]":
        """The numbers of each kind of event: four bytes an event, made in one pass at first use."""
        found: defaultdict[type[Event], array[int]] = defaultdict(partial(array, "I"))
        # A check asks for its own kinds of events: without an index each check would read the whole
        # history.
        for number, kind in enumerate([type(entry.what) for entry in self.entries]):
            if number not in self.hidden:
                found[kind].append(number)
        return dict(found)

    def time_ns(self, number: int) -> int:
        """Return the time of event `number`, in monotonic nanoseconds."""
        return self.entries[number].time_ns


class Baseline(History):
    """A run without faults, with its repeats where one is not enough."""

    def __init__(self, runs: Sequence[History]) -> None:
        first, *repeats = runs
        super().__init__(first.entries, torn=first.torn)
        self.repeats = tuple(repeats)

    @property
    def runs(self) -> tuple[History, ...]:
        """All clean runs; the first is the one that others are compared with."""
        return self, *self.repeats


def _first_missing(numbers: list[int], due: int) -> int | None:
    """Return the first of 0, 1, 2, … that is missing, or there twice; None without one."""
    numbers = sorted(numbers)
    # A line that is there twice is as wrong as a hole: a file that was put together by hand has
    # them.
    missing = next((n for n, number in enumerate(numbers) if n != number), len(numbers))
    return missing if missing < max(due, len(numbers)) else None


def repeat_name(number: int) -> str:
    """Return the name of the file that keeps a clean run; the first one is number 1."""
    return BASELINE if number == 1 else f"baseline-{number}.jsonl"


def merge(journals: Sequence[Sequence[Entry]], *, torn: Sequence[str] = ()) -> History:
    """Merge journals of one host by time and, at equal times, by source and number."""
    entries = [entry for journal in journals for entry in journal]
    return History(sorted(entries, key=lambda e: (e.time_ns, e.source, e.seq)), torn=torn)
