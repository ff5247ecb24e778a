"""Signs by which a file is a save: the model in it, and the copies made of it."""

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import PurePath

from chaos.model.event import FileCopied, FileRenamed, FileSaved, StateSeen, WroteOutside
from chaos.model.places import AttemptRank
from chaos.model.tiers import Tiers
from chaos.resume.files import RunFiles, SavedFile, mask_path_numbers

UNCERTAIN_SAVES_MAX = 2
ROUNDING = 5e-7  # of a norm in 32 bits: some units in its last place


class SaveCopies:
    """The copies of a run's saves, as they are known at the event with which an attempt starts."""

    def __init__(self, files: RunFiles, tiers: Tiers, *, start_number: int) -> None:
        self.files, self._tiers, self._start_number = files, tiers, start_number
        #: the baseline's come last: they show best what a clean run does
        self.run_and_baseline_files = tuple(filter(None, (files, files.reference)))

    def is_durable(self, path: str) -> bool:
        """Return whether a path is on a disk that outlives its node."""
        return self._tiers.find_tier(path) != "node"

    @cached_property
    def _copies(self) -> Sequence[tuple[str, str]]:
        """The series of each file that was copied, and the path of the copy."""
        pairs = (pair for files in self.run_and_baseline_files for pair in find_copies(files))
        return [(save.final_series, path) for save, path in pairs]

    def is_awaiting_copy(self, save: SavedFile) -> bool:
        """Return whether a save waited on its node to be copied elsewhere, as its series is.

        With the node it is lost, and the job goes on from the newest that was copied.
        """
        if any(save.final_series == s and self.is_durable(path) for s, path in self._copies):
            return save.digest not in self._copied_digests
        # We do not see when another program finishes a copy. With at most UNCERTAIN_SAVES_MAX saves
        # so far, none may be finished yet.
        save_places = {
            s.write_place for s in self.files.saves if s.event_number < self._start_number
        }
        is_copied = mask_name_numbers(save.final_path) in self._externally_copied_names
        return is_copied and len(save_places) <= UNCERTAIN_SAVES_MAX

    @cached_property
    def _externally_copied_names(self) -> set[str]:
        """The names of saves under which another program has made files elsewhere."""
        copied_names = set[str]()
        for files in self.run_and_baseline_files:
            save_names = {name for save in files.saves for name in save.all_names}
            outside_names = {
                mask_name_numbers(event.path)
                for _, event in files.history.select_events(WroteOutside)
                if event.operation == "created"
                and event.path not in save_names
                and self.is_durable(event.path)
            }
            copied_names |= outside_names.intersection(map(mask_name_numbers, save_names))
        return copied_names

    @cached_property
    def _copied_digests(self) -> set[str | None]:
        """The contents that were copied elsewhere before the attempt."""
        copies = self.files.history.select_events(FileCopied)
        digests: set[str | None] = {
            copy.digest for number, copy in copies if number < self._start_number
        }
        first_names = dict[str | None, str]()
        # One that is held at its operations is written as a save is.
        for save in self.files.find_confirmed_saves(end_number=self._start_number):
            first_name = first_names.setdefault(save.digest, save.final_path)
            if save.final_path != first_name and self.is_durable(save.final_path):
                digests.add(save.digest)
        return digests

    @cached_property
    def draft_series(self) -> set[str]:
        """The series of files that are copied elsewhere, or renamed, once they are written."""
        staged = {series for series, path in self._copies if series != mask_path_numbers(path)}
        return staged | self._renamed_series

    @cached_property
    def _renamed_series(self) -> set[str]:
        """The series of names that the baseline's files have until they get another one."""
        files = self.run_and_baseline_files[-1]
        rename_numbers = {
            event.path: number for number, event in files.history.select_events(FileRenamed)
        }
        former_names = {name for save in files.saves for name in save.former_names}
        final_series = {save.final_series for save in files.saves}
        for number, copy in files.history.select_events(FileCopied):
            former_names.add(copy.path)
            folders = (copy.path, *map(str, PurePath(copy.path).parents))
            if all(rename_numbers.get(folder, number) <= number for folder in folders):
                final_series.add(mask_path_numbers(copy.path))
        return {*map(mask_path_numbers, former_names)} - final_series

    def is_durable_copy(self, series: Collection[str], save: SavedFile) -> bool:
        """Return whether a save outlives the node on which one of a series has its bytes."""
        if not self.is_durable(save.final_path) or save.final_series in self._renamed_series:
            return False
        return any(
            equal_save.final_series in series and not self.is_durable(equal_save.final_path)
            for equal_save in self.files.saves
            if equal_save.digest == save.digest
        )


def find_copies(files: RunFiles) -> Iterator[tuple[SavedFile, str]]:
    """Yield the saves of which a course made copies, with the path of each."""
    first_saves: dict[str | None, SavedFile] = {}
    for save in files.saves:
        if (
            first_saves.setdefault(save.digest, save).first_path != save.first_path
            and save.digest is not None
        ):
            yield first_saves[save.digest], save.final_path
    for _, copy in files.history.select_events(FileCopied):
        if copy.digest in first_saves:
            yield first_saves[copy.digest], copy.path


def mask_name_numbers(path: str) -> str:
    """Return the name of a file without the numbers in it."""
    return mask_path_numbers(PurePath(path).name)


# -- the model in a file ---------------------------------------------------------------------------


def find_model_files(files: RunFiles) -> Iterator[tuple[str, bool]]:
    """Yield the names of files in which the model is, and whether it is all that is in it."""
    models = _ModelNorms(files)
    names = {save.event_number: save.final_path for save in files.saves}
    for number, saved_file in files.history.select_events(FileSaved):
        groups = _group_norms(saved_file)
        if number in names and any(
            models.is_model(norms, number, saved_file) for norms in groups.values()
        ):
            is_alone = models.is_model(groups[""], number, saved_file)
            yield mask_path_numbers(PurePath(names[number]).name), is_alone


class _ModelNorms:
    """The norms of a job's models, as they were seen at places between its steps."""

    def __init__(self, files: RunFiles) -> None:
        self._norms = set[str]()
        self._norms_by_rank = defaultdict[AttemptRank, list[tuple[int, list[float]]]](list)
        for number, state in files.history.select_events(StateSeen):
            model_parts = (p for p in state.components if p.name.startswith("model"))
            sizes = [float(part.size) for part in model_parts if part.size]
            self._norms |= set(map(_round_norm, sizes))
            self._norms_by_rank[AttemptRank(state.attempt, state.rank)].append((number, sizes))

    def is_model(self, sizes: list[float], number: int, saved_file: FileSaved) -> bool:
        """Return whether numbers of a file, by the norms of their parts, are a model's."""
        norm = math.hypot(*sizes)
        if _round_norm(norm) in self._norms:
            return True
        # That of several parts is rounded elsewhere than the model's own. So near, only the states
        # just before and after the save are compared: a run has many.
        snapshots = self._norms_by_rank[AttemptRank(saved_file.attempt, saved_file.rank)]
        index = bisect(snapshots, number, key=itemgetter(0))
        nearby_norms = (
            size
            for _, model_norms in snapshots[max(0, index - 1) : index + 1]
            for size in model_norms
        )
        return len(sizes) > 1 and any(
            math.isclose(norm, size, rel_tol=ROUNDING) for size in nearby_norms
        )


def _group_norms(saved: FileSaved) -> dict[str, list[float]]:
    """Return the norms of a file's parts: each, those whose names begin alike, and all, as ``."""
    # A file of arrays alone has the model's and the optimizer's side by side, as `net/0.weight`.
    groups = defaultdict[str, list[float]](list)
    for part in saved.parts:
        if part.kind == "numbers" and part.size is not None:
            for name in {"", re.split(r"[./]", part.name)[0] + "/", part.name}:
                groups[name].append(float(part.size))
    return groups


def _round_norm(norm: float) -> str:
    return f"{norm:.9g}"
