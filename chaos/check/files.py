"""The files that a job writes and reads itself, as rows."""

import math
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from chaos.check.attempt import Attempt
from chaos.check.resume_place import place_of as place_of_state
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
from chaos.model.events.state import group_of
from chaos.model.history import History
from chaos.model.objects import is_object
from chaos.model.paths import NAME_BY_CONTENT, SESSION, is_below, without_node
from chaos.model.places import START, AttemptRank, Place

SAVERS = ("torch", "shards", "safetensors", "pkl", "pickle")  # of files that are mostly checkpoints


@dataclass(frozen=True, slots=True)
class Save:
    """One file that a rank wrote."""

    number: int
    attempt: int
    rank: int
    epoch: int
    step: int
    #: the name that it was written by
    path: str
    #: None where its end was not seen
    digest: str | None
    #: the one that it had in the end
    name: str = ""
    #: what wrote it (see `FileSaveBegun`)
    saver: str = "torch"
    #: those that it had before that one
    former: tuple[str, ...] = ()
    #: the place at which the model in it was trained; None where no model was recognized
    model_place: Place | None = None
    #: its numbers for each one that is trained; None where that is not known
    share: float | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether it is the index that torch writes once all shards of a checkpoint are whole."""
        return PurePath(self.name).name == ".metadata"

    @property
    def title(self) -> str:
        """The name by which a reader knows it: of a sharded checkpoint, its folder."""
        return str(PurePath(self.name).parent) if self.is_sharded else self.name

    @property
    def series(self) -> str:
        """The name that it shares with others of its kind: its path without the numbers in it."""
        return series_of(self.path)

    @property
    def place(self) -> Place:
        """The place at which it was written."""
        return Place(self.epoch, self.step)

    @property
    def age(self) -> Place:
        """The place of its model: to write a file again, as with a mark, makes no newer save."""
        return self.model_place or self.place


@dataclass(frozen=True)
class Files:
    """The files of one history."""

    history: History
    attempts: Sequence[Attempt]
    #: the files of the baseline
    like: "Files | None" = None

    @cached_property
    def saves(self) -> tuple[Save, ...]:
        """Every file whose writing began, in that order."""
        ends: dict[tuple[int, int, str], list[tuple[int, FileSaved]]] = {}
        for number, done in self.history.of(FileSaved):
            ends.setdefault((done.attempt, done.rank, done.path), []).append((number, done))
        found = []
        for number, e in self.history.of(FileSaveBegun):
            over = ends.get((e.attempt, e.rank, e.path), [])
            # The same path is written again and again: the n-th end belongs to the n-th beginning
            # of one rank in one attempt. An attempt that was killed has one beginning more.
            end = over.pop(0) if over else None
            at = number if end is None else end[0]
            digest = end[1].digest if end else self._read_whole(e)
            place = Place(e.epoch, e.step)
            save = Save(at, e.attempt, e.rank, *place, e.path, digest, e.path, e.saver)
            if end is not None:
                model_place = self._model_place(end[1].parts, place)
                save = replace(save, model_place=model_place, share=end[1].share)
            found.append(save)
        return self._named(sorted(found, key=lambda save: save.number))

    def _model_place(self, parts: Sequence[SavedPart], written: Place) -> Place | None:
        """Return the place at which a model in a file was trained, up to that of the writing."""
        digests = {digest for part in parts for digest in (part.tensors, part.widened) if digest}
        # One that is seen at several places does not change, as a frozen one, and has no age.
        places = [of for digest in digests if len(of := self._models.get(digest, set())) == 1]
        return max((p for p in set().union(*places) if START < p <= written), default=None)

    @cached_property
    def _models(self) -> Mapping[str, set[Place]]:
        """The steps after which each model was seen, here and in the baseline, by its digest."""
        found: dict[str, set[Place]] = {}
        for files in (self, self.like):
            for _, seen in () if files is None else files.history.of(StateSeen):
                for part in seen.components:
                    if part.digest and group_of(part.name) == "model":
                        place = self.last_step(place_of_state(seen))
                        found.setdefault(part.digest, set()).add(place)
        return found

    def last_step(self, place: Place) -> Place:
        """Return the place of the last step before one: an epoch's end is the next one's head."""
        at = bisect(self.step_places, place)
        return self.step_places[at - 1] if at else START

    @cached_property
    def step_places(self) -> Sequence[Place]:
        """The places of all steps of this run and its baseline, in the order of training."""
        places = {Place(s.epoch, s.step) for attempt in self.attempts for s in attempt.steps}
        if self.like is not None:
            places.update(self.like.step_places)
        return sorted(places)

    def _named(self, saves: Sequence[Save]) -> tuple[Save, ...]:
        """Return the saves with the names that they had in the end."""
        names, holds = {save.number: [save.path] for save in saves}, dict[str, int]()
        happened: list[tuple[int, Save | FileRenamed]] = [(save.number, save) for save in saves]
        happened += self.history.of(FileRenamed)
        for _, what in sorted(happened, key=lambda item: item[0]):
            if isinstance(what, Save):
                holds[what.path] = what.number
                continue
            # A renaming of a folder moves all files in it, which is how many savers publish a
            # checkpoint.
            moved = [what.path] if what.path in holds else list(holds)
            for path in moved:
                if is_below(path, what.path):
                    number = holds.pop(path)
                    names[number].append(what.to + path.removeprefix(what.path))
                    holds[names[number][-1]] = number
        return tuple(
            replace(save, name=last, former=tuple(former))
            for save in saves
            for *former, last in [names[save.number]]
        )

    def _read_whole(self, begun: FileSaveBegun) -> str | None:
        """Return the digest of a save without a recorded end, if a later attempt read its file.

        Its process was killed as it had just been written: a file that is not whole raises.
        """
        place = begun.attempt, begun.rank, begun.epoch, begun.step
        name = PurePath(begun.path).name  # of two equal paths, one may be relative
        for _, load in self.history.of(FileLoaded):
            saved = load.saved_attempt, load.saved_rank, load.saved_epoch, load.saved_step
            if saved == place and load.error is None and PurePath(load.path).name == name:
                return load.digest
        return None

    @cached_property
    def loads(self) -> Mapping[AttemptRank, Sequence[tuple[int, FileLoaded]]]:
        """The files that each rank of each attempt read before its first step."""
        found: dict[AttemptRank, list[tuple[int, FileLoaded]]] = {}
        for number, e in self.history.of(FileLoaded):
            reader = AttemptRank(e.attempt, e.rank)
            # A file that a rank reads after its first step is data, or for an evaluation: it says
            # nothing of the resume.
            if number < self._first_steps.get(reader, math.inf):
                found.setdefault(reader, []).append((number, e))
        return found

    def loads_of(self, attempt: int, rank: int) -> Sequence[tuple[int, FileLoaded]]:
        """Return the files that a rank of an attempt read before its first step."""
        return self.loads.get(AttemptRank(attempt, rank), ())

    @cached_property
    def _last_signs(self) -> Mapping[AttemptRank, int]:
        found: dict[AttemptRank, int] = {}
        for attempt in self.attempts:
            for steps in attempt.steps.by_epoch.values():
                key = AttemptRank(attempt.index, steps[-1].rank)
                found[key] = max(found.get(key, -1), steps[-1].number)
        for number, e in self.history.of(ReportBegun):
            key = AttemptRank(e.attempt, e.rank)
            found[key] = max(found.get(key, -1), number)
        return found

    def published(self, *, before: int) -> Iterator[Save]:
        """Yield the files that were certainly put in their place before one moment.

        A rank that trained on after it wrote a file had put it in its place. A fault may come
        between the writing and the renaming. What a process writes before its first step holds no
        training.
        """
        unseen = math.inf if self._first_steps else -1  # of a job whose steps are not watched
        for save in self.saves:
            of = AttemptRank(save.attempt, save.rank)
            until = min(before, self._last_signs.get(of, -1))
            if save.digest is not None and self._first_steps.get(of, unseen) < save.number < until:
                yield save

    @cached_property
    def _first_steps(self) -> Mapping[AttemptRank, int]:
        return {AttemptRank(a.index, r): n for a in self.attempts for r, n in a.first_steps.items()}

    @cached_property
    def seen(self) -> Mapping[int, Mapping[int, Mapping[str, SeenFile]]]:
        """The files that ranks found as they began, by attempt, rank and path."""
        found: dict[int, dict[int, dict[str, SeenFile]]] = {}
        for _, e in self.history.of(FilesSeen):
            found.setdefault(e.attempt, {})[e.rank] = {file.path: file for file in e.files}
        return found

    def there(self, attempt: int, *, before: int) -> list[Save]:
        """Return the saves that some rank of an attempt could read as it began, by their names.

        A copy of a save is one more. Where ranks did not look (a history of an older chaos), all
        that was saved counts as there.
        """
        saves = list(self.published(before=before))
        return self._found_there(saves, attempt) if attempt in self.seen else saves

    def left_last(self, attempt: int, *, before: int) -> list[Save]:
        """Return the saves that were there, and that their ranks had left as the last they did.

        Whether such a file was in use already is not known: a pointer to it, or a mark, may have
        been next. So it counts only under a name of files that were in use.
        """
        names = {series_of(save.name) for save in self.published(before=before)}
        whole = (s for s in self.saves if s.digest is not None and s.number < before)
        first = self._first_steps
        last = [s for s in whole if first.get(AttemptRank(s.attempt, s.rank), math.inf) < s.number]
        return [s for s in self._found_there(last, attempt) if series_of(s.name) in names]

    def _found_there(self, saves: Sequence[Save], attempt: int) -> list[Save]:
        """Return those of some saves that an attempt found, by the names at which they lie."""
        latest = {(save.digest, save.rank, save.name): save for save in saves}.values()
        found = []
        for path, digest in {(f.path, f.digest) for f in self.found(attempt) if f.state == "there"}:
            alike = [save for save in latest if save.digest == digest]
            written = [save for save in alike if save.name == path]
            # Bytes that lie under a name which no save was given are a copy, which the job may read
            # as well as the original.
            found += written or [replace(save, path=path, name=path, former=()) for save in alike]
        return sorted(found, key=lambda save: (save.number, save.name))

    def found(self, attempt: int) -> Iterator[SeenFile]:
        """Yield the files that the ranks of an attempt looked for as they began."""
        for files in self.seen.get(attempt, {}).values():
            yield from files.values()

    def torn(self, path: str, *, before: int) -> Save | None:
        """Return the last save of a path, if its end was never seen.

        Of several ranks that wrote it in one step, one whose end was not seen has torn it.
        """
        saves = [save for save in self.saves if save.number < before and save.path == path]
        last = [s for s in saves if (s.attempt, s.place) == (saves[-1].attempt, saves[-1].place)]
        return next((save for save in reversed(last) if save.digest is None), None)

    def origin(self, load: FileLoaded) -> Save | None:
        """Return the save that wrote the file which was read."""
        if load.saved_attempt is None:
            return None
        key = (load.saved_attempt, load.saved_rank, load.saved_epoch, load.saved_step)
        for save in reversed(self.saves):
            same = (save.attempt, save.rank, save.epoch, save.step) == key
            # By the digest too: several files are saved at one place.
            if same and save.digest == load.digest:
                return save
        return None

    def ages(self, load: FileLoaded) -> set[Place]:
        """Return the places at which a file of these bytes was saved."""
        # A file that did not change from save to save has the age of each. With the last alone, a
        # fault between the ranks' saves made them read "files of different ages" from one whole
        # checkpoint, where a generator that nothing draws from was the same at two saves.
        alike = [save for save in self.saves if save.digest == load.digest]
        return {place_of(load)} | {s.place for s in alike} | {s.age for s in alike}

    def age(self, load: FileLoaded) -> Place:
        """Return the place of the model in a file that was read, or that of its writing."""
        origin = self.origin(load)
        return place_of(load) if origin is None else origin.age

    def holds_model_of(self, load: FileLoaded, place: Place) -> bool:
        """Return whether a file that was read holds the model of a place."""
        origin = self.origin(load)
        return origin is not None and origin.model_place == self.last_step(place)

    def read_since(self, attempt: int) -> Iterator[FileLoaded]:
        """Yield the files of this run that later attempts read before their first steps."""
        for (reader, _), loads in self.loads.items():
            yield from (e for _, e in loads if reader > attempt and is_own(e))

    def newest_loaded(self, attempt: int, rank: int) -> tuple[int, FileLoaded] | None:
        """Return the youngest file of this run that a rank read before its first step."""
        read = self.newest_of_series(attempt, rank).values()
        return max(read, key=lambda item: self.age(item[1]), default=None)

    def newest_of_series(self, attempt: int, rank: int) -> dict[str, tuple[int, FileLoaded]]:
        """Return the youngest file of each series that a rank read before its first step."""
        found: dict[str, tuple[int, FileLoaded]] = {}
        for number, load in self.loads_of(attempt, rank):
            known = found.get(series_of(load.path))
            if is_own(load) and (known is None or self.age(load) > self.age(known[1])):
                found[series_of(load.path)] = number, load
        return found


def outside_storage(files: Files) -> Iterator[str]:
    """Yield the files outside storage that a later attempt read and an earlier one had written.

    The working directory is a session's, and every node has one of its own (Ray 2.60). An object
    of a store is every node's.
    """
    storage = next((called.storage_path for _, called in files.history.of(FitCalled)), None)
    if storage is None:
        return
    written = {saved.path for _, saved in files.history.of(FileSaved)}
    written |= {moved.to for _, moved in files.history.of(FileRenamed)}
    loads = (load for of in files.loads.values() for _, load in of)
    read = {
        load.path
        for load in loads
        if load.saved_attempt is not None and load.saved_attempt < load.attempt
    }
    for path in sorted(path for path in read & written if not is_object(path)):
        if not path.startswith(f"{storage}/") or path.startswith(f"{storage}/{SESSION}/"):
            yield path


def series_of(path: str) -> str:
    """Return a path without the numbers in it, the same for all files of one kind.

    So it is for those in the temporary folders of the nodes of any run. Names that stand for a
    content are of one kind.
    """
    return without_numbers(NAME_BY_CONTENT.sub("#", path))


def without_numbers(path: str) -> str:
    """Return a path without its numbers; in a name that stands for a content, it keeps the rest."""
    return re.sub(r"\d+", "#", without_node(path))


def is_own(load: FileLoaded) -> bool:
    """Return whether a file was saved in this run, and could be read."""
    return load.error is None and load.saved_epoch is not None


def place_of(load: FileLoaded) -> Place:
    """Return the place at which the file was saved."""
    return Place(load.saved_epoch or 0, load.saved_step or 0)
