"""Small files in the run's folder, by which an attempt finds the saves of earlier attempts.

<digest>.json                     the place of training at which these bytes were saved
begun-<path>.json                 the place of a save whose end was not recorded yet
reads-<attempt>-<rank>.json       the saves that a rank of an attempt has read
position-<attempt>-<rank>.json    the place at which it resumed
part-<checkpoint>-<rank>.json     the resume place of a rank's part of a checkpoint, if all
                                  files of that part were saved in this run
states-<attempt>-<rank>.jsonl     the states that a rank was seen in, with their places
index-<rank>.json                 the steps and states of the baseline, if there is one
lengths.json                      the steps of each epoch of the baseline, if there is one
place-<attempt>-<epoch>-<step>    exists if a rank has saved a file after that step
look-<attempt>-<epoch>-<step>     exists if a rank has made bytes of its state after that step
passed-<attempt>-<epoch>          exists if the report of that epoch came in an earlier attempt
early-<attempt>-<number>          exists if a report came before the attempt trained anything
size-<bytes>                      exists if a file of this size was saved
laid-<path>.json                  a saved file, or a copy of one, where it lies now
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, Self, TypeAlias

from chaos.model.event import Component
from chaos.model.objects import is_store_object
from chaos.model.paths import is_in_folder
from chaos.model.places import TrainingPlace
from chaos.resume.resume_place import ResumePlaceIndex, build_state_keys
from chaos.run.directory import EPOCH_LENGTHS_FILE, INDEX_PREFIX, RANK_COUNT_KEY
from chaos.run.file_digest import file_digest
from chaos.run.record_file import read_fields, write_fields

Mark: TypeAlias = Literal["place", "look", "passed", "early", "size"]


@dataclass(frozen=True)
class SaveRecord:
    """One file as it was saved."""

    digest: str
    attempt: int
    rank: int
    epoch: int
    step: int
    path: str
    #: the epoch's report began with no step after it
    ends_epoch: bool = False
    #: it is text, as logs are, and counts as state only if no other file does
    is_text: bool = False
    #: its process had made no step before, so that it holds no training
    is_before_training: bool = False

    def find_resume_place(self) -> TrainingPlace:
        """Return the resume place of a job that loads the file."""
        if self.ends_epoch:
            return TrainingPlace(self.epoch + 1, 0)
        return TrainingPlace(self.epoch, self.step)


@dataclass(frozen=True)
class StoredCopy:
    """A saved file, or a copy of one, where its writer left it."""

    path: str
    digest: str
    size: int
    changed_ns: int
    #: the temporary folder of its writer's node, if it lies in there
    writer_temp_folder: str | None
    #: where it was before a renaming, which may have failed
    former_path: str | None = None

    def find_path(self) -> str | None:
        """Return the path at which the file has this content now; None: it is gone."""
        candidates = filter(None, (self.path, self.former_path))
        return next(filter(self.has_content, candidates), None)

    def has_content(self, path: str) -> bool:
        """Return whether this content lies at a path now.

        An object does as far as it is known: each that a rank puts or removes is recorded.
        """
        if is_store_object(path):
            return True
        try:
            status = os.stat(path)  # noqa: PTH116 - the path is a string
            return status.st_size == self.size and (
                status.st_mtime_ns == self.changed_ns or self.digest == file_digest(Path(path))
            )
        except OSError:  # another rank may remove it meanwhile
            return False


@dataclass(frozen=True)
class ResumedSave:
    """The place at which a rank resumed."""

    attempt: int
    rank: int
    epoch: int
    #: the finished steps of `epoch`
    step: int
    path: str
    #: see `SaveRecord.is_text`
    is_log: bool = False

    @property
    def training_place(self) -> TrainingPlace:
        return TrainingPlace(self.epoch, self.step)

    @classmethod
    def from_save(cls, save: SaveRecord, *, attempt: int, rank: int) -> Self:
        epoch, step = save.find_resume_place()
        return cls(attempt, rank, epoch, step, save.path, save.is_text)


class SaveFolder:
    """The folder of these files, each of which is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def run_folder(self) -> Path:
        return self._folder.parent

    def make_scratch_path(self, name: str) -> Path:
        """Return the path of a file that is removed as soon as it was looked at."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / name

    def record_save(self, save: SaveRecord, *, size: int | None = None) -> None:
        """Record a save, and its size in bytes; of equal files, the latest save stands.

        An empty file is not recorded: its bytes are those of every other.
        """
        if size != 0:
            write_fields(self._folder / f"{save.digest}.json", asdict(save))
        # The digest first, then the end of the beginning. A process that is killed in between
        # leaves both, which says the same twice; the other way round a whole file would be one of
        # unknown age.
        self._build_begin_path(save.path).unlink(missing_ok=True)
        if size:
            self.set_mark("size", size)

    def record_begin(self, save: SaveRecord) -> None:
        """Record a save, whose digest is not known yet, before its file is written."""
        write_fields(self._build_begin_path(save.path), asdict(save))

    def recover_save(
        self, path: Path | str, digest: str, *, attempt_limit: int
    ) -> SaveRecord | None:
        """Record the end of an earlier attempt's save, whose file was read without an error.

        Its process was killed between the end of the writing and our record of it.
        """
        fields = read_fields(self._build_begin_path(resolve_name(path)))
        # A public script, right, was blamed here: torchrun ended a rank as it had just written its
        # file, before that was recorded, and the next attempt resumed from it. Only a later
        # attempt's reading counts: in the same attempt the file may still be written.
        if fields is None or fields["attempt"] >= attempt_limit:
            return None
        save = replace(SaveRecord(**fields), digest=digest)
        self.record_save(save)
        return save

    def record_copy(self, path: Path | str, digest: str, *, size: int, tmp: str) -> None:
        """Record where a file or an object is that was saved or copied.

        `tmp` is the node's temporary folder.
        """
        name = str(path)
        if is_store_object(name):
            self._write_copy(StoredCopy(name, digest, size, 0, None))
            return
        status = os.stat(name)  # noqa: PTH116 - of a string
        copy_tmp = tmp if is_in_folder(name, tmp) else None
        self._write_copy(StoredCopy(name, digest, status.st_size, status.st_mtime_ns, copy_tmp))

    def record_renaming(self, path: str, new_path: str) -> None:
        """Record the renaming of a file, or of a folder with all files in it."""
        self.record_removal(new_path)
        file_fields = read_fields(self._build_copy_path(path))
        copies = list(self.load_copies()) if file_fields is None else [StoredCopy(**file_fields)]
        for copy in copies:
            # The old place is kept as `former_path`: the audit event of a renaming comes before it
            # is made, and it may fail.
            if is_in_folder(copy.path, path):
                self.record_removal(copy.path)
                self._write_copy(
                    replace(
                        copy, path=new_path + copy.path.removeprefix(path), former_path=copy.path
                    )
                )

    def record_removal(self, path: str) -> None:
        """Record that a file is removed; one whose renaming failed stays where it was."""
        fields = read_fields(self._build_copy_path(path))
        self._build_copy_path(path).unlink(missing_ok=True)
        if fields is None:
            return
        # Most often the old place is that of a temporary file, which holds the next save by now.
        copy = StoredCopy(**fields)
        if copy.former_path is not None and copy.has_content(copy.former_path):
            self._write_copy(replace(copy, path=copy.former_path, former_path=None))

    def load_copies(self) -> Iterator[StoredCopy]:
        for path in sorted(self._folder.glob("laid-*.json")):
            if (fields := read_fields(path)) is not None:
                yield StoredCopy(**fields)

    def find_save(self, digest: str) -> SaveRecord | None:
        fields = read_fields(self._folder / f"{digest}.json")
        return None if fields is None else SaveRecord(**fields)

    def mark_epoch_end(self, save: SaveRecord) -> None:
        """Record that the report of a save's epoch has begun with no step in between."""
        if self.find_save(save.digest) == save:
            self.record_save(replace(save, ends_epoch=True))

    def load_epoch_lengths(self, rank: int = 0, *, ranks: int | None = None) -> Mapping[int, int]:
        """Return the number of steps of each epoch of the baseline; empty if unknown.

        Rank 0's lengths, unless the baseline recorded others for this rank. If the job's epochs end
        with its own saves, they hold for the baseline's number of ranks only; for another `ranks`
        the result is empty.
        """
        steps_by_key = dict(read_fields(self._folder / EPOCH_LENGTHS_FILE) or {})
        baseline_ranks = steps_by_key.pop(RANK_COUNT_KEY, None)
        if None not in {baseline_ranks, ranks} and baseline_ranks != ranks:
            return {}
        rank_lengths = {
            epoch: steps_by_key.get(f"{epoch}@{rank}", steps_by_key[epoch])
            for epoch in steps_by_key
        }
        return {int(epoch): steps for epoch, steps in rank_lengths.items() if "@" not in epoch}

    def set_mark(self, mark: Mark, *numbers: int) -> None:
        """Record, for all ranks and later attempts, what an empty file is named after."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._build_mark_path(mark, numbers).touch()

    def has_mark(self, mark: Mark, *numbers: int) -> bool:
        """Return whether that was recorded."""
        return self._build_mark_path(mark, numbers).exists()

    def record_reads(self, attempt: int, rank: int, reads: Sequence[ResumedSave]) -> None:
        path = self._folder / f"reads-{attempt}-{rank}.json"
        write_fields(path, {"reads": [asdict(read) for read in reads]})

    def load_reads(self, attempt: int) -> dict[int, tuple[ResumedSave, ...]]:
        """Return the saves that each rank of an attempt has read, without ranks that read none."""
        reads_by_rank: dict[int, tuple[ResumedSave, ...]] = {}
        for path in sorted(self._folder.glob(f"reads-{attempt}-*.json")):
            fields = read_fields(path)
            if fields is not None:
                reads = tuple(ResumedSave(**read) for read in fields["reads"])
                reads_by_rank[reads[0].rank] = reads
        return reads_by_rank

    def record_state(
        self, attempt: int, rank: int, place: TrainingPlace, parts: Sequence[Component]
    ) -> None:
        """Record a state that a rank of an attempt was seen in, for later attempts to find."""
        keys = build_state_keys(parts)
        if keys[0]:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"states-{attempt}-{rank}.jsonl").open("a") as file:
                file.write(json.dumps([*place, *keys]) + "\n")

    def load_states(self, *, attempt_limit: int) -> ResumePlaceIndex:
        """Return the states that were seen in the attempts before one."""
        state_index = ResumePlaceIndex()
        for path in sorted(self._folder.glob("states-*.jsonl")):
            # A file for each attempt and rank, so that ranks append without a lock, and no attempt
            # finds the states that it makes itself.
            if int(path.name.split("-")[1]) < attempt_limit:
                for line in path.read_text(encoding="utf-8").splitlines():
                    if line.endswith("]"):  # a killed process may leave half a line
                        epoch, step, model, optimizer = json.loads(line)
                        state_index.add_keys(TrainingPlace(epoch, step), model, optimizer)
        return state_index

    def load_index(self, rank: int, *, ranks: int) -> ResumePlaceIndex:
        """Return the index of the baseline for one of so many ranks; empty without one."""
        fields = read_fields(self._folder / f"{INDEX_PREFIX}{rank}.json")
        return (
            ResumePlaceIndex()
            if fields is None
            else ResumePlaceIndex.from_fields(fields, ranks=ranks)
        )

    def record_part(self, checkpoint: str, rank: int, place: TrainingPlace | None) -> None:
        """Record the resume place of a rank's part of a checkpoint; None: unknown."""
        path = self._folder / f"part-{_hash_name(checkpoint)}-{rank}.json"
        write_fields(path, {"place": place})

    def find_resume_place(self, checkpoint: str) -> TrainingPlace | None:
        """Return the resume place of a checkpoint, None if it is unknown."""
        paths = self._folder.glob(f"part-{_hash_name(checkpoint)}-*.json")
        places = [(read_fields(path) or {}).get("place") for path in paths]
        known_places = [TrainingPlace(epoch, step) for epoch, step in filter(None, places)]
        # A saver beside training hands a checkpoint over with a later report, so its report does
        # not say how old it is. Its youngest file does; with one file of unknown origin nothing
        # does.
        return max(known_places) if known_places and len(known_places) == len(places) else None

    def record_position(self, position: ResumedSave) -> None:
        """Record the position of a rank; the latest one stands."""
        write_fields(
            self._folder / f"position-{position.attempt}-{position.rank}.json", asdict(position)
        )

    def find_furthest_position(self, attempt: int) -> ResumedSave | None:
        """Return the furthest position of an attempt's ranks, if one was taken."""
        all_fields = map(read_fields, self._folder.glob(f"position-{attempt}-*.json"))
        positions = [ResumedSave(**fields) for fields in all_fields if fields is not None]
        return max(positions, key=lambda position: position.training_place, default=None)

    def _build_begin_path(self, path: str) -> Path:
        name = path if is_store_object(path) else os.path.abspath(path)  # noqa: PTH100
        return self._folder / f"begun-{_hash_name(name)}.json"

    def _build_copy_path(self, path: str) -> Path:
        return self._folder / f"laid-{_hash_name(path)}.json"

    def _write_copy(self, copy: StoredCopy) -> None:
        write_fields(self._build_copy_path(copy.path), asdict(copy))

    def _build_mark_path(self, mark: Mark, numbers: tuple[int, ...]) -> Path:
        return self._folder / "-".join((mark, *map(str, numbers)))


def resolve_name(path: Path | str) -> str:
    """Return a path without links, by which a file is known whatever path it is opened by.

    An object has one name.
    """
    return str(path) if is_store_object(str(path)) else os.path.realpath(path)


def _hash_name(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
