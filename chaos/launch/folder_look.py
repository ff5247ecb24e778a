"""A look at a job's working folder: what lies in it before a run, and what another one finds after.

Names, sizes, times and inodes only. A huge folder is looked at in part, from its top down.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from chaos.model.paths import is_below
from chaos.probe.written import is_spared

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
class FolderLook:
    """The files of a folder at one time, but for those of tools and of chaos."""

    folder: str
    left_out: str
    marks: Mapping[str, FileMark]
    folders: frozenset[str]
    #: the first folder that was not looked into, as there are too many files; none: ""
    cut: str = ""

    @classmethod
    def at(cls, folder: str, *, left_out: str) -> "FolderLook":
        """Look at a folder; what lies below `left_out` is chaos's own."""
        marks, folders, count = dict[str, FileMark](), set[str](), 0
        waiting = deque([folder])
        while waiting:
            at = waiting.popleft()
            if count > ENTRIES_MAX:
                return cls(folder, left_out, marks, frozenset(folders), at)
            for entry in _entries(at):
                count += 1
                if is_below(entry.path, left_out) or _is_none_of_a_job(entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in TOOL_FOLDERS and not _is_environment(entry.path):
                        folders.add(entry.path)
                        waiting.append(entry.path)
                elif (mark := _mark(entry)) is not None:
                    marks[entry.path] = mark
        return cls(folder, left_out, marks, frozenset(folders))

    def compared_with_now(self) -> "FolderChange":
        return FolderChange.between(self, FolderLook.at(self.folder, left_out=self.left_out))


@dataclass(frozen=True)
class FolderChange:
    """The differences between two looks at a folder, by absolute paths."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    new_folders: frozenset[str]
    cut: str

    @classmethod
    def between(cls, before: FolderLook, after: FolderLook) -> "FolderChange":
        """Compare two looks; where one of them was cut, nothing is new that it may have missed."""
        cut = before.cut or after.cut
        new = (path for path in after.marks if path not in before.marks)
        gone = (path for path in before.marks if path not in after.marks)
        both = (path for path in after.marks if path in before.marks)
        return cls(
            new=() if before.cut else tuple(sorted(new)),
            changed=tuple(sorted(p for p in both if before.marks[p] != after.marks[p])),
            gone=() if after.cut else tuple(sorted(gone)),
            new_folders=frozenset() if before.cut else after.folders - before.folders,
            cut=cut,
        )

    @property
    def is_none(self) -> bool:
        return not (self.new or self.changed or self.gone or self.cut)

    def without(self, is_known: Callable[[str], bool]) -> "FolderChange":
        """Return the change but for these files."""
        new, changed, gone = (
            tuple(path for path in paths if not is_known(path))
            for paths in (self.new, self.changed, self.gone)
        )
        return replace(self, new=new, changed=changed, gone=gone)

    def folders_above(self, path: str) -> list[str]:
        """Return the new folders that a path lies in."""
        return [above for above in map(str, Path(path).parents) if above in self.new_folders]


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:  # removed since, or not readable
        return


def _mark(entry: os.DirEntry[str]) -> FileMark | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_none_of_a_job(path: str) -> bool:
    return path.startswith(("/proc", "/sys", "/dev")) or is_spared(path)


def _is_environment(folder: str) -> bool:
    return Path(folder, "pyvenv.cfg").exists()
