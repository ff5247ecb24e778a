"""Entries and counts of the files that a job writes, compared with the baseline's."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import TypeAlias

from chaos.check.analysis import RunTables
from chaos.check.attempt import Attempt
from chaos.check.files import series_of
from chaos.check.storage import stored_checkpoints
from chaos.check.values import is_below
from chaos.model.event import FileRenamed, FileSaved, FileWritten, SavedPart

_Place: TypeAlias = tuple[int, int]  # epoch, step
_File: TypeAlias = tuple[int, str]  # a rank, and its file's name with `#` for its numbers
_Entry: TypeAlias = tuple[_File, str]  # a file, and the name of a part of it
_TEMPORARY = re.compile(r"tmp[a-z0-9_#]{8}")


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file as it was written; `nth`: its number among those of its name at this place."""

    number: int
    file: _File
    nth: int
    name: str
    what: FileSaved | FileWritten

    @property
    def place(self) -> _Place:
        """The place in training."""
        return self.what.epoch, self.what.step

    @property
    def folder(self) -> str:
        """The name of its folder: a logger may begin another one at each start."""
        return PurePath(self.what.path).parent.name

    @property
    def is_table(self) -> bool:
        """Whether it has a line for each of several moments."""
        return self.name.endswith(".csv")

    @property
    def key(self) -> tuple[_File, _Place, int]:
        """Its key in every run."""
        return self.file, self.place, self.nth


@dataclass(frozen=True, slots=True)
class EntryPair:
    """An entry of a file, and the baseline's.

    `moves`, `grows`: its content, or its length, changes over the baseline's saves. `is_last`: both
    are of the last version of the file.
    """

    mine: WrittenFile
    due: WrittenFile
    ours: SavedPart
    theirs: SavedPart
    moves: bool
    grows: bool
    is_last: bool = False

    @property
    def differ(self) -> bool:
        """Whether they differ in any bit."""
        return self.ours.digest != self.theirs.digest


@dataclass(frozen=True)
class FileContents:
    """The files of a run and its baseline's; `began` is the first fault's event number.

    `repeats` are other clean runs. Attempts that are `resized` have no counterpart.
    """

    run: RunTables
    reference: RunTables
    began: int
    repeats: Sequence[RunTables] = ()
    resized: frozenset[int] = frozenset()

    def pairs(self) -> Iterator[EntryPair]:
        """Yield the entries that surviving work wrote since the fault, with the baseline's."""
        for mine in surviving(self.run):
            due = self._due.get(mine.key)
            if due is None or mine.number < self.began or mine.what.attempt in self.resized:
                continue
            yield from self._proven_pairs(mine, due)

    def last(self) -> Iterator[EntryPair]:
        """Yield the entries of a file's last version, where its place is not the baseline's."""
        mine, due = _last_of(surviving(self.run)), _last_of(self._due.values())
        others = [_last_of(surviving(run)) for run in self.repeats]
        for file, kept in mine.items():
            there = due.get(file)
            if there is None or kept.key == there.key or kept.number < self.began:
                continue
            # Left out: a table in a new folder, which a logger began anew, and a file whose last
            # place differs between clean runs.
            places = {other[file].place for other in others if file in other}
            if not (kept.is_table and kept.folder != there.folder) and (
                kept.what.attempt not in self.resized and places <= {there.place}
            ):
                yield from self._proven_pairs(kept, there, is_last=True)

    def missing(self) -> Iterator[WrittenFile]:
        """Yield the files that all of several clean runs left, and this run never wrote."""
        ours = {kept.file for kept in written(self.run)}
        theirs = [{kept.file for kept in written(run)} for run in self.repeats]
        if theirs and not self.resized:
            for file, kept in _last_of(self._due.values()).items():
                if file not in ours and all(file in of for of in theirs):
                    yield kept

    @cached_property
    def _due(self) -> Mapping[tuple[_File, _Place, int], WrittenFile]:
        return {kept.key: kept for kept in surviving(self.reference)}

    def _proven_pairs(
        self, mine: WrittenFile, due: WrittenFile, *, is_last: bool = False
    ) -> Iterator[EntryPair]:
        ours = _parts(mine)
        for name, theirs in _parts(due).items():
            entry = due.file, name
            if entry in self._proven and name in ours:
                moves = self._moves(entry)
                grows = due.is_table or self._counts[entry] > 1
                yield EntryPair(mine, due, ours[name], theirs, moves, grows, is_last)

    @cached_property
    def _proven(self) -> frozenset[_Entry]:
        """The entries that were the baseline's wherever no fault had been injected."""
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
        """Return whether it differs between the baseline's saves of the file, or has only one."""
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


def written(course: RunTables) -> Iterator[WrittenFile]:
    """Yield every file that was written, under its final name."""
    renames = list(course.history.of(FileRenamed))
    found: list[tuple[int, FileSaved | FileWritten]] = []
    found += course.history.of(FileSaved)
    found += course.history.of(FileWritten)
    nths: Counter[object] = Counter()
    for number, what in sorted(found, key=lambda item: item[0]):
        path = PurePath(_final(number, what, renames))
        file = (what.rank, _TEMPORARY.sub("tmp#", series_of(path.name)))
        place = (what.attempt, file, what.epoch, what.step)
        yield WrittenFile(number, file, nths[place], path.name, what)
        nths[place] += 1


def surviving(course: RunTables) -> Iterator[WrittenFile]:
    """Yield the files of work that no later attempt repeated."""
    starts = [a for a in course.attempts if a.place is not None]
    for kept in written(course):
        later = (a for a in starts if a.index > kept.what.attempt)
        if not any(is_redone(kept.what, attempt) for attempt in later):
            yield kept


def is_redone(what: FileSaved | FileWritten, attempt: Attempt) -> bool:
    """Return whether a later attempt repeated the work after which a file was written."""
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
    """Return the name to which a file was first renamed; later renames are those of other files."""
    for when, moved in renames:
        is_one = (moved.attempt, moved.rank) == (what.attempt, what.rank)
        if is_one and when > number and _is_below(what.path, moved.path):
            return moved.to + what.path.removeprefix(moved.path)
    return what.path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _parts(kept: WrittenFile) -> Mapping[str, SavedPart]:
    return {part.name: part for part in kept.what.parts if part.digest}


def _last_of(files: Iterable[WrittenFile]) -> Mapping[_File, WrittenFile]:
    return {kept.file: kept for kept in files}


_SavePlace: TypeAlias = tuple[int, int, int]  # rank, epoch, step
_SavedFile: TypeAlias = tuple[int, str]  # a rank, and its file's name with `#` for its numbers
_Told: TypeAlias = Mapping[tuple[_SavedFile, _SavePlace], FileSaved]


@dataclass(frozen=True, slots=True)
class OtherCount:
    """A number in a file that is not the baseline's count at the same place."""

    number: int
    saved: FileSaved
    name: str
    ours: int
    due: int


@dataclass(frozen=True)
class SavedFiles:
    """Files of a run and its baseline's; `began` is the first fault's event number.

    Counts are compared `until` the first step that may be repeated (at least once).
    """

    run: RunTables
    reference: RunTables
    began: int
    resized: frozenset[int] = frozenset()
    ignore: tuple[str, ...] = ()
    until: float = math.inf

    def other_counts(self) -> Iterator[OtherCount]:
        """Yield the counts that may mislead a restart, and that no restart of this run has tried.

        A count grows from each of the baseline's saves of a file to the next, and had its values
        before the fault.
        """
        found = list(self._other_counts())
        odd = {other.number for other in found}
        tried = {(_file(saved), name) for saved in self._gone_on_from(odd) for name in saved.counts}
        yield from (other for other in found if (_file(other.saved), other.name) not in tried)

    def _other_counts(self) -> Iterator[OtherCount]:
        due, proven = _saves_by_place(self.reference), self._proven
        for number, saved in _surviving(self.run):
            there = due.get(_key(saved))
            if there is None or saved.attempt in self.resized:
                continue
            if not self.began <= number < self.until:
                continue
            for name, value in there.counts.items():
                ours = saved.counts.get(name)
                if (_file(saved), name) in proven and ours is not None and ours != value:
                    yield OtherCount(number, saved, name, ours, value)

    def other_bytes(self) -> Mapping[str, int]:
        """Return the files of checkpoints that differ, each with the first epoch where it does.

        Only files that had the baseline's bytes before the fault, and never other ones there.
        """
        pairs = list(self._parts())
        same = {file for number, file, _, is_same in pairs if is_same and number < self.began}
        loose = {file for number, file, _, is_same in pairs if not is_same and number < self.began}
        found: dict[str, int] = {}
        for number, file, epoch, is_same in pairs:
            if not is_same and number >= self.began and file in same - loose:
                found[file[1]] = min(epoch, found.get(file[1], epoch))
        return found

    def _gone_on_from(self, odd: set[int]) -> Iterator[FileSaved]:
        """Yield the `odd` files that were the newest of their kind when an attempt trained."""
        kept = list(_surviving(self.run))
        for attempt in self.run.attempts:
            earlier = [item for item in kept if item[1].attempt < attempt.index]
            newest = {_file(saved): (number, saved) for number, saved in earlier}
            if attempt.steps:
                yield from (saved for number, saved in newest.values() if number in odd)

    @cached_property
    def _proven(self) -> frozenset[tuple[_SavedFile, str]]:
        """The counts of the baseline that were seen once more before the fault."""
        due = _saves_by_place(self.reference)
        found, broken = set[tuple[_SavedFile, str]](), set[tuple[_SavedFile, str]]()
        for number, saved in self.run.history.of(FileSaved):
            there = due.get(_key(saved))
            if number >= self.began or there is None:
                continue
            for name, value in there.counts.items():
                key = (_file(saved), name)
                (found if saved.counts.get(name) == value else broken).add(key)
        growing = {key for key, values in _count_series(self.reference).items() if _grows(values)}
        named = {key for key in growing if not is_below(key[1], self.ignore)}
        return frozenset((found - broken) & named)

    def _parts(self) -> Iterator[tuple[int, _SavedFile, int, bool]]:
        """Yield every file of a surviving commit that the baseline's of its epoch has as well."""
        mine, theirs = stored_checkpoints(self.run).parts, stored_checkpoints(self.reference).parts
        epochs = {c.epoch: c.checkpoint for c in self.reference.lineage.commits}
        for commit in self.run.lineage.commits:
            if commit.attempt in self.resized:
                continue
            due = {part.rank: part for part in theirs.get(epochs.get(commit.epoch) or "", ())}
            for part in mine.get(commit.checkpoint or "", ()):
                if part.attempt != commit.attempt or part.rank not in due:
                    continue
                others = due[part.rank].files
                for path in sorted(set(part.files) & set(others)):
                    file = (part.rank, series_of(path))
                    yield commit.number, file, commit.epoch, part.files[path] == others[path]


def _surviving(course: RunTables) -> Iterator[tuple[int, FileSaved]]:
    """Yield the saves of work that no later attempt repeated."""
    starts = [a for a in course.attempts if a.place is not None]
    for number, saved in course.history.of(FileSaved):
        later = (a for a in starts if a.index > saved.attempt)
        if not any(is_redone(saved, attempt) for attempt in later):
            yield number, saved


def _saves_by_place(course: RunTables) -> _Told:
    return {_key(saved): saved for _, saved in _surviving(course)}


def _count_series(course: RunTables) -> Mapping[tuple[_SavedFile, str], Sequence[int]]:
    found: dict[tuple[_SavedFile, str], list[int]] = {}
    for saved in _saves_by_place(course).values():
        for name, value in saved.counts.items():
            found.setdefault((_file(saved), name), []).append(value)
    return found


def _grows(values: Sequence[int]) -> bool:
    return len(values) > 1 and all(one < other for one, other in pairwise(values))


def _key(saved: FileSaved) -> tuple[_SavedFile, _SavePlace]:
    return _file(saved), (saved.rank, saved.epoch, saved.step)


def _file(saved: FileSaved) -> _SavedFile:
    return saved.rank, series_of(PurePath(saved.path).name)
