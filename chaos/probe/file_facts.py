"""The facts of a file that a job saves: its name, its bytes, its counts, and its neighbours."""

import itertools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from chaos.model.event import SavedPart
from chaos.probe.state.content import count_elements, find_counts, list_parts
from chaos.run.file_digest import file_digest

Stored: TypeAlias = tuple[str, int]  # the digest of a file, and its bytes
# Files of a folder that are looked at: a job may keep a checkpoint for every step in it.
BESIDE_MAX = 256


class FileContent(NamedTuple):
    """The entries of a file, and what is counted in it."""

    parts: tuple[SavedPart, ...] = ()
    counts: Mapping[str, int] = MappingProxyType({})
    #: None: not known
    elements: int | None = None


def resolve_links(path: Path | str) -> Path:
    """Return a path without links, by which a file is known whatever path it is opened by."""
    return Path(os.path.realpath(path))


def resolve_folder(path: str) -> str:
    """Return the path of a name in a folder, also of a link: it is renamed or removed itself."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - the paths are strings


def find_neighbours(paths: Iterable[str]) -> set[str]:
    """Return the files in the folders of these, where a folder is of one save, by its number.

    A mark that a save is whole may be written as its writer ends, which is not seen.
    """
    folders = {path.parent for path in map(Path, paths)}
    numbered = (folder for folder in folders if any(c.isdigit() for c in folder.name))
    return {
        str(file)
        for folder in numbered
        for file in itertools.islice(sorted(folder.iterdir()), BESIDE_MAX)
        if file.is_file()
    }


def digest_file(path: Path) -> Stored:
    """Return the digest of a file, and its bytes."""
    return file_digest(path), path.stat().st_size


def extract_content(value: Any) -> FileContent:  # whatever is saved
    """Return the entries of what is saved, and the counts in it."""
    if value is None:
        return FileContent()
    return FileContent(list_parts(value), find_counts(value), count_elements(value))
