"""Whether a save of several files is whole, as the baseline's files and the folders show it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath

from chaos.model.event import FileCopied, FileRenamed, FileTouched
from chaos.model.places import RankName, TrainingPlace
from chaos.resume.files import RunFiles, SavedFile, is_readable_run_file, mask_path_numbers
from chaos.resume.save_copies import find_copies, mask_name_numbers


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
        all_loads = (load for loads in self.files.loads.values() for _, load in loads)
        return frozenset(
            mask_name_numbers(load.path) for load in all_loads if is_readable_run_file(load)
        )

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
        baseline = self._baseline
        copies = (replace(save, final_path=path) for save, path in find_copies(baseline))
        for save in (*baseline.saves, *copies):
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
        baseline = self._baseline
        copies = (replace(save, final_path=path) for save, path in find_copies(baseline))
        for save in (*baseline.saves, *copies):
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
