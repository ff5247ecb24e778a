"""The content of storage, compared with the commits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

from chaos.check.analysis import RunTables
from chaos.check.kinds.checkpoints import (
    ShardCutShort,
    ShardMetadataMissing,
    ShardMissing,
    SharedFile,
)
from chaos.check.prose.checkpoints import SHARED_FILE_ADVICE, describe_shared_file
from chaos.model.event import (
    CheckpointDeleted,
    FileSaved,
    PartUploaded,
    ShardedPart,
    StorageSeen,
)
from chaos.model.history import History
from chaos.resume.attempt import Commit

UnfinishedShard: TypeAlias = ShardMetadataMissing | ShardMissing | ShardCutShort


class Damage(NamedTuple):
    """The damage of a checkpoint as storage holds it."""

    problem: Literal["gone", "files missing", "files changed", "files of another attempt"]
    #: the first of the files, by name, and the number of the others
    path: str = ""
    other_count: int = 0


@dataclass(frozen=True)
class StoredCheckpoints:
    """The commits of one history, the files that belong to each, and their removal."""

    history: History
    commits: Sequence[Commit]

    @cached_property
    def parts(self) -> Mapping[str, Sequence[PartUploaded]]:
        """The parts that were uploaded, by checkpoint."""
        parts_by_checkpoint: dict[str, list[PartUploaded]] = {}
        for _, part in self.history.select_events(PartUploaded):
            parts_by_checkpoint.setdefault(part.checkpoint, []).append(part)
        return parts_by_checkpoint

    def find_expected_commits(self, look_number: int, listing: StorageSeen) -> list[Commit]:
        """Return the commits that a look at storage must have found, oldest first.

        `look_number` is the number of its event. A commit that Ray removes later may be half
        removed as soon as a newer one is there.
        """
        stored_commits = [
            c for c in self.commits if c.number < look_number and c.checkpoint is not None
        ]
        newest = stored_commits[-1].checkpoint if stored_commits else None
        look_began_ns = listing.began_ns
        if look_began_ns is not None:
            # A look takes its time. A commit that came while it went on may be missed by it: a
            # random plan (seed 2002) gave a false alarm so.
            stored_commits = [
                c for c in stored_commits if self.history.time_ns(c.number) <= look_began_ns
            ]
        deletion_numbers = {
            deletion.checkpoint: number
            for number, deletion in self.history.select_events(CheckpointDeleted)
        }
        has_newest = deletion_numbers.get(newest or "", look_number) > look_number
        return [
            c
            for c in stored_commits
            if c.checkpoint not in deletion_numbers or (c.checkpoint == newest and has_newest)
        ]

    def find_damage(self, commit: Commit, listing: StorageSeen) -> Damage | None:
        """Return the damage of a checkpoint as storage holds it; None without any."""
        assert commit.checkpoint is not None
        files = list_files(listing, commit.checkpoint)
        parts = self.parts.get(commit.checkpoint, ())
        # Where nothing was uploaded none is there: a bucket has no directory without a file.
        if files is None and (not parts or any(part.files for part in parts)):
            return Damage("gone")
        files = files or {}
        expected_digests: dict[str, set[str]] = {}
        foreign_paths: set[str] = set()
        for part in parts:
            # A checkpoint of the same name by an earlier attempt was never committed. Its files in
            # this one's folder are a mixture, which no file's digest alone shows.
            if part.attempt != commit.attempt:
                foreign_paths |= set(part.files)
                continue
            for path, digest in part.files.items():
                expected_digests.setdefault(path, set()).add(digest)
        missing_paths = sorted(set(expected_digests) - set(files))
        mixed_by_ranks = {
            shared_file.path for shared_file in self.find_mixed_files(commit, listing)
        }
        known_paths = set(expected_digests) & set(files) - mixed_by_ranks
        changed_paths = sorted(
            path for path in known_paths if files[path] not in expected_digests[path]
        )
        mixed_paths = sorted((foreign_paths & set(files)) - set(expected_digests))
        if missing_paths:
            return Damage("files missing", missing_paths[0], len(missing_paths) - 1)
        if changed_paths:
            return Damage("files changed", changed_paths[0], len(changed_paths) - 1)
        if mixed_paths:
            return Damage("files of another attempt", mixed_paths[0], len(mixed_paths) - 1)
        return None

    def find_mixed_files(self, commit: Commit, listing: StorageSeen) -> Sequence[SharedFile]:
        """Return the files that storage holds as a mixture of what several ranks uploaded.

        That needs no fault: Ray puts the parts of a checkpoint into one folder, and two uploads of
        one name may write it at the same time.
        """
        files = list_files(listing, commit.checkpoint or "") or {}
        parts = self.parts.get(commit.checkpoint or "", ())  # of earlier attempts as well
        return [
            shared_file
            for shared_file in self.find_shared_files(commit)
            if shared_file.path in files
            and all(part.files.get(shared_file.path) != files[shared_file.path] for part in parts)
        ]

    def find_shared_files(self, commit: Commit) -> Sequence[SharedFile]:
        """Return the files of a checkpoint that several ranks uploaded with other content."""
        digests: dict[str, dict[int, str]] = {}
        for part in self._find_own_parts(commit):
            for path, digest in part.files.items():
                digests.setdefault(path, {})[part.rank] = digest
        return [
            SharedFile(path, tuple(sorted(rank_digests)), self._find_saving_line(commit, path))
            for path, rank_digests in sorted(digests.items())
            if len(set(rank_digests.values())) > 1
        ]

    def _find_saving_line(self, commit: Commit, path: str) -> str | None:
        """Return the line of the last save of a file by its name, before a commit."""
        file_name, source_location = PurePosixPath(path).name, None
        for number, save in self.history.select_events(FileSaved):
            is_match = save.attempt == commit.attempt and PurePosixPath(save.path).name == file_name
            if number < commit.number and is_match and save.code is not None:
                source_location = f"{PurePosixPath(save.code.file).name}:{save.code.line}"
        return source_location

    def find_unfinished_shard(self, commit: Commit) -> UnfinishedShard | None:
        """Return what a sharded checkpoint lacks of what it says that it holds; None if nothing.

        Its index is written last: without one no attempt can read it. On another number of ranks it
        has other files, each of them in its own index.
        """
        name, epoch = commit.checkpoint or "", commit.epoch
        sizes: dict[str, int] = {}
        needed_sizes: dict[str, int] = {}
        indexed_folders = set[PurePosixPath]()
        for part in self.find_sharded_parts(commit):
            sizes |= part.sizes
            needed_sizes |= part.needs
            indexed_folders |= {PurePosixPath(path).parent for path in part.indexes}
        for path in sorted(sizes):
            if PurePosixPath(path).parent not in indexed_folders:
                return ShardMetadataMissing(name, epoch, path)
        for path, needed_size in sorted(needed_sizes.items()):
            if path not in sizes:
                return ShardMissing(name, epoch, path)
            if sizes[path] < needed_size:
                return ShardCutShort(name, epoch, path, sizes[path], needed_size)
        return None

    def find_sharded_parts(self, commit: Commit) -> Sequence[ShardedPart]:
        """Return the parts of a checkpoint that are sharded."""
        return [part.sharded for part in self._find_own_parts(commit) if part.sharded is not None]

    def find_uploaders(self, commit: Commit) -> frozenset[int]:
        """Return the ranks that were seen to upload a part of a checkpoint."""
        return frozenset(part.rank for part in self._find_own_parts(commit))

    def _find_own_parts(self, commit: Commit) -> Iterator[PartUploaded]:
        parts = self.parts.get(commit.checkpoint or "", ())
        return (part for part in parts if part.attempt == commit.attempt)

    def find_entry_names(self, commit: Commit) -> frozenset[str]:
        """Return the names of the entries of a sharded checkpoint; none where they are unknown."""
        return frozenset(key for part in self.find_sharded_parts(commit) for key in part.keys)


def find_shared_file_warnings(tables: RunTables) -> Iterator[str]:
    """Yield a warning for each file of which several ranks upload content of their own."""
    checkpoints = collect_checkpoints(tables)
    shared_files = {
        shared_file.path: shared_file
        for commit in checkpoints.commits
        for shared_file in checkpoints.find_shared_files(commit)
    }
    for shared_file in shared_files.values():
        yield (
            f"{describe_shared_file(shared_file)}: Ray puts the parts of a checkpoint into one "
            f"folder, which then holds the file of one rank, or a mixture; {SHARED_FILE_ADVICE}"
        )


def collect_checkpoints(tables: RunTables) -> StoredCheckpoints:
    """Return the checkpoints of a course."""
    commits = (c for a in tables.attempts for c in (*a.early_commits, *a.commits))
    return StoredCheckpoints(tables.history, sorted(commits, key=lambda c: c.number))


def list_files(listing: StorageSeen, checkpoint: str) -> dict[str, str] | None:
    """Return the files of a checkpoint in storage, by their path in it; None if it is not there.

    One that the job itself wrote deeper down lies within a directory of another name.
    """
    for stored_checkpoint in listing.checkpoints:
        if stored_checkpoint.name == checkpoint:
            return stored_checkpoint.files
    top, _, deeper = checkpoint.partition("/")
    prefix = f"{deeper}/"
    for stored_checkpoint in listing.checkpoints if deeper else ():
        if stored_checkpoint.name == top:
            files = stored_checkpoint.files.items()
            return {p.removeprefix(prefix): d for p, d in files if p.startswith(prefix)} or None
    return None


def is_outside_storage(checkpoint: str) -> bool:
    """Return whether a checkpoint lies outside the run's storage, which is all that is examined."""
    return checkpoint.startswith("../")


def find_final_checkpoints(tables: RunTables) -> tuple[int, Mapping[str, int]] | None:
    """Return the committed checkpoints that were left, with their epochs.

    None: storage was not examined, or not all the places where they may lie.
    """
    final_listings = [
        (n, listing)
        for n, listing in tables.history.select_events(StorageSeen)
        if listing.op is None
    ]
    if not final_listings or any(map(is_outside_storage, tables.checkpoint_commits)):
        return None
    number, listing = final_listings[-1]
    stored_commits = {
        name: c
        for name, c in tables.checkpoint_commits.items()
        if list_files(listing, name) is not None
    }
    return number, {name: commit.epoch for name, commit in stored_commits.items()}
