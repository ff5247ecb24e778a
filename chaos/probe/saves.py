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

from chaos.check.resume_place import Index, state_keys
from chaos.model.event import Component
from chaos.model.objects import is_object
from chaos.model.paths import is_below
from chaos.model.places import Place
from chaos.run.directory import INDEX, LENGTHS, RANKS
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
    is_log: bool = False
    #: its process had made no step before, so that it holds no training
    is_data: bool = False

    def goes_on_at(self) -> Place:
        """Return the resume place of a job that loads the file."""
        return Place(self.epoch + 1, 0) if self.ends_epoch else Place(self.epoch, self.step)


@dataclass(frozen=True)
class Laid:
    """A saved file, or a copy of one, where its writer left it."""

    path: str
    digest: str
    size: int
    changed_ns: int
    #: the temporary folder of its writer's node, if it lies in there
    tmp: str | None
    #: where it was before a renaming, which may have failed
    was: str | None = None

    def where(self) -> str | None:
        """Return the path at which the file has this content now; None: it is gone."""
        return next((p for p in (self.path, self.was) if p is not None and self.is_at(p)), None)

    def is_at(self, path: str) -> bool:
        """Return whether this content lies at a path now.

        An object does as far as it is known: each that a rank puts or removes is recorded.
        """
        if is_object(path):
            return True
        try:
            found = os.stat(path)  # noqa: PTH116 - the path is a string
            return found.st_size == self.size and (
                found.st_mtime_ns == self.changed_ns or self.digest == file_digest(Path(path))
            )
        except OSError:  # another rank may remove it meanwhile
            return False


@dataclass(frozen=True)
class Position:
    """The place at which a rank resumed."""

    attempt: int
    rank: int
    epoch: int
    #: the finished steps of `epoch`
    step: int
    path: str
    #: see `Save`
    is_log: bool = False

    @property
    def place(self) -> Place:
        return Place(self.epoch, self.step)

    @classmethod
    def of(cls, save: SaveRecord, *, attempt: int, rank: int) -> Self:
        epoch, step = save.goes_on_at()
        return cls(attempt, rank, epoch, step, save.path, save.is_log)


class Saves:
    """The folder of these files, each of which is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def run(self) -> Path:
        return self._folder.parent

    def scratch(self, name: str) -> Path:
        """Return the path of a file that is removed as soon as it was looked at."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / name

    def keep(self, save: SaveRecord, *, size: int | None = None) -> None:
        """Record a save, and its size in bytes; of equal files, the latest save stands.

        An empty file is not recorded: its bytes are those of every other.
        """
        if size != 0:
            write_fields(self._folder / f"{save.digest}.json", asdict(save))
        # The digest first, then the end of the beginning. A process that is killed in between
        # leaves both, which says the same twice; the other way round a whole file would be one of
        # unknown age.
        self._begun(save.path).unlink(missing_ok=True)
        if size:
            self.mark("size", size)

    def begin(self, save: SaveRecord) -> None:
        """Record a save, whose digest is not known yet, before its file is written."""
        write_fields(self._begun(save.path), asdict(save))

    def finish(self, path: Path | str, digest: str, *, before: int) -> SaveRecord | None:
        """Record the end of an earlier attempt's save, whose file was read without an error.

        Its process was killed between the end of the writing and our record of it.
        """
        fields = read_fields(self._begun(real(path)))
        # A public script, right, was blamed here: torchrun ended a rank as it had just written its
        # file, before that was recorded, and the next attempt resumed from it. Only a later
        # attempt's reading counts: in the same attempt the file may still be written.
        if fields is None or fields["attempt"] >= before:
            return None
        save = replace(SaveRecord(**fields), digest=digest)
        self.keep(save)
        return save

    def lay(self, path: Path | str, digest: str, *, size: int, tmp: str) -> None:
        """Record where a file or an object is that was saved or copied.

        `tmp` is the node's temporary folder.
        """
        name = str(path)
        if is_object(name):
            self._lay(Laid(name, digest, size, 0, None))
            return
        found = os.stat(name)  # noqa: PTH116 - of a string
        own = tmp if is_below(name, tmp) else None
        self._lay(Laid(name, digest, found.st_size, found.st_mtime_ns, own))

    def move(self, path: str, to: str) -> None:
        """Record the renaming of a file, or of a folder with all files in it."""
        self.drop(to)
        alone = read_fields(self._laid(path))
        every = list(self.laid()) if alone is None else [Laid(**alone)]
        for laid in every:
            # The old place is kept as `was`: the audit event of a renaming comes before it is made,
            # and it may fail.
            if is_below(laid.path, path):
                self.drop(laid.path)
                self._lay(replace(laid, path=to + laid.path.removeprefix(path), was=laid.path))

    def drop(self, path: str) -> None:
        """Record that a file is removed; one whose renaming failed stays where it was."""
        fields = read_fields(self._laid(path))
        self._laid(path).unlink(missing_ok=True)
        if fields is None:
            return
        # Most often the old place is that of a temporary file, which holds the next save by now.
        laid = Laid(**fields)
        if laid.was is not None and laid.is_at(laid.was):
            self._lay(replace(laid, path=laid.was, was=None))

    def laid(self) -> Iterator[Laid]:
        for path in sorted(self._folder.glob("laid-*.json")):
            if (fields := read_fields(path)) is not None:
                yield Laid(**fields)

    def find(self, digest: str) -> SaveRecord | None:
        fields = read_fields(self._folder / f"{digest}.json")
        return None if fields is None else SaveRecord(**fields)

    def mark_end(self, save: SaveRecord) -> None:
        """Record that the report of a save's epoch has begun with no step in between."""
        if self.find(save.digest) == save:
            self.keep(replace(save, ends_epoch=True))

    def lengths(self, rank: int = 0, *, ranks: int | None = None) -> Mapping[int, int]:
        """Return the number of steps of each epoch of the baseline; empty if unknown.

        They are those of rank 0, but where the baseline shows that a rank has others. Where epochs
        end with saves, a group of so many `ranks` has them alone if the baseline's was as large.
        """
        found = dict(read_fields(self._folder / LENGTHS) or {})
        due = found.pop(RANKS, None)
        if None not in {due, ranks} and due != ranks:
            return {}
        ours = {epoch: found.get(f"{epoch}@{rank}", found[epoch]) for epoch in found}
        return {int(epoch): steps for epoch, steps in ours.items() if "@" not in epoch}

    def mark(self, what: Mark, *numbers: int) -> None:
        """Record, for all ranks and later attempts, what an empty file is named after."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._marked(what, numbers).touch()

    def has(self, what: Mark, *numbers: int) -> bool:
        """Return whether that was recorded."""
        return self._marked(what, numbers).exists()

    def keep_reads(self, attempt: int, rank: int, reads: Sequence[Position]) -> None:
        path = self._folder / f"reads-{attempt}-{rank}.json"
        write_fields(path, {"reads": [asdict(read) for read in reads]})

    def reads(self, attempt: int) -> dict[int, tuple[Position, ...]]:
        """Return the saves that each rank of an attempt has read, without ranks that read none."""
        found: dict[int, tuple[Position, ...]] = {}
        for path in sorted(self._folder.glob(f"reads-{attempt}-*.json")):
            fields = read_fields(path)
            if fields is not None:
                reads = tuple(Position(**read) for read in fields["reads"])
                found[reads[0].rank] = reads
        return found

    def keep_state(self, attempt: int, rank: int, place: Place, parts: Sequence[Component]) -> None:
        """Record a state that a rank of an attempt was seen in, for later attempts to find."""
        keys = state_keys(parts)
        if keys[0]:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"states-{attempt}-{rank}.jsonl").open("a") as file:
                file.write(json.dumps([*place, *keys]) + "\n")

    def states(self, *, before: int) -> Index:
        """Return the states that were seen in the attempts before one."""
        found = Index()
        for path in sorted(self._folder.glob("states-*.jsonl")):
            # A file for each attempt and rank, so that ranks append without a lock, and no attempt
            # finds the states that it makes itself.
            if int(path.name.split("-")[1]) < before:
                for line in path.read_text(encoding="utf-8").splitlines():
                    if line.endswith("]"):  # a killed process may leave half a line
                        epoch, step, model, optimizer = json.loads(line)
                        found.add_keys(Place(epoch, step), model, optimizer)
        return found

    def index(self, rank: int, *, ranks: int) -> Index:
        """Return the index of the baseline for one of so many ranks; empty without one."""
        fields = read_fields(self._folder / f"{INDEX}{rank}.json")
        return Index() if fields is None else Index.of_fields(fields, ranks=ranks)

    def keep_part(self, checkpoint: str, rank: int, place: Place | None) -> None:
        """Record the resume place of a rank's part of a checkpoint; None: unknown."""
        path = self._folder / f"part-{_name_of(checkpoint)}-{rank}.json"
        write_fields(path, {"place": place})

    def goes_on_at(self, checkpoint: str) -> Place | None:
        """Return the resume place of a checkpoint, None if it is unknown."""
        paths = self._folder.glob(f"part-{_name_of(checkpoint)}-*.json")
        places = [(read_fields(path) or {}).get("place") for path in paths]
        found = [Place(epoch, step) for epoch, step in filter(None, places)]
        # A saver beside training hands a checkpoint over with a later report, so its report does
        # not say how old it is. Its youngest file does; with one file of unknown origin nothing
        # does.
        return max(found) if found and len(found) == len(places) else None

    def take_position(self, position: Position) -> None:
        """Record the position of a rank; the latest one stands."""
        write_fields(
            self._folder / f"position-{position.attempt}-{position.rank}.json", asdict(position)
        )

    def position(self, attempt: int) -> Position | None:
        """Return the furthest position of an attempt's ranks, if one was taken."""
        found = map(read_fields, self._folder.glob(f"position-{attempt}-*.json"))
        taken = [Position(**fields) for fields in found if fields is not None]
        return max(taken, key=lambda p: p.place, default=None)

    def _begun(self, path: str) -> Path:
        name = path if is_object(path) else os.path.abspath(path)  # noqa: PTH100
        return self._folder / f"begun-{_name_of(name)}.json"

    def _laid(self, path: str) -> Path:
        return self._folder / f"laid-{_name_of(path)}.json"

    def _lay(self, laid: Laid) -> None:
        write_fields(self._laid(laid.path), asdict(laid))

    def _marked(self, what: Mark, numbers: tuple[int, ...]) -> Path:
        return self._folder / "-".join((what, *map(str, numbers)))


def real(path: Path | str) -> str:
    """Return a path without links, by which a file is known whatever path it is opened by.

    An object has one name.
    """
    return str(path) if is_object(str(path)) else os.path.realpath(path)


def _name_of(checkpoint: str) -> str:
    return hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest()
