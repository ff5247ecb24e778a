"""What is in the files that a job writes, entry by entry, beside the baseline's at the same place.

A row is an entry of a file that surviving work wrote after the fault, and that
is known to repeat itself: it was the baseline's wherever else it was seen, in
the second clean run or before the fault. What does not repeat (a clock, a pid, a
path of the run) differs there already, and is no row.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import TypeAlias

from chaos.check.attempt import Attempt
from chaos.check.files import series_of
from chaos.check.trial import Course
from chaos.model.event import FileRenamed, FileSaved, FileWritten, SavedPart

_Place: TypeAlias = tuple[int, int]  # epoch, step
_File: TypeAlias = tuple[int, str]  # a rank, and its file's name with `#` for its numbers
_Entry: TypeAlias = tuple[_File, str]  # a file, and the name of a part of it
_TEMPORARY = re.compile(r"tmp[a-z0-9_#]{8}")


@dataclass(frozen=True, slots=True)
class Kept:
    """One file as it was written; `nth`: of those that its rank wrote of it at this place."""

    number: int
    file: _File
    nth: int
    name: str
    what: FileSaved | FileWritten

    @property
    def place(self) -> _Place:
        """Where training was."""
        return self.what.epoch, self.what.step

    @property
    def folder(self) -> str:
        """The name of the folder that it lies in: a logger may begin another at each start."""
        return PurePath(self.what.path).parent.name

    @property
    def is_table(self) -> bool:
        """Whether it has a line for each of several moments."""
        return self.name.endswith(".csv")

    @property
    def key(self) -> tuple[_File, _Place, int]:
        """By what it is found in another run."""
        return self.file, self.place, self.nth


@dataclass(frozen=True, slots=True)
class Pair:
    """An entry of a file, and the baseline's.

    `moves`, `grows`: it is not one and the same, or of one length, at all of the baseline's
    saves. `is_last`: of the last version that was written at all.
    """

    mine: Kept
    due: Kept
    ours: SavedPart
    theirs: SavedPart
    moves: bool
    grows: bool
    is_last: bool = False

    @property
    def differ(self) -> bool:
        """Whether they are not the same to the last bit."""
        return self.ours.digest != self.theirs.digest


@dataclass(frozen=True)
class Contents:
    """The files of a run beside its baseline's; `began` is the first fault's event number.

    `repeats` are other clean runs. Attempts that are `resized` have no counterpart.
    """

    run: Course
    reference: Course
    began: int
    repeats: Sequence[Course] = ()
    resized: frozenset[int] = frozenset()

    def pairs(self) -> Iterator[Pair]:
        """Give the entries of what surviving work wrote since the fault, beside the baseline's."""
        for mine in surviving(self.run):
            due = self._due.get(mine.key)
            if due is None or mine.number < self.began or mine.what.attempt in self.resized:
                continue
            yield from self._proven_pairs(mine, due)

    def last(self) -> Iterator[Pair]:
        """Give the entries of each file's last version, where it is not of the baseline's place."""
        mine, due = _last_of(surviving(self.run)), _last_of(self._due.values())
        others = [_last_of(surviving(run)) for run in self.repeats]
        for file, kept in mine.items():
            there = due.get(file)
            if there is None or kept.key == there.key or kept.number < self.began:
                continue
            places = {other[file].place for other in others if file in other}
            if not (kept.is_table and kept.folder != there.folder) and (
                kept.what.attempt not in self.resized and places <= {there.place}
            ):
                yield from self._proven_pairs(kept, there, is_last=True)

    def missing(self) -> Iterator[Kept]:
        """Give the files that every clean run left, of more than one, and this run never wrote."""
        ours = {kept.file for kept in written(self.run)}
        theirs = [{kept.file for kept in written(run)} for run in self.repeats]
        if theirs and not self.resized:
            for file, kept in _last_of(self._due.values()).items():
                if file not in ours and all(file in of for of in theirs):
                    yield kept

    @cached_property
    def _due(self) -> Mapping[tuple[_File, _Place, int], Kept]:
        return {kept.key: kept for kept in surviving(self.reference)}

    def _proven_pairs(self, mine: Kept, due: Kept, *, is_last: bool = False) -> Iterator[Pair]:
        ours = _parts(mine)
        for name, theirs in _parts(due).items():
            entry = due.file, name
            if entry in self._proven and name in ours:
                moves = self._moves(entry)
                grows = due.is_table or self._counts[entry] > 1
                yield Pair(mine, due, ours[name], theirs, moves, grows, is_last)

    @cached_property
    def _proven(self) -> frozenset[_Entry]:
        """Name the entries that were the baseline's wherever nothing had been done to the job."""
        early = [kept for kept in written(self.run) if kept.number < self.began]
        clean = [*early, *(kept for run in self.repeats for kept in written(run))]
        same, other = set[_Entry](), set[_Entry]()
        for kept in clean:
            due = self._due.get(kept.key)
            ours = _parts(kept)
            for name, theirs in _parts(due).items() if due is not None else ():
                is_same = name in ours and ours[name].digest == theirs.digest
                (same if is_same else other).add((kept.file, name))
        return frozenset(same - other)

    def _moves(self, entry: _Entry) -> bool:
        """Say whether it is not one and the same at all of the baseline's saves, if of several."""
        return self._digests[entry] > 1 or self._saves[entry[0]] == 1

    @cached_property
    def _saves(self) -> Mapping[_File, int]:
        return Counter(kept.file for kept in self._due.values())

    @cached_property
    def _digests(self) -> Mapping[_Entry, int]:
        return Counter(entry for entry, _ in {(e, p.digest) for e, p in self._entries()})

    @cached_property
    def _counts(self) -> Mapping[_Entry, int]:
        return Counter(entry for entry, _ in {(e, p.count) for e, p in self._entries()})

    def _entries(self) -> Iterator[tuple[_Entry, SavedPart]]:
        for kept in self._due.values():
            yield from (((kept.file, name), part) for name, part in _parts(kept).items())


def written(course: Course) -> Iterator[Kept]:
    """Give every file that was written, under the name that it got in the end."""
    renames = list(course.history.of(FileRenamed))
    found: list[tuple[int, FileSaved | FileWritten]] = []
    found += course.history.of(FileSaved)
    found += course.history.of(FileWritten)
    nths: Counter[object] = Counter()
    for number, what in sorted(found, key=lambda item: item[0]):
        path = PurePath(_final(number, what, renames))
        file = (what.rank, _TEMPORARY.sub("tmp#", series_of(path.name)))
        place = (what.attempt, file, what.epoch, what.step)
        yield Kept(number, file, nths[place], path.name, what)
        nths[place] += 1


def surviving(course: Course) -> Iterator[Kept]:
    """Give what was written in work that no later attempt did again."""
    starts = [a for a in course.attempts if a.place is not None]
    for kept in written(course):
        later = (a for a in starts if a.index > kept.what.attempt)
        if not any(is_redone(kept.what, attempt) for attempt in later):
            yield kept


def is_redone(what: FileSaved | FileWritten, attempt: Attempt) -> bool:
    """Return whether a later attempt did the work again after which a file was written."""
    start = attempt.starts.get(what.rank)
    place = start.place if start is not None and start.settled else attempt.place
    assert place is not None
    at = (what.epoch, what.step)
    return at > place or (at == place and what.step == 0)


def _final(
    number: int,
    what: FileSaved | FileWritten,
    renames: Sequence[tuple[int, FileRenamed]],
) -> str:
    """Give the name that a file was renamed to once it was written; what follows is another's."""
    for when, moved in renames:
        is_one = (moved.attempt, moved.rank) == (what.attempt, what.rank)
        if is_one and when > number and _is_below(what.path, moved.path):
            return moved.to + what.path.removeprefix(moved.path)
    return what.path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _parts(kept: Kept) -> Mapping[str, SavedPart]:
    return {part.name: part for part in kept.what.parts if part.digest}


def _last_of(files: Iterable[Kept]) -> Mapping[_File, Kept]:
    return {kept.file: kept for kept in files}
