"""Entries and counts of the files that a job writes, compared with the baseline's."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import TypeAlias

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.files import without_numbers
from chaos.check.storage import stored_checkpoints
from chaos.check.values import is_below
from chaos.model.event import FileRenamed, FileSaved, FileWritten, SavedPart
from chaos.model.paths import is_below as is_below_folder
from chaos.model.places import Place, RankName

_Entry: TypeAlias = tuple[RankName, str]  # a file, and the name of a part of it
_TEMPORARY = re.compile(r"tmp[a-z0-9_#]{8}")


@dataclass(frozen=True)
class WrittenFile:
    """One file as it was written."""

    number: int
    file: RankName
    #: its number among those of its name at this place
    nth: int
    name: str
    what: FileSaved | FileWritten

    @property
    def place(self) -> Place:
        return Place(self.what.epoch, self.what.step)

    @property
    def folder(self) -> str:
        """The name of its folder: a logger may begin another one at each start."""
        return PurePath(self.what.path).parent.name

    @property
    def is_table(self) -> bool:
        """Whether it has a line for each of several moments."""
        return self.name.endswith(".csv")

    @cached_property
    def parts(self) -> Mapping[str, SavedPart]:
        """Its entries that could be read, by name."""
        return {part.name: part for part in self.what.parts if part.digest}

    @property
    def digests(self) -> Mapping[_Entry, str]:
        return {(self.file, name): part.digest for name, part in self.parts.items()}

    @property
    def counts(self) -> Mapping[_Entry, int]:
        """The whole numbers in it, under the name that it was written by.

        A temporary name that is another one each time makes them incomparable: such a file is a
        framework's, which may count anew in each process.
        """
        named = RankName(self.what.rank, without_numbers(PurePath(self.what.path).name))
        counts = self.what.counts if isinstance(self.what, FileSaved) else {}
        return {(named, name): value for name, value in counts.items()}

    @property
    def key(self) -> tuple[RankName, Place, int]:
        """Its key in every run."""
        return self.file, self.place, self.nth


@dataclass(frozen=True, slots=True)
class EntryPair:
    """An entry of a file, and the baseline's."""

    mine: WrittenFile
    due: WrittenFile
    ours: SavedPart
    theirs: SavedPart
    #: its content changes over the baseline's saves
    moves: bool
    #: so does its length
    grows: bool
    #: both are of the last version of the file
    is_last: bool = False

    @property
    def differ(self) -> bool:
        """Whether they differ in any bit."""
        return self.ours.digest != self.theirs.digest


@dataclass(frozen=True, slots=True)
class OtherCount:
    """A number in a file that is not the baseline's count at the same place."""

    mine: WrittenFile
    entry: _Entry
    ours: int
    due: int


@dataclass(frozen=True)
class FileContents:
    """The files of a run and its baseline's."""

    analysis: RunAnalysis
    reference: RunTables

    @property
    def run(self) -> RunTables:
        return self.analysis.run

    @cached_property
    def repeats(self) -> Sequence[RunTables]:
        """The other clean runs."""
        return [tables for tables in self.analysis.repeats if tables.ending.is_finished]

    @cached_property
    def until(self) -> float:
        """The first step that may be repeated; from there on nothing need be the baseline's."""
        return min((again.since for again in self.analysis.repeated_steps), default=math.inf)

    # -- entries -------------------------------------------------------------------------------

    def pairs(self) -> Iterator[EntryPair]:
        """Yield the entries that surviving work wrote since the fault, with the baseline's."""
        for mine, due in self._after():
            yield from self._proven_pairs(mine, due)

    def last(self) -> Iterator[EntryPair]:
        """Yield the entries of a file's last version, where its place is not the baseline's."""
        mine, due = _last_of(self._ours), _last_of(self._due.values())
        others = [_last_of(surviving(run)) for run in self.repeats]
        for file, kept in mine.items():
            there = due.get(file)
            if there is None or kept.key == there.key or kept.number < self.analysis.began:
                continue
            # Left out: a table in a new folder, which a logger began anew, and a file whose last
            # place differs between clean runs.
            places = {other[file].place for other in others if file in other}
            if not (kept.is_table and kept.folder != there.folder) and (
                kept.what.attempt not in self.analysis.resized and places <= {there.place}
            ):
                yield from self._proven_pairs(kept, there, is_last=True)

    def missing(self) -> Iterator[WrittenFile]:
        """Yield the files that all of several clean runs left, and this run never wrote."""
        # A file that one attempt has written may be set aside by the next, under another name.
        moved = (e for _, e in self.analysis.history.of(FileRenamed))
        ours = {kept.file for kept in self._written} | {_file(e.rank, e.to) for e in moved}
        theirs = [{kept.file for kept in written(run)} for run in self.repeats]
        if theirs and not self.analysis.resized:
            for file, kept in _last_of(self._due.values()).items():
                if file not in ours and all(file in of for of in theirs):
                    yield kept

    def _proven_pairs(
        self, mine: WrittenFile, due: WrittenFile, *, is_last: bool = False
    ) -> Iterator[EntryPair]:
        # Most of what a job writes need not repeat itself: times, paths, versions, orders of a
        # hash. Only an entry that was the baseline's wherever no fault had come before can show
        # anything after one.
        for name, theirs in due.parts.items():
            entry = due.file, name
            if entry in self._proven and name in mine.parts:
                digests, lengths, saves = self._values[entry]
                # An entry that was saved once only was never seen to stay the same.
                moves, grows = len(digests) > 1 or saves == 1, due.is_table or len(lengths) > 1
                yield EntryPair(mine, due, mine.parts[name], theirs, moves, grows, is_last)

    @cached_property
    def _proven(self) -> frozenset[_Entry]:
        """The entries that were the baseline's wherever no fault had been injected."""
        others = (kept for run in self.repeats for kept in written(run))
        return self._repeating([*self._early, *others], lambda kept: kept.digests)

    @cached_property
    def _values(self) -> Mapping[_Entry, tuple[set[str], set[int | None], int]]:
        """The digests and lengths of each entry in the baseline, and the saves of its file."""
        saves = Counter(kept.file for kept in self._due.values())
        found: dict[_Entry, tuple[set[str], set[int | None], int]] = {}
        for kept in self._due.values():
            for name, part in kept.parts.items():
                row = found.setdefault((kept.file, name), (set(), set(), saves[kept.file]))
                row[0].add(part.digest)
                row[1].add(part.count)
        return found

    # -- counts --------------------------------------------------------------------------------

    def other_counts(self) -> Iterator[OtherCount]:
        """Yield the counts that may mislead a restart, and that no restart of this run has tried.

        A count grows from each of the baseline's saves of a file to the next, and had its values
        before the fault.
        """
        found = [
            OtherCount(mine, entry, mine.counts[entry], value)
            for mine, due in self._after()
            for entry, value in due.counts.items()
            if entry in self._counting
            and mine.number < self.until
            and mine.counts.get(entry, value) != value
        ]
        # A restart that went on from such a file has shown what comes of its counts: if that was
        # wrong, another check has said so, and if not, the count misleads nothing.
        odd = {other.mine.number for other in found}
        tried = {entry for kept in self._gone_on_from(odd) for entry in kept.counts}
        yield from (other for other in found if other.entry not in tried)

    def _gone_on_from(self, odd: set[int]) -> Iterator[WrittenFile]:
        """Yield the `odd` files that were the newest of their kind when an attempt trained."""
        for attempt in self.run.attempts:
            earlier = (kept for kept in self._ours if kept.what.attempt < attempt.index)
            newest = _last_of(kept for kept in earlier if isinstance(kept.what, FileSaved))
            if attempt.steps:
                yield from (kept for kept in newest.values() if kept.number in odd)

    @cached_property
    def _counting(self) -> frozenset[_Entry]:
        """The counts of the baseline that were seen once more before the fault."""
        # Of whole numbers in a file only those that grow from save to save count training. Others
        # are settings, sizes or versions, from which no restart takes a place.
        series: dict[_Entry, dict[Place, int]] = {}
        for kept in self._due.values():
            for entry, value in kept.counts.items():
                series.setdefault(entry, {})[kept.place] = value
        values = {entry: list(of.values()) for entry, of in series.items()}
        growing = {
            entry
            for entry, of in values.items()
            if len(of) > 1 and all(one < other for one, other in pairwise(of))
        }
        ignored = self.analysis.plan.expect.ignore_metrics
        named = {entry for entry in growing if not is_below(entry[1], ignored)}
        return self._repeating(self._early, lambda kept: kept.counts) & named

    # -- checkpoints ---------------------------------------------------------------------------

    def other_bytes(self) -> Mapping[str, int]:
        """Return the files of checkpoints that differ, each with the first epoch where it does.

        Only files that had the baseline's bytes before the fault, and never other ones there.
        """
        pairs, began = list(self._uploads()), self.analysis.began
        same = {file for number, file, _, is_same in pairs if is_same and number < began}
        loose = {file for number, file, _, is_same in pairs if not is_same and number < began}
        found: dict[str, int] = {}
        for number, file, epoch, is_same in pairs:
            if not is_same and number >= began and file in same - loose:
                found[file.name] = min(epoch, found.get(file.name, epoch))
        return found

    def _uploads(self) -> Iterator[tuple[int, RankName, int, bool]]:
        """Yield every file of a surviving commit that the baseline's of its epoch has as well."""
        mine, theirs = stored_checkpoints(self.run).parts, stored_checkpoints(self.reference).parts
        epochs = {c.epoch: c.checkpoint for c in self.reference.lineage.commits}
        for commit in self.run.lineage.commits:
            if commit.attempt in self.analysis.resized:
                continue
            due = {part.rank: part for part in theirs.get(epochs.get(commit.epoch) or "", ())}
            for part in mine.get(commit.checkpoint or "", ()):
                if part.attempt != commit.attempt or part.rank not in due:
                    continue
                others = due[part.rank].files
                for path in sorted(set(part.files) & set(others)):
                    file = RankName(part.rank, without_numbers(path))
                    yield commit.number, file, commit.epoch, part.files[path] == others[path]

    # -- what is compared ----------------------------------------------------------------------

    @cached_property
    def _written(self) -> Sequence[WrittenFile]:
        return tuple(written(self.run))

    @property
    def _early(self) -> Iterator[WrittenFile]:
        return (kept for kept in self._written if kept.number < self.analysis.began)

    @cached_property
    def _ours(self) -> Sequence[WrittenFile]:
        return tuple(surviving(self.run))

    @cached_property
    def _due(self) -> Mapping[tuple[RankName, Place, int], WrittenFile]:
        return {kept.key: kept for kept in surviving(self.reference)}

    def _after(self) -> Iterator[tuple[WrittenFile, WrittenFile]]:
        """Yield the files of surviving work since the fault, each with the baseline's."""
        for mine in self._ours:
            due = self._due.get(mine.key)
            if due is None or mine.what.attempt in self.analysis.resized:
                continue
            if mine.number >= self.analysis.began:
                yield mine, due

    def _repeating(
        self,
        clean: Iterable[WrittenFile],
        values: Callable[[WrittenFile], Mapping[_Entry, object]],
    ) -> frozenset[_Entry]:
        """Return the entries with the baseline's values in all files that no fault came before."""
        same, other = set[_Entry](), set[_Entry]()
        for kept in clean:
            due, ours = self._due.get(kept.key), values(kept)
            for entry, value in values(due).items() if due is not None else ():
                (same if ours.get(entry) == value else other).add(entry)
        return frozenset(same - other)


def unequal_files(first: RunTables, other: RunTables) -> Mapping[str, Sequence[str]]:
    """Return the files that two clean runs left in other states, each with the entries that differ.

    No entries: nothing in the file is equal. What differs without a fault is compared with nothing.
    """
    mine, due = _last_of(surviving(first)), _last_of(surviving(other))
    found: dict[str, Sequence[str]] = {}
    for file in sorted(mine.keys() & due.keys()):
        parts, theirs = mine[file].parts, due[file].parts
        both = sorted(parts.keys() & theirs.keys())
        unequal = [name for name in both if parts[name].digest != theirs[name].digest]
        if unequal:
            found[mine[file].name] = unequal if len(unequal) < len(both) else ()
    return found


@lru_cache(maxsize=2)  # three checks of the run that is being judged use it
def contents_of(analysis: RunAnalysis) -> FileContents:
    """Return the files of a run that has a whole baseline, beside the baseline's."""
    assert analysis.reference is not None
    return FileContents(analysis, analysis.reference)


def written(tables: RunTables) -> Iterator[WrittenFile]:
    """Yield every file that was written, under its final name."""
    renames = list(tables.history.of(FileRenamed))
    nths: Counter[object] = Counter()
    for number in tables.history.numbers_of(FileSaved, FileWritten):
        what = tables.history[number].what
        assert isinstance(what, FileSaved | FileWritten)
        path = _final(number, what, renames)
        file = _file(what.rank, path)
        place = (what.attempt, file, what.epoch, what.step)
        yield WrittenFile(number, file, nths[place], PurePath(path).name, what)
        nths[place] += 1


def _file(rank: int, path: str) -> RankName:
    return RankName(rank, _TEMPORARY.sub("tmp#", without_numbers(PurePath(path).name)))


def surviving(tables: RunTables) -> Iterator[WrittenFile]:
    """Yield the files of work that no later attempt repeated."""
    return (kept for kept in written(tables) if tables.lineage.survives(kept.what))


def _final(
    number: int,
    what: FileSaved | FileWritten,
    renames: Sequence[tuple[int, FileRenamed]],
) -> str:
    """Return the name to which a file was first renamed; later renames are those of other files."""
    for when, moved in renames:
        is_one = (moved.attempt, moved.rank) == (what.attempt, what.rank)
        if is_one and when > number and is_below_folder(what.path, moved.path):
            return moved.to + what.path.removeprefix(moved.path)
    return what.path


def _last_of(files: Iterable[WrittenFile]) -> Mapping[RankName, WrittenFile]:
    return {kept.file: kept for kept in files}
