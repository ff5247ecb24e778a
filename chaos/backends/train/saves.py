"""Small files in the run's folder by which attempts know of each other's saves.

`saves/<digest>.json` says where in training a file with these bytes was saved,
`saves/reads-<attempt>-<rank>.json` from which of them a rank of an attempt may
go on, and `saves/position-<attempt>-<rank>.json` where it went on.
`saves/part-<checkpoint>-<rank>.json` says where a restart goes on from a rank's part of a
checkpoint that Ray was given, where all files of it were saved in this run.
`saves/fresh-<rank>.json` holds the model that a rank's first attempt began with.
`lengths.json` holds the steps of each epoch of the baseline, where there is one.
`place-<attempt>-<epoch>-<step>` is there where a rank of an attempt has saved
a file after that step, `early-<attempt>-<number>` where a report of an attempt came
before it trained anything.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from chaos.run.directory import LENGTHS
from chaos.run.whole_file import read_fields, write_fields


@dataclass(frozen=True)
class Save:
    """One file as it was saved. `ends_epoch`: the epoch's report began with no step after it.

    `is_log`: it is text that is written as logs are, and no state unless nothing else is.
    """

    digest: str
    attempt: int
    rank: int
    epoch: int
    step: int
    path: str
    ends_epoch: bool = False
    is_log: bool = False

    def goes_on_at(self) -> tuple[int, int]:
        """Return (epoch, step) that a job goes on from when it loads the file."""
        return (self.epoch + 1, 0) if self.ends_epoch else (self.epoch, self.step)


@dataclass(frozen=True)
class Position:
    """Where a rank went on: `step` steps of `epoch` are done. `is_log` as in `Save`."""

    attempt: int
    rank: int
    epoch: int
    step: int
    path: str
    is_log: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Where that is, as epoch and finished steps of it."""
        return self.epoch, self.step

    @classmethod
    def of(cls, save: Save, *, attempt: int, rank: int) -> Self:
        """Return where a rank goes on that has loaded a file."""
        epoch, step = save.goes_on_at()
        return cls(attempt, rank, epoch, step, save.path, save.is_log)


class Saves:
    """The reader and writer of these files, each of which is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def run(self) -> Path:
        """The run's own folder."""
        return self._folder.parent

    def keep(self, save: Save, *, size: int | None = None) -> None:
        """Write down a save of so many bytes; the latest of equal bytes stands."""
        write_fields(self._folder / f"{save.digest}.json", asdict(save))
        if size is not None:
            (self._folder / f"size-{size}").touch()

    def has_size(self, size: int) -> bool:
        """Return whether a file of so many bytes was saved in this run."""
        return (self._folder / f"size-{size}").exists()

    def find(self, digest: str) -> Save | None:
        """Return when a file of these bytes was saved in this run, if it was."""
        fields = read_fields(self._folder / f"{digest}.json")
        return None if fields is None else Save(**fields)

    def mark_end(self, save: Save) -> None:
        """Write down that the report of a save's epoch has begun with no step in between."""
        if self.find(save.digest) == save:
            self.keep(replace(save, ends_epoch=True))

    def lengths(self) -> Mapping[int, int]:
        """Return how many steps each epoch of the baseline has; empty where that is not known."""
        found = read_fields(self._folder / LENGTHS) or {}
        return {int(epoch): steps for epoch, steps in found.items()}

    def mark_place(self, attempt: int, epoch: int, step: int) -> None:
        """Write down that a job can go on from here: a rank has saved a file."""
        (self._folder / f"place-{attempt}-{epoch}-{step}").touch()

    def has_place(self, attempt: int, epoch: int, step: int) -> bool:
        """Return whether a rank of an attempt has saved a file here."""
        return (self._folder / f"place-{attempt}-{epoch}-{step}").exists()

    def mark_early(self, attempt: int, number: int) -> None:
        """Write down that a report of an attempt, by its number, comes before any training."""
        (self._folder / f"early-{attempt}-{number}").touch()

    def is_early(self, attempt: int, number: int) -> bool:
        """Return whether a report of an attempt came before any training."""
        return (self._folder / f"early-{attempt}-{number}").exists()

    def keep_reads(self, attempt: int, rank: int, reads: Sequence[Position]) -> None:
        """Write down all that a rank has read so far of this run's files."""
        path = self._folder / f"reads-{attempt}-{rank}.json"
        write_fields(path, {"reads": [asdict(read) for read in reads]})

    def reads(self, attempt: int) -> dict[int, tuple[Position, ...]]:
        """Return what each rank of an attempt has read, of those that have read anything."""
        found: dict[int, tuple[Position, ...]] = {}
        for path in sorted(self._folder.glob(f"reads-{attempt}-*.json")):
            fields = read_fields(path)
            if fields is not None:
                reads = tuple(Position(**read) for read in fields["reads"])
                found[reads[0].rank] = reads
        return found

    def keep_fresh(self, rank: int, model: Mapping[str, str]) -> None:
        """Write down the digests of the model that a rank began the run with, by part."""
        write_fields(self._folder / f"fresh-{rank}.json", dict(model))

    def fresh(self, rank: int) -> Mapping[str, str] | None:
        """Return those digests, None where they were not seen."""
        return read_fields(self._folder / f"fresh-{rank}.json")

    def keep_part(self, checkpoint: str, rank: int, place: tuple[int, int] | None) -> None:
        """Write down where a restart goes on from a rank's part of a checkpoint; None: unknown."""
        path = self._folder / f"part-{_name_of(checkpoint)}-{rank}.json"
        write_fields(path, {"place": place})

    def goes_on_at(self, checkpoint: str) -> tuple[int, int] | None:
        """Return where a restart from a checkpoint goes on, None where that is not known."""
        paths = self._folder.glob(f"part-{_name_of(checkpoint)}-*.json")
        places = [(read_fields(path) or {}).get("place") for path in paths]
        found = [(epoch, step) for epoch, step in filter(None, places)]
        return max(found) if found and len(found) == len(places) else None

    def take_position(self, position: Position) -> None:
        """Write down where a rank goes on; the last word of a rank stands."""
        write_fields(
            self._folder / f"position-{position.attempt}-{position.rank}.json", asdict(position)
        )

    def position(self, attempt: int) -> Position | None:
        """Return the furthest position of an attempt's ranks, if one was taken."""
        taken = list(self._positions(attempt))
        return max(taken, key=lambda p: p.place) if taken else None

    def _positions(self, attempt: int) -> Iterator[Position]:
        for path in sorted(self._folder.glob(f"position-{attempt}-*.json")):
            fields = read_fields(path)
            if fields is not None:
                yield Position(**fields)


def _name_of(checkpoint: str) -> str:
    return hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest()
