"""The newest whole save from which an attempt could resume, and the files that it read.

Whether a save of several files is whole, the baseline's files and the folders show.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from chaos.model.event import FileCopied, FileLoaded, FileRenamed, FileTouched
from chaos.model.places import RankName, TrainingPlace
from chaos.model.tiers import Tiers
from chaos.resume.attempt import Attempt
from chaos.resume.files import (
    RunFiles,
    SavedFile,
    find_common_places,
    is_readable_run_file,
    mask_path_numbers,
)
from chaos.resume.save_evidence import SaveCopies, find_copies, mask_name_numbers
from chaos.resume.save_pointers import can_be_found, find_pointers
from chaos.resume.save_rules import (
    LOST_RULES,
    SERIES_RULES,
    UNREAD_RULES,
    Evidence,
    JobEvidence,
    Rule,
    apply_rules,
    find_series,
)

_STATE_EVIDENCE = ("state and inputs", "state")


class CountedSave(NamedTuple):
    """A file that counts as a save to go on from, and the rule by which it does."""

    file: SavedFile
    rule: str


class RemovedSave(NamedTuple):
    """A save that the job itself removed, with the removal's event and place."""

    file: SavedFile
    number: int
    place: TrainingPlace


class SavesAtStart:
    """The saves of earlier attempts as one starts, and the files that its ranks read."""

    def __init__(
        self, files: RunFiles, attempt: Attempt, *, tiers: Tiers, cwd: str, is_resized: bool
    ) -> None:
        self.files, self.attempt = files, attempt
        #: the number of the event with which the attempt starts
        self.start_number = min((start.number for start in attempt.starts.values()), default=0)
        self._pointers = find_pointers(files)
        self.present_saves = self._select_findable_saves(
            files.find_readable_saves(attempt.index, end_number=self.start_number)
        )
        self.loads = find_resume_loads(files, attempt)
        self._completeness = SaveCompleteness(
            files, attempt_index=attempt.index, is_resized=is_resized
        )
        copies = SaveCopies(files, tiers, start_number=self.start_number)
        self._job = JobEvidence(files, copies, cwd)

    def _select_findable_saves(self, saves: list[SavedFile]) -> list[SavedFile]:
        return [
            save
            for save in saves
            if can_be_found(self.files, self._pointers, save, self.attempt.index)
        ]

    def find_resume_place(self, rank: int) -> TrainingPlace:
        """Return the place at which a rank resumed: of its state, else of its file."""
        state_place = find_state_place(self.attempt, rank)
        if state_place is not None:
            return state_place
        return self.files.find_content_place(self.loads[rank][1])

    # -- an older one than there was -----------------------------------------------------------

    def find_newer(self, rank: int) -> CountedSave | None:
        """Return the newest whole save of what a rank read, if it read an older one."""
        _, load = self.loads[rank]
        newest = self._find_newest_of_kind(load)
        if newest is None or newest.file.digest == load.digest:
            return None
        return newest if self._is_newer(newest.file, rank) else None

    def find_newer_removed(self, rank: int) -> RemovedSave | None:
        """Return the newest save that the job itself had removed, if a rank read an older one.

        A job that keeps the last few removes one only once a newer one is whole. None if one of
        those that are newer is there, or was lost in another way.
        """
        series = mask_path_numbers(self.loads[rank][1].path)
        removals = [
            self.find_removal(save)
            for save in self.files.find_confirmed_saves(end_number=self.start_number)
            if save.final_series == series and self._is_newer(save, rank)
        ]
        removed_saves = [removal for removal in removals if removal is not None]
        if len(removed_saves) < len(removals):
            return None
        return max(removed_saves, key=lambda save: save.file.content_place, default=None)

    def find_removal(self, save: SavedFile) -> RemovedSave | None:
        """Return the removal of a save by the job itself, before the attempt began.

        Of its very file or folder, or of one within it: another one of its series is kept or
        removed for reasons of its own.
        """
        names = (save.final_path, save.display_path)
        for number, touch in self.files.history.select_events(FileTouched):
            is_due = save.event_number < number < self.start_number
            if not is_due or touch.operation != "removing":
                continue
            if touch.path in names or any(touch.path.startswith(f"{name}/") for name in names):
                return RemovedSave(save, number, TrainingPlace(touch.epoch, touch.step))
        return None

    def _is_newer(self, save: SavedFile, rank: int) -> bool:
        return self._find_step(save) > self.files.find_previous_step(self.find_resume_place(rank))

    def _find_step(self, save: SavedFile) -> TrainingPlace:
        """Return the step after which a save was made: an epoch's end is the next one's start."""
        return self.files.find_previous_step(save.content_place)

    def _find_newest_of_kind(self, load: FileLoaded) -> CountedSave | None:
        """Return the newest save that is whole in all series of a file: of its files, the alike."""
        folder_counts = self._completeness.present_file_counts[find_numbered_folder(load.path)]
        series_saves = [
            [s for s in saves if self._completeness.is_folder_complete(s.file, folder_counts)]
            for saves in map(self._select_series, self._find_joint_loads(load))
            # A series with the same content at each save has no age.
            if len(saves) == 1 or len({save.file.digest for save in saves}) != 1
        ]
        common_steps = [
            find_common_places((self._find_step(save.file), save.file.rank) for save in saves)
            for saves in series_saves
        ]
        if not common_steps:
            return None
        newest_step = max(set[TrainingPlace].intersection(*common_steps), default=None)
        series = mask_path_numbers(load.path)
        return max(
            (
                save
                for saves in reversed(series_saves)
                for save in reversed(saves)
                if self._find_step(save.file) == newest_step
            ),
            key=lambda save: (
                save.file.rank == load.saved_rank,
                save.file.final_series == series,
            ),
            default=None,
        )

    def _find_joint_loads(self, load: FileLoaded) -> Iterable[FileLoaded]:
        """Return the files that make one save with a file that was read, one of each series.

        A checkpoint may be several files, and several ranks' files: model here, optimizer there, a
        part for each rank. To take the newest of each series would invent a save that no rank could
        load; so what the ranks read of one place is one save.
        """
        loads_by_series = {
            series: rank_load
            for rank in self.loads
            for series, (_, rank_load) in self.files.find_newest_loads(
                self.attempt.index, rank
            ).items()
            if self._find_load_step(rank_load) == self._find_load_step(load)
        }
        return (loads_by_series | {mask_path_numbers(load.path): load}).values()

    def _find_load_step(self, load: FileLoaded) -> TrainingPlace:
        return self.files.find_previous_step(self.files.find_content_place(load))

    def _select_series(self, load: FileLoaded) -> list[CountedSave]:
        series = find_series(self.files, load)
        return _select_counted(SERIES_RULES, series, self.present_saves)

    # -- none at all ---------------------------------------------------------------------------

    def find_newest_unread(self) -> CountedSave | None:
        """Return the newest save that was there, for an attempt that read none.

        The files that the ranks found as they began are the evidence, not those written before:
        these may have been removed since, be copied elsewhere later, or lie on a lost node's disk.
        """
        last_saves = self._select_findable_saves(
            self.files.find_unconfirmed_saves(self.attempt.index, end_number=self.start_number)
        )
        saves = _select_counted(UNREAD_RULES, self._job, self.present_saves or last_saves)
        files = [save.file for save in saves]
        return _find_newest(save for save in saves if self._completeness.is_whole(save.file, files))

    def find_newest_lost(self) -> CountedSave | None:
        """Return the newest save that was made, if nothing of it was there any more."""
        if self.attempt.index not in self.files.present_files_by_attempt:
            return None
        confirmed_saves = self.files.find_confirmed_saves(end_number=self.start_number)
        newest = _find_newest(_select_counted(LOST_RULES, self._job, confirmed_saves))
        # Nothing was kept, or it is a part of a save that never became whole.
        return None if newest is None or "there" in self.find_states(newest.file) else newest

    def find_states(self, save: SavedFile) -> set[str]:
        """Return how the ranks found the files with a save's bytes."""
        files = self.files.list_expected_files(self.attempt.index)
        return {file.state for file in files if file.digest == save.digest}


def _select_counted(
    rules: Sequence[Rule[Evidence]], evidence: Evidence, saves: Iterable[SavedFile]
) -> list[CountedSave]:
    answers = ((save, apply_rules(rules, evidence, save)) for save in saves)
    return [CountedSave(save, answer.rule) for save, answer in answers if answer.counts]


def _find_newest(saves: Iterable[CountedSave]) -> CountedSave | None:
    """Return the newest save that each rank has reached: the oldest of their newest."""
    newest_by_rank = {
        save.file.rank: save for save in sorted(saves, key=lambda save: save.file.content_place)
    }
    return min(newest_by_rank.values(), key=lambda save: save.file.content_place, default=None)


def find_resume_loads(files: RunFiles, attempt: Attempt) -> Mapping[int, tuple[int, FileLoaded]]:
    """Return the file of this run from which each rank resumed, if its save is known.

    Of several that it read, the one with the model of the place where it trains; else the youngest.
    """
    loads, pointers = {}, find_pointers(files)
    for rank in sorted(attempt.starts):
        state_place = find_state_place(attempt, rank)
        model_loads = [
            (number, load)
            for number, load in files.select_loads(attempt.index, rank)
            if state_place is not None
            and is_readable_run_file(load)
            and files.has_model(load, state_place)
        ]
        newest_load = files.find_newest_load(attempt.index, rank, ignored_paths=pointers)
        load = model_loads[-1] if model_loads else newest_load
        if load is not None and files.find_origin(load[1]) is not None:
            loads[rank] = load
    return loads


def find_state_place(attempt: Attempt, rank: int) -> TrainingPlace | None:
    """Return the place of a rank's resume, if its state shows one and no other."""
    start = attempt.starts.get(rank)
    if start is None or start.evidence not in _STATE_EVIDENCE or start.alternatives:
        return None
    return start.training_place


# -- whole saves ----------------------------------------------------------------------------------


class SaveCompleteness:
    """The files that lie beside a save when an attempt starts, and those the baseline has there."""

    def __init__(self, files: RunFiles, *, attempt_index: int, is_resized: bool) -> None:
        self.files, self._attempt_index, self._is_resized = files, attempt_index, is_resized
        self._baseline = files.reference or files

    def is_whole(self, save: SavedFile, candidates: list[SavedFile]) -> bool:
        """Return whether every file that the baseline wrote at a save's place is written here too.

        Only names that occur in this run are required. Without a baseline, or with another number
        of ranks, this cannot be known: True.
        """
        if self.files.reference is None or self._is_resized:
            return True
        names = {build_save_key(candidate).name for candidate in candidates} | self._loaded_names
        expected_files = {
            file
            for file in self._baseline_files_by_place.get(save.write_place, ())
            if file.name in names
        }
        is_complete = expected_files <= {
            build_save_key(candidate)
            for candidate in candidates
            if candidate.write_place >= save.write_place
        }
        return is_complete and self.is_folder_complete(
            save, self._baseline_files.get(find_numbered_folder(save.final_path), Counter())
        )

    @cached_property
    def _loaded_names(self) -> frozenset[str]:
        """The names of the run's own files that any attempt has read."""
        return frozenset(map(mask_name_numbers, self.files.loaded_paths))

    @cached_property
    def present_file_counts(self) -> Mapping[str, Counter[str]]:
        """The files that were there, by folder, each by its name without the numbers in it."""
        return _group_by_folder(
            {
                file.path
                for file in self.files.list_expected_files(self._attempt_index)
                if file.state == "there"
            }
        )

    @cached_property
    def _baseline_saves(self) -> Sequence[SavedFile]:
        """The files that the baseline saved, and their copies."""
        copies = (replace(save, final_path=path) for save, path in find_copies(self._baseline))
        return (*self._baseline.saves, *copies)

    @cached_property
    def _baseline_files(self) -> Mapping[str, Counter[str]]:
        """The files that the baseline put into the folder of each save, marks among them.

        Folders in which the saves of several places lie side by side are left out.
        """
        # Of a save beside older ones in one folder, the later ones are not due: `run1/ckpt_4.pt` is
        # whole without `run1/ckpt_5.pt`.
        baseline = self._baseline
        copy_paths = {copy.path for _, copy in baseline.history.select_events(FileCopied)}
        save_paths = {save.final_path for save in baseline.saves}
        counts = _group_by_folder(copy_paths | save_paths | self._baseline_marks)
        return {
            folder: names
            for folder, names in counts.items()
            if folder not in self._baseline_series_folders
        }

    @cached_property
    def _baseline_series_folders(self) -> frozenset[str]:
        """The folders in which the baseline has one and the same file of several places."""
        folders, first_saves = set[str](), dict[tuple[str, RankName], SavedFile]()
        for save in self._baseline_saves:
            folder = find_numbered_folder(save.final_path)
            first_save = first_saves.setdefault((folder, build_save_key(save)), save)
            if (
                first_save.write_place != save.write_place
                and first_save.final_path != save.final_path
            ):
                folders.add(folder)
        return frozenset(folders)

    @cached_property
    def _baseline_marks(self) -> frozenset[str]:
        """The paths that the baseline opened to write, such as a mark that a save is whole.

        Left out are those it renamed or removed, and those with a name that this run's ranks never
        looked for as they began.
        """
        history = self._baseline.history
        touches = [touch for _, touch in history.select_events(FileTouched)]
        dropped_paths = {rename.path for _, rename in history.select_events(FileRenamed)} | {
            touch.path for touch in touches if touch.operation == "removing"
        }
        names = {
            mask_name_numbers(path)
            for files_by_rank in self.files.present_files_by_attempt.values()
            for files in files_by_rank.values()
            for path in files
        }
        return frozenset(
            touch.path
            for touch in touches
            if touch.operation == "opening"
            and touch.path not in dropped_paths
            and mask_name_numbers(touch.path) in names
        )

    def is_folder_complete(self, save: SavedFile, expected_counts: Counter[str]) -> bool:
        """Return whether as many files of each name lie beside a save as are due."""
        return (
            self._attempt_index not in self.files.present_files_by_attempt
            or expected_counts <= self.present_file_counts[find_numbered_folder(save.final_path)]
        )

    @cached_property
    def _baseline_files_by_place(self) -> Mapping[TrainingPlace, set[RankName]]:
        """The files of the baseline's, by the place of their content."""
        files_by_place: dict[TrainingPlace, dict[str, RankName]] = {}
        for save in self._baseline_saves:
            # Of ranks that write one and the same file, the last has written it.
            files_by_place.setdefault(save.write_place, {})[save.final_path] = build_save_key(save)
        return {
            training_place: set(files.values()) for training_place, files in files_by_place.items()
        }


def find_numbered_folder(path: str) -> str:
    """Return the folder of one save in which a file lies: it has a number; else an empty text."""
    folder = str(PurePath(path).parent)
    return folder if any(letter.isdigit() for letter in PurePath(folder).name) else ""


def _group_by_folder(paths: Iterable[str]) -> Mapping[str, Counter[str]]:
    series_counts = defaultdict[str, Counter[str]](Counter)
    for path in paths:
        if folder := find_numbered_folder(path):
            series_counts[folder][mask_path_numbers(PurePath(path).name)] += 1
    return series_counts


def build_save_key(save: SavedFile) -> RankName:
    """Return the rank that wrote a save, with the file's name without the numbers in it."""
    return RankName(save.rank, mask_path_numbers(PurePath(save.final_path).name))
