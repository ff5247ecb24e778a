"""What surviving work saved, beside what the baseline saved at the same place.

Bytes are no proof: a file may say that its run was resumed, and a state that
was loaded is pickled in another way than one that was made. What a file counts
is more: a job goes on from it. No proof either, for it may count from its last
start and go on rightly; so it is in doubt until a restart from it is seen, which
other checks judge.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import TypeAlias

from chaos.check.contents import is_redone
from chaos.check.files import series_of
from chaos.check.stored import stored
from chaos.check.trial import Course
from chaos.check.values import is_below
from chaos.model.event import FileSaved

_Place: TypeAlias = tuple[int, int, int]  # rank, epoch, step
_File: TypeAlias = tuple[int, str]  # a rank, and its file's name with `#` for its numbers
_Told: TypeAlias = Mapping[tuple[_File, _Place], FileSaved]


@dataclass(frozen=True, slots=True)
class OtherCount:
    """A number in a file that counts otherwise than the baseline's at the same place."""

    number: int
    saved: FileSaved
    name: str
    ours: int
    due: int


@dataclass(frozen=True)
class Saved:
    """Files of a run beside its baseline's; `began` is the first fault's event number.

    Counts are compared `until` the first step that may be made again (at least once).
    """

    run: Course
    reference: Course
    began: int
    resized: frozenset[int] = frozenset()
    ignore: tuple[str, ...] = ()
    until: float = math.inf

    def other_counts(self) -> Iterator[OtherCount]:
        """Give the counts that a restart may go wrong by, and that none has tried.

        A count grows from each of the baseline's saves of a file to the next,
        and had its values before the fault.
        """
        found = list(self._other_counts())
        odd = {other.number for other in found}
        tried = {(_file(saved), name) for saved in self._gone_on_from(odd) for name in saved.counts}
        yield from (other for other in found if (_file(other.saved), other.name) not in tried)

    def _other_counts(self) -> Iterator[OtherCount]:
        due, proven = _told(self.reference), self._proven
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
        """Give the files of checkpoints that differ, each with the first epoch where it does.

        Those alone that had the baseline's bytes before the fault, and never other ones there.
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
        """Give, of these files, those that were the newest of their kind as an attempt trained."""
        kept = list(_surviving(self.run))
        for attempt in self.run.attempts:
            earlier = [item for item in kept if item[1].attempt < attempt.index]
            newest = {_file(saved): (number, saved) for number, saved in earlier}
            if attempt.steps:
                yield from (saved for number, saved in newest.values() if number in odd)

    @cached_property
    def _proven(self) -> frozenset[tuple[_File, str]]:
        """Name the counts of the baseline that were seen once more before the fault."""
        due = _told(self.reference)
        found, broken = set[tuple[_File, str]](), set[tuple[_File, str]]()
        for number, saved in self.run.history.of(FileSaved):
            there = due.get(_key(saved))
            if number >= self.began or there is None:
                continue
            for name, value in there.counts.items():
                key = (_file(saved), name)
                (found if saved.counts.get(name) == value else broken).add(key)
        growing = {key for key, values in _series(self.reference).items() if _grows(values)}
        named = {key for key in growing if not is_below(key[1], self.ignore)}
        return frozenset((found - broken) & named)

    def _parts(self) -> Iterator[tuple[int, _File, int, bool]]:
        """Give every file of a surviving commit that the baseline's of its epoch has as well."""
        mine, theirs = stored(self.run).parts, stored(self.reference).parts
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


def _surviving(course: Course) -> Iterator[tuple[int, FileSaved]]:
    """Give what was saved in work that no later attempt did again."""
    starts = [a for a in course.attempts if a.place is not None]
    for number, saved in course.history.of(FileSaved):
        later = (a for a in starts if a.index > saved.attempt)
        if not any(is_redone(saved, attempt) for attempt in later):
            yield number, saved


def _told(course: Course) -> _Told:
    return {_key(saved): saved for _, saved in _surviving(course)}


def _series(course: Course) -> Mapping[tuple[_File, str], Sequence[int]]:
    found: dict[tuple[_File, str], list[int]] = {}
    for saved in _told(course).values():
        for name, value in saved.counts.items():
            found.setdefault((_file(saved), name), []).append(value)
    return found


def _grows(values: Sequence[int]) -> bool:
    return len(values) > 1 and all(one < other for one, other in pairwise(values))


def _key(saved: FileSaved) -> tuple[_File, _Place]:
    return _file(saved), (saved.rank, saved.epoch, saved.step)


def _file(saved: FileSaved) -> _File:
    return saved.rank, series_of(PurePath(saved.path).name)
