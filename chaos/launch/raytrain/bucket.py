"""Storage outside the run's folder: a bucket, or any other file system of the script.

Only the driver has the file system that the script chose. It pickles it, with the
path, into the run's folder, where harness and chaos controller read it. The file
may hold keys of the script, so no other user can read it, and it is removed before
the run is over.
"""

import os
import pickle
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaos.model.event import StoredCheckpoint
from chaos.run.directory import RunDirectory
from chaos.run.file_digest import WHOLE_MAX, stream_digest
from chaos.run.record_file import read_small_file

_FILE = "storage-elsewhere.pickle"
_KEYS = re.compile(r"(?<=://)[^/?#]*@")


@dataclass(frozen=True)
class RemoteStorage:
    """A file system of pyarrow, the folder of a run's storage in it, and the name of Ray's run."""

    filesystem: Any
    folder: str
    run_name: str
    #: the folder's URI without keys, for reports
    display_uri: str

    def folder_names(self) -> list[str]:
        """Return the path of each directory that holds a file; raises OSError if it cannot look.

        A bucket has no directories: a name without a file below it is an empty marker, with
        nothing to read or to clean up.
        """
        folder_paths: set[str] = set()
        for name, files in self._list_files().items():
            for path in files:
                parents = PurePosixPath(name, path).parents
                folder_paths |= {str(parent) for parent in parents if parent.parts}
        return sorted(folder_paths)

    def folders(self) -> tuple[StoredCheckpoint, ...]:
        """Return the directories at the top with digests of their files, or raise OSError."""
        return tuple(
            StoredCheckpoint(name=name, files=self._digests(files))
            for name, files in self._list_files().items()
        )

    # -- inside ------------------------------------------------------------------------------

    def _list_files(self) -> dict[str, dict[str, Any]]:
        """Return the files of each directory at the top, by their path in it."""
        from pyarrow.fs import FileSelector, FileType

        root = f"{self.folder.rstrip('/')}/{self.run_name}"
        selector = FileSelector(root, recursive=True, allow_not_found=True)
        files_by_folder: dict[str, dict[str, Any]] = {}
        for entry in sorted(self.filesystem.get_file_info(selector), key=lambda entry: entry.path):
            inside = entry.path.strip("/").removeprefix(root.strip("/")).strip("/")
            name, _, path = inside.partition("/")
            if path and entry.type == FileType.File:
                files_by_folder.setdefault(name, {})[path] = entry
        return files_by_folder

    def _digests(self, files: dict[str, Any]) -> dict[str, str]:
        digests: dict[str, str] = {}
        for path, entry in files.items():
            try:
                digests[path] = self._digest(entry)
            except FileNotFoundError:  # Ray's retention has removed it meanwhile
                continue
        return digests

    def _digest(self, entry: Any) -> str:  # pyarrow's FileInfo
        if entry.size > WHOLE_MAX:
            return f"size:{entry.size}"
        # The bytes as they lie there: by default pyarrow guesses a compression by the name, and
        # unpacks.
        with self.filesystem.open_input_stream(entry.path, compression=None) as file:
            return stream_digest(file)


def save_remote_storage(directory: RunDirectory, remote: RemoteStorage) -> None:
    """Write the way to a run's storage into its folder, readable by this user alone."""
    path = directory.path / _FILE
    path.unlink(missing_ok=True)  # of a driver that was killed
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        pickle.dump(remote, file)


def load_remote_storage(directory: RunDirectory) -> RemoteStorage | None:
    """Return the way to a run's storage, None if that is a folder.

    Raises `OSError` if the file system cannot be opened here.
    """
    try:
        content = read_small_file(directory.path / _FILE)
    except FileNotFoundError:
        return None
    try:
        remote: RemoteStorage = pickle.loads(content)  # noqa: S301 - our own bytes
    except Exception as error:  # whatever the file system's own code raises
        raise OSError(f"the file system cannot be opened here: {error}") from error
    return remote


def remove_remote_storage(directory: RunDirectory) -> None:
    """Remove the file of the way, which may hold keys."""
    (directory.path / _FILE).unlink(missing_ok=True)


def hide_keys(uri: str) -> str:
    """Return a URI as it can be shown: `s3://key:secret@bucket` is `s3://bucket`."""
    return _KEYS.sub("", uri)


def join_uri(uri: str, name: str) -> str:
    """Return the URI of a folder below another; the options after `?` stay at the end."""
    base, mark, options = uri.partition("?")
    return f"{base.rstrip('/')}/{name}{mark}{options}"
