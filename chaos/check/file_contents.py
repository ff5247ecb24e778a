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
from chaos.check.storage import collect_checkpoints
from chaos.check.values import matches_name
from chaos.model.event import FileRenamed, FileSaved, FileWritten, SavedPart
from chaos.model.paths import is_in_folder as is_below_folder
from chaos.model.places import RankName, TrainingPlace
from chaos.resume.files import strip_numbers

_Entry: TypeAlias = tuple[RankName, str]  # a file, and the name of a part of it
_FilesByPlace: TypeAlias = Mapping[tuple[RankName, TrainingPlace, int], Sequence["WrittenFile"]]
_TEMPORARY = re.compile(r"tmp[a-z0-9_#]{8}")


@dataclass(frozen=True)
class WrittenFile:
    """One file as it was written."""

    number: int
    file: RankName
    #: its number among those of its name at this place
    occurrence: int
    name: str
    event: FileSaved | FileWritten

    @property
    def training_place(self) -> TrainingPlace:
        return TrainingPlace(self.event.epoch, self.event.step)

    @property
    def folder(self) -> str:
        """The name of its folder: a logger may begin another one at each start."""
        return PurePath(self.event.path).parent.name

    @property
    def is_table(self) -> bool:
        """Whether it has a line for each of several moments."""
        return self.name.endswith(".csv")

    @cached_property
    def parts(self) -> Mapping[str, SavedPart]:
        """Its entries that could be read, by name."""
        return {part.name: part for part in self.event.parts if part.digest}

    @cached_property
    def digests(self) -> Mapping[_Entry, str]:
        return {(self.file, name): part.digest for name, part in self.parts.items()}

    @property
    def counts(self) -> Mapping[_Entry, int]:
        """The whole numbers in it, under the name that it was written by.

        A temporary name that is another one each time makes them incomparable: such a file is a
        framework's, which may count anew in each process.
        """
        file = RankName(self.event.rank, strip_numbers(PurePath(self.event.path).name))
        counts = self.event.counts if isinstance(self.event, FileSaved) else {}
        return {(file, name): value for name, value in counts.items()}

    @property
    def key(self) -> tuple[RankName, TrainingPlace, int]:
        """Its key in every run."""
        return self.file, self.training_place, self.occurrence


@dataclass(frozen=True, slots=True)
class EntryPair:
    """An entry of a file, and the baseline's."""

    run_file: WrittenFile
    baseline_file: WrittenFile
    run_part: SavedPart
    baseline_part: SavedPart
    #: its content changes over the baseline's saves
    is_changing: bool
    #: so does its length
    is_growing: bool
    #: both are of the last version of the file
    is_last: bool = False

    @property
    def is_different(self) -> bool:
        """Whether they differ in any bit."""
        return self.run_part.digest != self.baseline_part.digest


@dataclass(frozen=True, slots=True)
class CountDifference:
    """A number in a file that is not the baseline's count at the same place."""

    run_file: WrittenFile
    entry: _Entry
    run_count: int
    baseline_count: int


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
    def repeat_start(self) -> float:
        """The first step that may be repeated; from there on nothing need be the baseline's."""
        return min(
            (repeat.start_number for repeat in self.analysis.repeated_steps), default=math.inf
        )

    # -- entries -------------------------------------------------------------------------------

    def find_pairs(self) -> Iterator[EntryPair]:
        """Yield the entries that surviving work wrote since the fault, with the baseline's."""
        for run_file, baseline_file in self._find_file_pairs():
            if not self._is_new_table(run_file, baseline_file):
                yield from self._find_proven_pairs(run_file, baseline_file)

    def _is_new_table(self, run_file: WrittenFile, baseline_file: WrittenFile) -> bool:
        """Return whether an attempt keeps a table in a folder of its own, as a logger does."""
        # A temporary folder has another name at each save, and says nothing of a new table.
        earlier_folders = {
            written_file.folder
            for written_file in self._all_files
            if written_file.file == run_file.file
            and written_file.event.attempt < run_file.event.attempt
        }
        is_elsewhere = run_file.folder not in {*earlier_folders, baseline_file.folder}
        is_temporary = _TEMPORARY.search(run_file.folder) is not None
        return run_file.is_table and bool(earlier_folders) and is_elsewhere and not is_temporary

    def find_final_pairs(self) -> Iterator[EntryPair]:
        """Yield the entries of a file's last version, where its place is not the baseline's."""
        run_files, baseline_files = (
            _find_latest_files(self._run_files),
            _find_latest_files(self._baseline_files.values()),
        )
        repeat_files = [_find_latest_files(find_surviving_files(run)) for run in self.repeats]
        for file, run_file in run_files.items():
            baseline_file = baseline_files.get(file)
            if (
                baseline_file is None
                or run_file.key == baseline_file.key
                or run_file.number < self.analysis.fault_start
            ):
                continue
            # Left out: a table in a new folder, which a logger began anew, and a file whose last
            # place differs between clean runs.
            clean_places = {
                clean_files[file].training_place
                for clean_files in repeat_files
                if file in clean_files
            }
            if not (run_file.is_table and run_file.folder != baseline_file.folder) and (
                run_file.event.attempt not in self.analysis.resized_attempts
                and clean_places <= {baseline_file.training_place}
            ):
                yield from self._find_proven_pairs(run_file, baseline_file, is_last=True)

    def find_missing_files(self) -> Iterator[WrittenFile]:
        """Yield the files that all of several clean runs left, and this run never wrote."""
        # A file that one attempt has written may be set aside by the next, under another name.
        renames = (rename for _, rename in self.analysis.history.select_events(FileRenamed))
        run_files = {written_file.file for written_file in self._all_files} | {
            _build_file_key(rename.rank, rename.to) for rename in renames
        }
        repeat_files = [
            {written_file.file for written_file in find_written_files(run)} for run in self.repeats
        ]
        if repeat_files and not self.analysis.resized_attempts:
            for file, written_file in _find_latest_files(self._baseline_files.values()).items():
                if file not in run_files and all(file in files for files in repeat_files):
                    yield written_file

    def _find_proven_pairs(
        self, run_file: WrittenFile, baseline_file: WrittenFile, *, is_last: bool = False
    ) -> Iterator[EntryPair]:
        # Most of what a job writes need not repeat itself: times, paths, versions, orders of a
        # hash. Only an entry that was the baseline's wherever no fault had come before can show
        # anything after one.
        for name, baseline_part in baseline_file.parts.items():
            entry = baseline_file.file, name
            if entry in self._proven_entries and name in run_file.parts:
                digests, lengths, save_count = self._baseline_values[entry]
                # An entry that was saved once only was never seen to stay the same.
                is_changing, is_growing = (
                    len(digests) > 1 or save_count == 1,
                    baseline_file.is_table or len(lengths) > 1,
                )
                yield EntryPair(
                    run_file,
                    baseline_file,
                    run_file.parts[name],
                    baseline_part,
                    is_changing,
                    is_growing,
                    is_last,
                )

    @cached_property
    def _proven_entries(self) -> frozenset[_Entry]:
        """The entries that were the baseline's wherever no fault had been injected."""
        repeat_files = (
            written_file for run in self.repeats for written_file in find_written_files(run)
        )
        return self._find_repeated_entries(
            [*self._control_files, *repeat_files], lambda written_file: written_file.digests
        )

    @cached_property
    def _baseline_values(self) -> Mapping[_Entry, tuple[set[str], set[int | None], int]]:
        """The digests and lengths of each entry in the baseline, and the saves of its file."""
        save_counts = Counter(written_file.file for written_file in self._baseline_files.values())
        values_by_entry: dict[_Entry, tuple[set[str], set[int | None], int]] = {}
        for written_file in self._baseline_files.values():
            for name, part in written_file.parts.items():
                row = values_by_entry.setdefault(
                    (written_file.file, name), (set(), set(), save_counts[written_file.file])
                )
                row[0].add(part.digest)
                row[1].add(part.count)
        return values_by_entry

    # -- counts --------------------------------------------------------------------------------

    def find_count_differences(self) -> Iterator[CountDifference]:
        """Yield the counts that may mislead a restart, and that no restart of this run has tried.

        A count grows from each of the baseline's saves of a file to the next, and had its values
        before the fault.
        """
        differences = [
            CountDifference(run_file, entry, run_file.counts[entry], value)
            for run_file, baseline_file in self._find_file_pairs()
            for entry, value in baseline_file.counts.items()
            if entry in self._growing_counts
            and run_file.number < self.repeat_start
            and run_file.counts.get(entry, value) != value
        ]
        # A restart that went on from such a file has shown what comes of its counts: if that was
        # wrong, another check has said so, and if not, the count misleads nothing.
        differing_numbers = {difference.run_file.number for difference in differences}
        tested_entries = {
            entry
            for used_file in self._find_used_files(differing_numbers)
            for entry in used_file.counts
        }
        yield from (
            difference for difference in differences if difference.entry not in tested_entries
        )

    def _find_used_files(self, candidate_numbers: set[int]) -> Iterator[WrittenFile]:
        """Yield the candidate files that were the newest of their kind when an attempt trained."""
        for attempt in self.run.attempts:
            earlier_files = (
                written_file
                for written_file in self._run_files
                if written_file.event.attempt < attempt.index
            )
            newest_files = _find_latest_files(
                written_file
                for written_file in earlier_files
                if isinstance(written_file.event, FileSaved)
            )
            if attempt.steps:
                yield from (
                    written_file
                    for written_file in newest_files.values()
                    if written_file.number in candidate_numbers
                )

    @cached_property
    def _growing_counts(self) -> frozenset[_Entry]:
        """The counts of the baseline that were seen once more before the fault."""
        # Of whole numbers in a file only those that grow from save to save count training. Others
        # are settings, sizes or versions, from which no restart takes a place.
        series: dict[_Entry, dict[TrainingPlace, int]] = {}
        for written_file in self._baseline_files.values():
            for entry, value in written_file.counts.items():
                series.setdefault(entry, {})[written_file.training_place] = value
        values = {entry: list(counts.values()) for entry, counts in series.items()}
        growing_entries = {
            entry
            for entry, counts in values.items()
            if len(counts) > 1 and all(count < next_count for count, next_count in pairwise(counts))
        }
        ignored_names = self.analysis.plan.expect.ignore_metrics
        counted_entries = {
            entry for entry in growing_entries if not matches_name(entry[1], ignored_names)
        }
        return (
            self._find_repeated_entries(
                self._control_files, lambda written_file: written_file.counts
            )
            & counted_entries
        )

    # -- checkpoints ---------------------------------------------------------------------------

    def find_byte_differences(self) -> Mapping[str, int]:
        """Return the files of checkpoints that differ, each with the first epoch where it does.

        Only files that had the baseline's bytes before the fault, and never other ones there.
        """
        pairs, fault_start = list(self._compare_uploads()), self.analysis.fault_start
        equal_files = {
            file for number, file, _, is_same in pairs if is_same and number < fault_start
        }
        unstable_files = {
            file for number, file, _, is_same in pairs if not is_same and number < fault_start
        }
        first_epochs: dict[str, int] = {}
        for number, file, epoch, is_same in pairs:
            if not is_same and number >= fault_start and file in equal_files - unstable_files:
                first_epochs[file.name] = min(epoch, first_epochs.get(file.name, epoch))
        return first_epochs

    def _compare_uploads(self) -> Iterator[tuple[int, RankName, int, bool]]:
        """Yield every file of a surviving commit that the baseline's of its epoch has as well."""
        run_parts, baseline_parts = (
            collect_checkpoints(self.run).parts,
            collect_checkpoints(self.reference).parts,
        )
        checkpoints_by_epoch = {c.epoch: c.checkpoint for c in self.reference.lineage.commits}
        for commit in self.run.lineage.commits:
            if commit.attempt in self.analysis.resized_attempts:
                continue
            parts_by_rank = {
                part.rank: part
                for part in baseline_parts.get(checkpoints_by_epoch.get(commit.epoch) or "", ())
            }
            for part in run_parts.get(commit.checkpoint or "", ()):
                if part.attempt != commit.attempt or part.rank not in parts_by_rank:
                    continue
                baseline_files = parts_by_rank[part.rank].files
                for path in sorted(set(part.files) & set(baseline_files)):
                    file = RankName(part.rank, strip_numbers(path))
                    yield (
                        commit.number,
                        file,
                        commit.epoch,
                        part.files[path] == baseline_files[path],
                    )

    # -- what is compared ----------------------------------------------------------------------

    @cached_property
    def _all_files(self) -> Sequence[WrittenFile]:
        return tuple(find_written_files(self.run))

    @property
    def _control_files(self) -> Iterator[WrittenFile]:
        return (
            written_file
            for written_file in self._all_files
            if written_file.number < self.analysis.fault_start
        )

    @cached_property
    def _run_files(self) -> Sequence[WrittenFile]:
        return tuple(find_surviving_files(self.run))

    @cached_property
    def _baseline_files(self) -> Mapping[tuple[RankName, TrainingPlace, int], WrittenFile]:
        return {
            written_file.key: written_file for written_file in find_surviving_files(self.reference)
        }

    def _find_file_pairs(self) -> Iterator[tuple[WrittenFile, WrittenFile]]:
        """Yield the files of surviving work since the fault, each with the baseline's."""
        for (file, place, attempt), run_files in _group_by_place(self._run_files).items():
            baseline_files = self._baseline_files_by_place.get((file, place, 0), ())
            if not baseline_files or attempt in self.analysis.resized_attempts:
                continue
            offset = self._find_offset(attempt, run_files, baseline_files)
            for run_file, baseline_file in zip(run_files, baseline_files[offset:], strict=False):
                if run_file.number >= self.analysis.fault_start:
                    yield run_file, baseline_file

    def _find_offset(
        self,
        attempt: int,
        run_files: Sequence[WrittenFile],
        baseline_files: Sequence[WrittenFile],
    ) -> int:
        """Return how many of the baseline's saves of a place came before an attempt's first.

        A job that trains by hand makes no step that is seen, and has all its saves at one place. A
        start after the second of three makes the third there, which is its own first. So a later
        start may have a stretch of the baseline's saves, with the same content in the same order:
        the last ones where it came to the end.
        """
        spare_count = len(baseline_files) - len(run_files)
        if attempt == 0 or spare_count <= 0:
            return 0
        is_last = attempt == self.run.attempts[-1].index and self.run.ending.is_finished
        offsets = (0, spare_count) if is_last else range(spare_count + 1)
        return next(
            (o for o in offsets if self._has_content(run_files, baseline_files[o:])),
            spare_count if is_last else 0,
        )

    def _has_content(
        self, run_files: Sequence[WrittenFile], other_files: Sequence[WrittenFile]
    ) -> bool:
        """Return whether each file, in their order, holds what the other one does.

        Of what is known to repeat itself: a right job may write the time into each save.
        """
        return all(
            run_file.digests.get(entry) == digest
            for run_file, other_file in zip(run_files, other_files, strict=False)
            for entry, digest in other_file.digests.items()
            if entry in self._proven_entries
        )

    @cached_property
    def _baseline_files_by_place(self) -> _FilesByPlace:
        return _group_by_place(self._baseline_files.values())

    def _find_repeated_entries(
        self,
        clean_files: Iterable[WrittenFile],
        select_values: Callable[[WrittenFile], Mapping[_Entry, object]],
    ) -> frozenset[_Entry]:
        """Return the entries with the baseline's values in all files that no fault came before."""
        equal_entries, changed_entries = set[_Entry](), set[_Entry]()
        for written_file in clean_files:
            baseline_file, run_values = (
                self._baseline_files.get(written_file.key),
                select_values(written_file),
            )
            for entry, value in (
                select_values(baseline_file).items() if baseline_file is not None else ()
            ):
                (equal_entries if run_values.get(entry) == value else changed_entries).add(entry)
        return frozenset(equal_entries - changed_entries)


def find_unequal_files(first_run: RunTables, second_run: RunTables) -> Mapping[str, Sequence[str]]:
    """Return the files that two clean runs left in other states, each with the entries that differ.

    No entries: nothing in the file is equal. What differs without a fault is compared with nothing.
    """
    first_files, second_files = (
        _find_latest_files(find_surviving_files(first_run)),
        _find_latest_files(find_surviving_files(second_run)),
    )
    unequal_entries: dict[str, Sequence[str]] = {}
    for file in sorted(first_files.keys() & second_files.keys()):
        first_parts, second_parts = first_files[file].parts, second_files[file].parts
        common_names = sorted(first_parts.keys() & second_parts.keys())
        unequal_names = [
            name for name in common_names if first_parts[name].digest != second_parts[name].digest
        ]
        if unequal_names:
            unequal_entries[first_files[file].name] = (
                unequal_names if len(unequal_names) < len(common_names) else ()
            )
    return unequal_entries


@lru_cache(maxsize=2)  # three checks of the run that is being judged use it
def build_file_contents(analysis: RunAnalysis) -> FileContents:
    """Return the files of a run that has a whole baseline, beside the baseline's."""
    assert analysis.reference is not None
    return FileContents(analysis, analysis.reference)


def find_written_files(tables: RunTables) -> Iterator[WrittenFile]:
    """Yield every file that was written, under its final name."""
    renames = list(tables.history.select_events(FileRenamed))
    occurrences: Counter[object] = Counter()
    for number in tables.history.select_numbers(FileSaved, FileWritten):
        event = tables.history[number].event
        assert isinstance(event, FileSaved | FileWritten)
        path = _find_final_path(number, event, renames)
        file = _build_file_key(event.rank, path)
        occurrence_key = (event.attempt, file, event.epoch, event.step)
        yield WrittenFile(number, file, occurrences[occurrence_key], PurePath(path).name, event)
        occurrences[occurrence_key] += 1


def _build_file_key(rank: int, path: str) -> RankName:
    return RankName(rank, _TEMPORARY.sub("tmp#", strip_numbers(PurePath(path).name)))


def find_surviving_files(tables: RunTables) -> Iterator[WrittenFile]:
    """Yield the files of work that no later attempt repeated."""
    return (
        written_file
        for written_file in find_written_files(tables)
        if tables.lineage.is_surviving(written_file.event)
    )


def _find_final_path(
    number: int,
    event: FileSaved | FileWritten,
    renames: Sequence[tuple[int, FileRenamed]],
) -> str:
    """Return the name to which a file was first renamed; later renames are those of other files."""
    for rename_number, rename in renames:
        is_same_rank = (rename.attempt, rename.rank) == (event.attempt, event.rank)
        if is_same_rank and rename_number > number and is_below_folder(event.path, rename.path):
            return rename.to + event.path.removeprefix(rename.path)
    return event.path


def _group_by_place(files: Iterable[WrittenFile]) -> _FilesByPlace:
    """Return files in their order, by their key without its occurrence, and their attempt."""
    files_by_place: dict[tuple[RankName, TrainingPlace, int], list[WrittenFile]] = {}
    for written_file in files:
        place_key = (written_file.file, written_file.training_place, written_file.event.attempt)
        files_by_place.setdefault(place_key, []).append(written_file)
    return files_by_place


def _find_latest_files(files: Iterable[WrittenFile]) -> Mapping[RankName, WrittenFile]:
    return {written_file.file: written_file for written_file in files}
