"""The files that a job writes and reads itself, as rows."""

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import TypeVar

from chaos.model.event import (
    FileLoaded,
    FileRenamed,
    FileSaveBegun,
    FileSaved,
    FilesSeen,
    FitCalled,
    ReportBegun,
    SavedPart,
    SeenFile,
    StateSeen,
)
from chaos.model.events.state import find_group
from chaos.model.history import History
from chaos.model.objects import is_store_object
from chaos.model.paths import NAME_BY_CONTENT, SESSION, is_in_folder, strip_node
from chaos.model.places import START, AttemptRank, TrainingPlace
from chaos.resume.attempt import Attempt
from chaos.resume.resume_place import find_resume_place

Place = TypeVar("Place", bound=Hashable)

CHECKPOINT_SAVERS = (
    "torch",
    "shards",
    "safetensors",
    "pkl",
    "pickle",
)  # of files that are mostly checkpoints


@dataclass(frozen=True, slots=True)
class SavedFile:
    """One file that a rank wrote."""

    event_number: int
    attempt: int
    rank: int
    epoch: int
    step: int
    #: the name that it was written by
    first_path: str
    #: None where its end was not seen
    digest: str | None
    #: the one that it had in the end
    final_path: str = ""
    #: what wrote it (see `FileSaveBegun`)
    saver: str = "torch"
    #: those that it had before that one
    former_names: tuple[str, ...] = ()
    #: the place at which the model in it was trained; None where no model was recognized
    model_place: TrainingPlace | None = None
    #: its numbers for each one that is trained; None where that is not known
    trained_share: float | None = None

    @property
    def is_shard_index(self) -> bool:
        """Whether it is the index that torch writes once all shards of a checkpoint are whole."""
        return PurePath(self.final_path).name == ".metadata"

    @property
    def display_path(self) -> str:
        """The name by which a reader knows it: of a sharded checkpoint, its folder."""
        return str(PurePath(self.final_path).parent) if self.is_shard_index else self.final_path

    @property
    def series(self) -> str:
        """The name that it shares with others of its kind: its path without the numbers in it."""
        return mask_path_numbers(self.first_path)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names that it had, in their order."""
        return (self.first_path, *self.former_names, self.final_path)

    @property
    def final_series(self) -> str:
        """The same of the name that it had in the end."""
        return mask_path_numbers(self.final_path)

    @property
    def write_place(self) -> TrainingPlace:
        """The place at which it was written."""
        return TrainingPlace(self.epoch, self.step)

    @property
    def content_place(self) -> TrainingPlace:
        """The place of its model: to write a file again, as with a mark, makes no newer save."""
        return self.model_place or self.write_place


@dataclass(frozen=True)
class RunFiles:
    """The files of one history."""

    history: History
    attempts: Sequence[Attempt]
    #: the files of the baseline
    reference: "RunFiles | None" = None

    @cached_property
    def saves(self) -> tuple[SavedFile, ...]:
        """Every file whose writing began, in that order."""
        saved_events: dict[tuple[int, int, str], list[tuple[int, FileSaved]]] = {}
        for number, saved_event in self.history.select_events(FileSaved):
            saved_events.setdefault(
                (saved_event.attempt, saved_event.rank, saved_event.path), []
            ).append((number, saved_event))
        saves = []
        for number, begin_event in self.history.select_events(FileSaveBegun):
            matching_events = saved_events.get(
                (begin_event.attempt, begin_event.rank, begin_event.path), []
            )
            # The same path is written again and again: the n-th end belongs to the n-th beginning
            # of one rank in one attempt. An attempt that was killed has one beginning more.
            end_event = matching_events.pop(0) if matching_events else None
            end_number = number if end_event is None else end_event[0]
            digest = end_event[1].digest if end_event else self._find_read_digest(begin_event)
            training_place = TrainingPlace(begin_event.epoch, begin_event.step)
            save = SavedFile(
                end_number,
                begin_event.attempt,
                begin_event.rank,
                *training_place,
                begin_event.path,
                digest,
                begin_event.path,
                begin_event.saver,
            )
            if end_event is not None:
                model_place = self._find_model_place(end_event[1].parts, training_place)
                save = replace(save, model_place=model_place, trained_share=end_event[1].share)
            saves.append(save)
        return self._assign_names(sorted(saves, key=lambda save: save.event_number))

    def _find_model_place(
        self, parts: Sequence[SavedPart], save_place: TrainingPlace
    ) -> TrainingPlace | None:
        """Return the place at which a model in a file was trained, up to that of the writing."""
        digests = {digest for part in parts for digest in (part.tensors, part.widened) if digest}
        # One that is seen at several places does not change, as a frozen one, and has no age.
        unique_places = [
            model_places
            for digest in digests
            if len(model_places := self._model_places.get(digest, set())) == 1
        ]
        return max(
            (p for p in set().union(*unique_places) if START < p <= save_place), default=None
        )

    @cached_property
    def _model_places(self) -> Mapping[str, set[TrainingPlace]]:
        """The steps after which each model was seen, here and in the baseline, by its digest."""
        places_by_digest: dict[str, set[TrainingPlace]] = {}
        for files in (self, self.reference):
            for _, snapshot in () if files is None else files.history.select_events(StateSeen):
                for part in snapshot.components:
                    if part.digest and find_group(part.name) == "model":
                        training_place = self.find_previous_step(find_resume_place(snapshot))
                        places_by_digest.setdefault(part.digest, set()).add(training_place)
        return places_by_digest

    def find_previous_step(self, training_place: TrainingPlace) -> TrainingPlace:
        """Return the place of the last step before one: an epoch's end is the next one's head."""
        index = bisect(self.step_places, training_place)
        return self.step_places[index - 1] if index else START

    @cached_property
    def step_places(self) -> Sequence[TrainingPlace]:
        """The places of all steps of this run and its baseline, in the order of training."""
        places = {
            TrainingPlace(s.epoch, s.step) for attempt in self.attempts for s in attempt.steps
        }
        if self.reference is not None:
            places.update(self.reference.step_places)
        return sorted(places)

    def _assign_names(self, saves: Sequence[SavedFile]) -> tuple[SavedFile, ...]:
        """Return the saves with the names that they had in the end."""
        names_by_number, numbers_by_path = (
            {save.event_number: [save.first_path] for save in saves},
            dict[str, int](),
        )
        numbered_events: list[tuple[int, SavedFile | FileRenamed]] = [
            (save.event_number, save) for save in saves
        ]
        numbered_events += self.history.select_events(FileRenamed)
        for _, event in sorted(numbered_events, key=lambda item: item[0]):
            if isinstance(event, SavedFile):
                numbers_by_path[event.first_path] = event.event_number
                continue
            # A renaming of a folder moves all files in it, which is how many savers publish a
            # checkpoint.
            moved_paths = [event.path] if event.path in numbers_by_path else list(numbers_by_path)
            for path in moved_paths:
                if is_in_folder(path, event.path):
                    number = numbers_by_path.pop(path)
                    names_by_number[number].append(event.to + path.removeprefix(event.path))
                    numbers_by_path[names_by_number[number][-1]] = number
        return tuple(
            replace(save, final_path=final_name, former_names=tuple(former_names))
            for save in saves
            for *former_names, final_name in [names_by_number[save.event_number]]
        )

    def _find_read_digest(self, save_begin: FileSaveBegun) -> str | None:
        """Return the digest of a save without a recorded end, if a later attempt read its file.

        Its process was killed as it had just been written: a file that is not whole raises.
        """
        save_key = save_begin.attempt, save_begin.rank, save_begin.epoch, save_begin.step
        name = PurePath(save_begin.path).name  # of two equal paths, one may be relative
        for _, load in self.history.select_events(FileLoaded):
            load_key = load.saved_attempt, load.saved_rank, load.saved_epoch, load.saved_step
            if load_key == save_key and load.error is None and PurePath(load.path).name == name:
                return load.digest
        return None

    @cached_property
    def loads(self) -> Mapping[AttemptRank, Sequence[tuple[int, FileLoaded]]]:
        """The files that each rank of each attempt read before its first step."""
        loads_by_reader: dict[AttemptRank, list[tuple[int, FileLoaded]]] = {}
        for number, load in self.history.select_events(FileLoaded):
            reader = AttemptRank(load.attempt, load.rank)
            # A file that a rank reads after its first step is data, or for an evaluation: it says
            # nothing of the resume.
            if number < self._initial_steps.get(reader, math.inf):
                loads_by_reader.setdefault(reader, []).append((number, load))
        return loads_by_reader

    def select_loads(self, attempt: int, rank: int) -> Sequence[tuple[int, FileLoaded]]:
        """Return the files that a rank of an attempt read before its first step."""
        return self.loads.get(AttemptRank(attempt, rank), ())

    @cached_property
    def _latest_numbers(self) -> Mapping[AttemptRank, int]:
        latest_numbers: dict[AttemptRank, int] = {}
        for attempt in self.attempts:
            for steps in attempt.steps.steps_by_epoch.values():
                attempt_rank = AttemptRank(attempt.index, steps[-1].rank)
                latest_numbers[attempt_rank] = max(
                    latest_numbers.get(attempt_rank, -1), steps[-1].number
                )
        for number, report in self.history.select_events(ReportBegun):
            attempt_rank = AttemptRank(report.attempt, report.rank)
            latest_numbers[attempt_rank] = max(latest_numbers.get(attempt_rank, -1), number)
        return latest_numbers

    def find_confirmed_saves(self, *, end_number: int) -> Iterator[SavedFile]:
        """Yield the files that were certainly put in their place before one moment.

        A rank that trained on after it wrote a file had put it in its place. A fault may come
        between the writing and the renaming. What a process writes before its first step holds no
        training.
        """
        default_step = (
            math.inf if self._initial_steps else -1
        )  # of a job whose steps are not watched
        for save in self.saves:
            attempt_rank = AttemptRank(save.attempt, save.rank)
            number_limit = min(end_number, self._latest_numbers.get(attempt_rank, -1))
            if (
                save.digest is not None
                and self._initial_steps.get(attempt_rank, default_step)
                < save.event_number
                < number_limit
            ):
                yield save

    @cached_property
    def _initial_steps(self) -> Mapping[AttemptRank, int]:
        return {
            AttemptRank(a.index, r): n
            for a in self.attempts
            for r, n in a.first_step_event_numbers.items()
        }

    @cached_property
    def present_files_by_attempt(self) -> Mapping[int, Mapping[int, Mapping[str, SeenFile]]]:
        """The files that ranks found as they began, by attempt, rank and path."""
        files_by_attempt: dict[int, dict[int, dict[str, SeenFile]]] = {}
        for _, event in self.history.select_events(FilesSeen):
            files_by_attempt.setdefault(event.attempt, {})[event.rank] = {
                file.path: file for file in event.files
            }
        return files_by_attempt

    def find_readable_saves(self, attempt: int, *, end_number: int) -> list[SavedFile]:
        """Return the saves that some rank of an attempt could read as it began, by their names.

        A copy of a save is one more. Where ranks did not look (a history of an older chaos), all
        that was saved counts as there.
        """
        saves = list(self.find_confirmed_saves(end_number=end_number))
        return (
            self._match_saves(saves, attempt) if attempt in self.present_files_by_attempt else saves
        )

    def find_unconfirmed_saves(self, attempt: int, *, end_number: int) -> list[SavedFile]:
        """Return the saves that were there, and that their ranks had left as the last they did.

        Whether such a file was in use already is not known: a pointer to it, or a mark, may have
        been next. So it counts only under a name of files that were in use.
        """
        series_names = {
            save.final_series for save in self.find_confirmed_saves(end_number=end_number)
        }
        whole_saves = (
            s for s in self.saves if s.digest is not None and s.event_number < end_number
        )
        initial_steps = self._initial_steps
        final_saves = [
            s
            for s in whole_saves
            if initial_steps.get(AttemptRank(s.attempt, s.rank), math.inf) < s.event_number
        ]
        return [
            s for s in self._match_saves(final_saves, attempt) if s.final_series in series_names
        ]

    def _match_saves(self, saves: Sequence[SavedFile], attempt: int) -> list[SavedFile]:
        """Return those of some saves that an attempt found, by the names at which they lie."""
        latest_saves = {(save.digest, save.rank, save.final_path): save for save in saves}.values()
        matching_saves = []
        for path, digest in {
            (f.path, f.digest) for f in self.list_expected_files(attempt) if f.state == "there"
        }:
            equal_saves = [save for save in latest_saves if save.digest == digest]
            named_saves = [save for save in equal_saves if save.final_path == path]
            # Bytes that lie under a name which no save was given are a copy, which the job may read
            # as well as the original.
            matching_saves += named_saves or [
                replace(save, first_path=path, final_path=path, former_names=())
                for save in equal_saves
            ]
        return sorted(matching_saves, key=lambda save: (save.event_number, save.final_path))

    def list_expected_files(self, attempt: int) -> Iterator[SeenFile]:
        """Yield the files that the ranks of an attempt looked for as they began."""
        for files in self.present_files_by_attempt.get(attempt, {}).values():
            yield from files.values()

    def find_torn_save(self, path: str, *, end_number: int) -> SavedFile | None:
        """Return the last save of a path, if its end was never seen.

        Of several ranks that wrote it in one step, one whose end was not seen has torn it.
        """
        saves = [
            save
            for save in self.saves
            if save.event_number < end_number and save.first_path == path
        ]
        latest_saves = [
            s
            for s in saves
            if (s.attempt, s.write_place) == (saves[-1].attempt, saves[-1].write_place)
        ]
        return next((save for save in reversed(latest_saves) if save.digest is None), None)

    def find_origin(self, load: FileLoaded) -> SavedFile | None:
        """Return the save that wrote the file which was read."""
        if load.saved_attempt is None:
            return None
        writer, saved_place = (load.saved_attempt, load.saved_rank), find_save_place(load)
        # By the digest too: several files are saved at one place.
        equal_saves = [
            save
            for save in reversed(self.saves)
            if (save.attempt, save.rank) == writer and save.digest == load.digest
        ]
        places = [TrainingPlace(save.epoch, save.step) for save in equal_saves]
        if saved_place in places:
            return equal_saves[places.index(saved_place)]
        # A save beside training ends at a later place than it began.
        return next(
            (save for save, place in zip(equal_saves, places, strict=True) if place < saved_place),
            None,
        )

    def find_ages(self, load: FileLoaded) -> set[TrainingPlace]:
        """Return the places at which a file of these bytes was saved."""
        # A file that did not change from save to save has the age of each. With the last alone, a
        # fault between the ranks' saves made them read "files of different ages" from one whole
        # checkpoint, where a generator that nothing draws from was the same at two saves.
        equal_saves = [save for save in self.saves if save.digest == load.digest]
        return (
            {find_save_place(load)}
            | {s.write_place for s in equal_saves}
            | {s.content_place for s in equal_saves}
        )

    def find_content_place(self, load: FileLoaded) -> TrainingPlace:
        """Return the place of the model in a file that was read, or that of its writing."""
        origin = self.find_origin(load)
        return find_save_place(load) if origin is None else origin.content_place

    def has_model(self, load: FileLoaded, training_place: TrainingPlace) -> bool:
        """Return whether a file that was read holds the model of a place."""
        origin = self.find_origin(load)
        return origin is not None and origin.model_place == self.find_previous_step(training_place)

    def find_later_loads(self, attempt: int) -> Iterator[FileLoaded]:
        """Yield the files of this run that later attempts read before their first steps."""
        for (reading_attempt, _), loads in self.loads.items():
            yield from (
                load
                for _, load in loads
                if reading_attempt > attempt and is_readable_run_file(load)
            )

    @cached_property
    def loaded_paths(self) -> frozenset[str]:
        """The paths of this run's files that any attempt read before its first steps."""
        all_loads = (load for loads in self.loads.values() for _, load in loads)
        return frozenset(load.path for load in all_loads if is_readable_run_file(load))

    def find_newest_load(
        self, attempt: int, rank: int, *, ignored_paths: frozenset[str] = frozenset()
    ) -> tuple[int, FileLoaded] | None:
        """Return the youngest file of this run that a rank read before its first step."""
        newest_loads = [
            item
            for item in self.find_newest_loads(attempt, rank).values()
            if item[1].path not in ignored_paths
        ]
        return max(newest_loads, key=lambda item: self.find_content_place(item[1]), default=None)

    def find_newest_loads(self, attempt: int, rank: int) -> dict[str, tuple[int, FileLoaded]]:
        """Return the youngest file of each series that a rank read before its first step."""
        newest_loads: dict[str, tuple[int, FileLoaded]] = {}
        for number, load in self.select_loads(attempt, rank):
            known_load = newest_loads.get(mask_path_numbers(load.path))
            if is_readable_run_file(load) and (
                known_load is None
                or self.find_content_place(load) > self.find_content_place(known_load[1])
            ):
                newest_loads[mask_path_numbers(load.path)] = number, load
        return newest_loads


def find_outside_files(files: RunFiles) -> Iterator[str]:
    """Yield the files outside storage that a later attempt read and an earlier one had written.

    The working directory is a session's, and every node has one of its own (Ray 2.60). An object
    of a store is every node's.
    """
    storage = next(
        (fit_call.storage_path for _, fit_call in files.history.select_events(FitCalled)), None
    )
    if storage is None:
        return
    written_paths = {save.path for _, save in files.history.select_events(FileSaved)}
    written_paths |= {rename.to for _, rename in files.history.select_events(FileRenamed)}
    loads = (load for rank_loads in files.loads.values() for _, load in rank_loads)
    loaded_paths = {
        load.path
        for load in loads
        if load.saved_attempt is not None and load.saved_attempt < load.attempt
    }
    for path in sorted(path for path in loaded_paths & written_paths if not is_store_object(path)):
        if not path.startswith(f"{storage}/") or path.startswith(f"{storage}/{SESSION}/"):
            yield path


def find_common_places(saves: Iterable[tuple[Place, int]], ranks: Iterable[int] = ()) -> set[Place]:
    """Return the places at which each rank has a save, of the places and ranks of saves.

    `ranks` are further ranks that must have one. No rank goes on alone: a save of which another
    rank's part is missing is not whole.
    """
    ranks_by_place = defaultdict[Place, set[int]](set)
    for place, rank in saves:
        ranks_by_place[place].add(rank)
    all_ranks = set[int](ranks).union(*ranks_by_place.values())
    return {place for place in ranks_by_place if ranks_by_place[place] == all_ranks}


def mask_path_numbers(path: str) -> str:
    """Return a path without the numbers in it, the same for all files of one kind.

    So it is for those in the temporary folders of the nodes of any run. Names that stand for a
    content are of one kind.
    """
    return strip_numbers(NAME_BY_CONTENT.sub("#", path))


def strip_numbers(path: str) -> str:
    """Return a path without its numbers; in a name that stands for a content, it keeps the rest."""
    return re.sub(r"\d+", "#", strip_node(path))


def is_readable_run_file(load: FileLoaded) -> bool:
    """Return whether a file was saved in this run, and could be read."""
    return load.error is None and load.saved_epoch is not None


def find_save_place(load: FileLoaded) -> TrainingPlace:
    """Return the place at which the file was saved."""
    return TrainingPlace(load.saved_epoch or 0, load.saved_step or 0)
