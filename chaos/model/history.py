"""Everything seen in one run, in order."""

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

import msgspec

from chaos.model.event import AnyEvent, Event

E = TypeVar("E", bound=Event)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: an event with its time, its journal, and its number in that journal."""

    time_ns: int
    source: str
    seq: int
    what: AnyEvent


class History(Sequence[Entry]):
    """The merged journals of one run. An event's number is its place here, from 0.

    `torn` names the journals whose last line was cut short; what stood there
    is not known.
    """

    def __init__(self, entries: Sequence[Entry], *, torn: Sequence[str] = ()) -> None:
        self.entries = tuple(entries)
        self.torn = tuple(torn)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        return self.entries[index]

    def of(self, kind: type[E]) -> Iterator[tuple[int, E]]:
        """Give the events of one kind in order, each with its number."""
        for number, entry in enumerate(self.entries):
            if isinstance(entry.what, kind):
                yield number, entry.what

    def time_ns(self, number: int) -> int:
        """Give the time of event `number`, in monotonic nanoseconds."""
        return self.entries[number].time_ns


def merge(journals: Sequence[Sequence[Entry]], *, torn: Sequence[str] = ()) -> History:
    """Lay journals of one host together, by time and, at equal times, by source and number."""
    entries = [entry for journal in journals for entry in journal]
    return History(sorted(entries, key=lambda e: (e.time_ns, e.source, e.seq)), torn=torn)
