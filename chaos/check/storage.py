"""The content of storage, compared with the commits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from chaos.check.analysis import RunTables
from chaos.check.attempt import Commit
from chaos.model.event import (
    CheckpointDeleted,
    FileSaved,
    PartUploaded,
    ShardedPart,
    StorageSeen,
)
from chaos.model.history import History
from chaos.words import ranks as ranks_in_words


@dataclass(frozen=True)
class SharedFile:
    """A file of one checkpoint that several ranks uploaded, each with content of its own."""

    path: str
    ranks: tuple[int, ...]
    #: where the job saved it, `train.py:46`; None if that was not seen
    place: str | None

    def __str__(self) -> str:
        where = f", saved at {self.place}" if self.place else ""
        return f"{ranks_in_words(self.ranks)} each upload {self.path} with other content{where}"


ADVICE = "let one rank report the file, or give each rank's file a name of its own"


@dataclass(frozen=True)
class StoredCheckpoints:
    """The commits of one history, the files that belong to each, and their removal."""

    history: History
    commits: Sequence[Commit]

    @cached_property
    def parts(self) -> Mapping[str, Sequence[PartUploaded]]:
        """The parts that were uploaded, by checkpoint."""
        found: dict[str, list[PartUploaded]] = {}
        for _, part in self.history.of(PartUploaded):
            found.setdefault(part.checkpoint, []).append(part)
        return found

    def due(self, before: int, seen: StorageSeen) -> list[Commit]:
        """Return the commits that a look at storage must have found, oldest first.

        `before` is the number of its event. A commit that Ray removes later may be half removed as
        soon as a newer one is there.
        """
        there = [c for c in self.commits if c.number < before and c.checkpoint is not None]
        newest = there[-1].checkpoint if there else None
        since_ns = seen.began_ns
        if since_ns is not None:
            # A look takes its time. A commit that came while it went on may be missed by it: a
            # random plan (seed 2002) gave a false alarm so.
            there = [c for c in there if self.history.time_ns(c.number) <= since_ns]
        gone_at = {gone.checkpoint: number for number, gone in self.history.of(CheckpointDeleted)}
        newest_is_there = gone_at.get(newest or "", before) > before
        return [
            c
            for c in there
            if c.checkpoint not in gone_at or (c.checkpoint == newest and newest_is_there)
        ]

    def damage(self, commit: Commit, seen: StorageSeen) -> str | None:
        """Return the damage of a checkpoint as storage holds it; None without any."""
        assert commit.checkpoint is not None
        files = files_in(seen, commit.checkpoint)
        parts = self.parts.get(commit.checkpoint, ())
        # Where nothing was uploaded none is there: a bucket has no directory without a file.
        if files is None and (not parts or any(part.files for part in parts)):
            return "is gone"
        files = files or {}
        due: dict[str, set[str]] = {}
        others: set[str] = set()
        for part in parts:
            # A checkpoint of the same name by an earlier attempt was never committed. Its files in
            # this one's folder are a mixture, which no file's digest alone shows.
            if part.attempt != commit.attempt:
                others |= set(part.files)
                continue
            for path, digest in part.files.items():
                due.setdefault(path, set()).add(digest)
        missing = sorted(set(due) - set(files))
        mixed_by_ranks = {shared.path for shared in self.mixed_files(commit, seen)}
        known = set(due) & set(files) - mixed_by_ranks
        changed = sorted(path for path in known if files[path] not in due[path])
        mixed = sorted((others & set(files)) - set(due))
        for words, paths in (
            ("lacks", missing),
            ("has another", changed),
            ("was mixed with", mixed),
        ):
            if paths:
                more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                return f"{words} {paths[0]}{more}"
        return None

    def mixed_files(self, commit: Commit, seen: StorageSeen) -> Sequence[SharedFile]:
        """Return the files that storage holds as a mixture of what several ranks uploaded.

        That needs no fault: Ray puts the parts of a checkpoint into one folder, and two uploads of
        one name may write it at the same time.
        """
        files = files_in(seen, commit.checkpoint or "") or {}
        parts = self.parts.get(commit.checkpoint or "", ())  # of earlier attempts as well
        return [
            shared
            for shared in self.shared_files(commit)
            if shared.path in files
            and all(part.files.get(shared.path) != files[shared.path] for part in parts)
        ]

    def shared_files(self, commit: Commit) -> Sequence[SharedFile]:
        """Return the files of a checkpoint that several ranks uploaded with other content."""
        digests: dict[str, dict[int, str]] = {}
        for part in self._own(commit):
            for path, digest in part.files.items():
                digests.setdefault(path, {})[part.rank] = digest
        return [
            SharedFile(path, tuple(sorted(by_rank)), self._saving_line(commit, path))
            for path, by_rank in sorted(digests.items())
            if len(set(by_rank.values())) > 1
        ]

    def _saving_line(self, commit: Commit, path: str) -> str | None:
        """Return the line of the last save of a file by its name, before a commit."""
        name, place = PurePosixPath(path).name, None
        for number, save in self.history.of(FileSaved):
            is_of_it = save.attempt == commit.attempt and PurePosixPath(save.path).name == name
            if number < commit.number and is_of_it and save.code is not None:
                place = f"{PurePosixPath(save.code.file).name}:{save.code.line}"
        return place

    def unfinished(self, commit: Commit) -> str | None:
        """Return what a sharded checkpoint lacks of what it says that it holds; None if nothing.

        Its index is written last: without one no attempt can read it. On another number of ranks it
        has other files, each of them in its own index.
        """
        sizes: dict[str, int] = {}
        needs: dict[str, int] = {}
        indexed = set[PurePosixPath]()
        for part in self.sharded(commit):
            sizes |= part.sizes
            needs |= part.needs
            indexed |= {PurePosixPath(path).parent for path in part.indexes}
        for path in sorted(sizes):
            if PurePosixPath(path).parent not in indexed:
                return f"has no metadata beside {path}, without which no attempt can read it"
        for path, least in sorted(needs.items()):
            if path not in sizes:
                return f"lacks {path}, which its own metadata names"
            if sizes[path] < least:
                return f"has {sizes[path]} bytes of {path}, and {least} by its own metadata"
        return None

    def sharded(self, commit: Commit) -> Sequence[ShardedPart]:
        """Return the parts of a checkpoint that are sharded."""
        return [part.sharded for part in self._own(commit) if part.sharded is not None]

    def uploaders(self, commit: Commit) -> frozenset[int]:
        """Return the ranks that were seen to upload a part of a checkpoint."""
        return frozenset(part.rank for part in self._own(commit))

    def _own(self, commit: Commit) -> Iterator[PartUploaded]:
        parts = self.parts.get(commit.checkpoint or "", ())
        return (part for part in parts if part.attempt == commit.attempt)

    def keys(self, commit: Commit) -> frozenset[str]:
        """Return the names of the entries of a sharded checkpoint; none where they are unknown."""
        return frozenset(key for part in self.sharded(commit) for key in part.keys)


def shared_file_warnings(tables: RunTables) -> Iterator[str]:
    """Yield a warning for each file of which several ranks upload content of their own."""
    known = stored_checkpoints(tables)
    shared = {one.path: one for commit in known.commits for one in known.shared_files(commit)}
    for one in shared.values():
        yield (
            f"{one}: Ray puts the parts of a checkpoint into one folder, which then holds the file "
            f"of one rank, or a mixture; {ADVICE}"
        )


def stored_checkpoints(tables: RunTables) -> StoredCheckpoints:
    """Return the checkpoints of a course."""
    every = (c for a in tables.attempts for c in (*a.early, *a.commits))
    return StoredCheckpoints(tables.history, sorted(every, key=lambda c: c.number))


def files_in(seen: StorageSeen, checkpoint: str) -> dict[str, str] | None:
    """Return the files of a checkpoint in storage, by their path in it; None if it is not there.

    One that the job itself wrote deeper down lies within a directory of another name.
    """
    for found in seen.checkpoints:
        if found.name == checkpoint:
            return found.files
    top, _, deeper = checkpoint.partition("/")
    within = f"{deeper}/"
    for found in seen.checkpoints if deeper else ():
        if found.name == top:
            files = found.files.items()
            return {p.removeprefix(within): d for p, d in files if p.startswith(within)} or None
    return None


def is_elsewhere(checkpoint: str) -> bool:
    """Return whether a checkpoint lies outside the run's storage, which is all that is examined."""
    return checkpoint.startswith("../")


def kept_at_the_end(tables: RunTables) -> tuple[int, Mapping[str, int]] | None:
    """Return the committed checkpoints that were left, with their epochs.

    None: storage was not examined, or not all the places where they may lie.
    """
    last = [(n, seen) for n, seen in tables.history.of(StorageSeen) if seen.op is None]
    if not last or any(map(is_elsewhere, tables.committed)):
        return None
    number, seen = last[-1]
    there = {name: c for name, c in tables.committed.items() if files_in(seen, name) is not None}
    return number, {name: commit.epoch for name, commit in there.items()}
