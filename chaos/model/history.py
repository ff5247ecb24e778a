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


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: an event with its time, its journal, and its number in that journal."""

    time_ns: int
    source: str
    seq: int
    event: AnyEvent = msgspec.field(name="what")


class History(Sequence[JournalEntry]):
    """The merged journals of one run. An event's number is its position here, from 0.

    `torn` names the journals whose last line was cut short; its content is not known. `hidden` are
    the numbers of events that `select_events` passes over.
    """

    def __init__(
        self,
        entries: Sequence[JournalEntry],
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
        state_names = ("entries", "torn", "hidden", "repeats")
        return {
            **{name: self.__dict__[name] for name in state_names if name in self.__dict__},
            "_made": {},
        }

    def compute_once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what `compute` returned when it was first asked for by this name.

        A baseline serves many runs: what is computed of it alone is kept with it.
        """
        if name not in self._made:
            self._made[name] = compute()
        value: T = self._made[name]
        return value

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> JournalEntry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JournalEntry, ...]: ...
    def __getitem__(self, index: int | slice) -> JournalEntry | tuple[JournalEntry, ...]:
        return self.entries[index]

    def select_events(self, kind: type[E]) -> Iterator[tuple[int, E]]:
        """Yield the events of one kind in order, each with its number."""
        entries = self.entries
        for number in self._find_numbers(kind):
            event: E = entries[number].event  # type: ignore[assignment] # found by its kind
            yield number, event

    def select_numbers(self, *kinds: type[Event]) -> Sequence[int]:
        """Return the numbers of all events of several kinds, in order."""
        event_numbers = array("I")
        for kind in kinds:
            event_numbers.extend(self._find_numbers(kind))
        return sorted(event_numbers)

    def count(self, kind: type[Event]) -> int:
        return len(self._find_numbers(kind))

    def _find_numbers(self, kind: type[Event]) -> Sequence[int]:
        exact_numbers = self._kind_index.get(kind)
        if exact_numbers is not None:
            return exact_numbers
        number_lists = [
            numbers for subkind, numbers in self._kind_index.items() if issubclass(subkind, kind)
        ]
        return sorted(number for numbers in number_lists for number in numbers)

    @cached_property
    def tokens(self) -> dict[str, set[str]]:
        """The tokens of the runs that its journals belong to, each with the journals that carry it.

        Journals of an older chaos carry none.
        """
        journals_by_token: dict[str, set[str]] = {}
        for number, opened in self.select_events(JournalOpened):
            if opened.token is not None:
                journals_by_token.setdefault(opened.token, set()).add(self.entries[number].source)
        return journals_by_token

    @cached_property
    def missing_lines(self) -> dict[str, int]:
        """The first missing line, from 0, of each journal that is not whole.

        Each journal numbers its lines, and at the end the harness records their number; lines that
        killed workers did not write were never counted. A history without the first lines of
        journals was not recorded, but written by hand.
        """
        if not self.count(JournalOpened):
            return {}
        line_numbers: dict[str, list[int]] = {}
        for entry in self.entries:
            line_numbers.setdefault(entry.source, []).append(entry.seq)
        expected_counts = {
            journal: line_count
            for _, ended in self.select_events(RunEnded)
            for journal, line_count in ended.lines.items()
        }
        first_missing = {
            journal: _find_first_missing(
                line_numbers.get(journal, []), expected_counts.get(journal, 0)
            )
            for journal in {**line_numbers, **expected_counts}
        }
        return {source: line for source, line in first_missing.items() if line is not None}

    @cached_property
    def _kind_index(self) -> "dict[type[Event], array[int]]":
        """The numbers of each kind of event: four bytes an event, made in one pass at first use."""
        numbers_by_kind: defaultdict[type[Event], array[int]] = defaultdict(partial(array, "I"))
        # A check asks for its own kinds of events: without an index each check would read the whole
        # history.
        for number, kind in enumerate([type(entry.event) for entry in self.entries]):
            if number not in self.hidden:
                numbers_by_kind[kind].append(number)
        return dict(numbers_by_kind)

    def time_ns(self, number: int) -> int:
        """Return the time of event `number`, in monotonic nanoseconds."""
        return self.entries[number].time_ns


class Baseline(History):
    """A run without faults, with its repeats where one is not enough."""

    def __init__(self, runs: Sequence[History]) -> None:
        main_run, *repeats = runs
        super().__init__(main_run.entries, torn=main_run.torn)
        self.repeats = tuple(repeats)

    @property
    def runs(self) -> tuple[History, ...]:
        """All clean runs; the first is the one that others are compared with."""
        return self, *self.repeats


def _find_first_missing(numbers: list[int], expected_count: int) -> int | None:
    """Return the first of 0, 1, 2, … that is missing, or there twice; None without one."""
    numbers = sorted(numbers)
    # A line that is there twice is as wrong as a hole: a file that was put together by hand has
    # them.
    missing = next(
        (line_index for line_index, number in enumerate(numbers) if line_index != number),
        len(numbers),
    )
    return missing if missing < max(expected_count, len(numbers)) else None


def build_repeat_name(number: int) -> str:
    """Return the name of the file that keeps a clean run; the first one is number 1."""
    return BASELINE if number == 1 else f"baseline-{number}.jsonl"


def merge_journals(
    journals: Sequence[Sequence[JournalEntry]], *, torn: Sequence[str] = ()
) -> History:
    """Merge journals of one host by time and, at equal times, by source and number."""
    entries = [entry for journal in journals for entry in journal]
    return History(sorted(entries, key=lambda e: (e.time_ns, e.source, e.seq)), torn=torn)
