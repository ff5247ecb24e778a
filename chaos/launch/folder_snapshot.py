"""A look at a job's working folder: what lies in it before a run, and what another one finds after.

Names, sizes, times and inodes only. A huge folder is looked at in part, from its top down.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from chaos.model.paths import is_in_folder
from chaos.probe.write_ledger import is_spared

FileMark: TypeAlias = tuple[int, int, int]  # inode, time of its content (unix, ns), bytes

ENTRIES_MAX = 20_000  # files and folders: some 50 ms
# Of tools, which change them beside a job; a job's own files are never in one.
TOOL_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox"),
        *(".idea", ".vscode", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"),
    )
)


@dataclass(frozen=True)
class FolderSnapshot:
    """The files of a folder at one time, but for those of tools and of chaos."""

    folder: str
    left_out: str
    marks: Mapping[str, FileMark]
    folders: frozenset[str]
    #: the first folder that was not looked into, as there are too many files; none: ""
    truncated_at: str = ""

    @classmethod
    def from_folder(cls, folder: str, *, left_out: str) -> "FolderSnapshot":
        """Look at a folder; what lies below `left_out` is chaos's own."""
        marks, folders, count = dict[str, FileMark](), set[str](), 0
        pending = deque([folder])
        while pending:
            current = pending.popleft()
            if count > ENTRIES_MAX:
                return cls(folder, left_out, marks, frozenset(folders), current)
            for entry in _scan_entries(current):
                count += 1
                if is_in_folder(entry.path, left_out) or _is_foreign_path(entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in TOOL_FOLDERS and not _is_environment(entry.path):
                        folders.add(entry.path)
                        pending.append(entry.path)
                elif (mark := _build_mark(entry)) is not None:
                    marks[entry.path] = mark
        return cls(folder, left_out, marks, frozenset(folders))

    def compare_current(self) -> "FolderChange":
        return FolderChange.from_snapshots(
            self, FolderSnapshot.from_folder(self.folder, left_out=self.left_out)
        )


@dataclass(frozen=True)
class FolderChange:
    """The differences between two looks at a folder, by absolute paths."""

    new_files: tuple[str, ...]
    changed_files: tuple[str, ...]
    removed_files: tuple[str, ...]
    new_folders: frozenset[str]
    truncated_at: str

    @classmethod
    def from_snapshots(cls, initial: FolderSnapshot, current: FolderSnapshot) -> "FolderChange":
        """Compare two looks; where one of them was cut, nothing is new that it may have missed."""
        truncated_at = initial.truncated_at or current.truncated_at
        new = (path for path in current.marks if path not in initial.marks)
        removed = (path for path in initial.marks if path not in current.marks)
        common = (path for path in current.marks if path in initial.marks)
        return cls(
            new_files=() if initial.truncated_at else tuple(sorted(new)),
            changed_files=tuple(sorted(p for p in common if initial.marks[p] != current.marks[p])),
            removed_files=() if current.truncated_at else tuple(sorted(removed)),
            new_folders=frozenset() if initial.truncated_at else current.folders - initial.folders,
            truncated_at=truncated_at,
        )

    @property
    def is_empty(self) -> bool:
        return not (self.new_files or self.changed_files or self.removed_files or self.truncated_at)

    def exclude_files(self, is_known: Callable[[str], bool]) -> "FolderChange":
        """Return the change but for these files."""
        new, changed, removed = (
            tuple(path for path in paths if not is_known(path))
            for paths in (self.new_files, self.changed_files, self.removed_files)
        )
        return replace(self, new_files=new, changed_files=changed, removed_files=removed)

    def find_new_parents(self, path: str) -> list[str]:
        """Return the new folders that a path lies in."""
        return [parent for parent in map(str, Path(path).parents) if parent in self.new_folders]


def _scan_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # removed since, or not readable
        return


def _build_mark(entry: os.DirEntry[str]) -> FileMark | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _is_foreign_path(path: str) -> bool:
    return path.startswith(("/proc", "/sys", "/dev")) or is_spared(path)


def _is_environment(folder: str) -> bool:
    return Path(folder, "pyvenv.cfg").exists()
