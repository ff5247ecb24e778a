"""A run's files on a host that does not see the run's directory.

The harness leaves a mark with the run's token in the directory. A process that
finds the mark writes there. A process that does not, on another host, writes into
a folder below /tmp, from which its lines are collected.
"""

from collections.abc import Mapping
from pathlib import Path

from chaos.errors import HistoryError
from chaos.run import leavings
from chaos.run.directory import RunDirectory
from chaos.run.record_file import read_record
from chaos.run.whole_file import write_bytes, write_text

_MARK = ".token"
_FOLDERS = ("journals", "logs", "saves")


def leave_mark(folder: Path, token: str) -> None:
    """Write a mark, by which a process recognizes the folder as the run's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / _MARK, token)


def sees(folder: Path, token: str) -> bool:
    """Return whether this host sees the folder with the mark."""
    try:
        return read_record(folder / _MARK) == token.encode()
    except (OSError, HistoryError):
        return False


def remove_mark(folder: Path) -> None:
    """Remove the mark."""
    (folder / _MARK).unlink(missing_ok=True)


def folder_apart(token: str, node_id: str) -> Path:
    """Return the folder of a run's files on a node that does not see its directory.

    TMPDIR does not count: an agent must find the files of a worker with another environment.
    Each process of the run holds the folder, so that it is removed once none is left.
    """
    return leavings.named(f"chaos-run-{token}-{node_id[:8]}")


def unpack(files: Mapping[str, bytes], folder: Path) -> RunDirectory:
    """Write a run's files, by their paths in it, into a folder; return it as the run's directory.

    A file that is there already is not older, and stays.
    """
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if (folder / name).exists():
            continue
        write_bytes(folder / name, content)
    return RunDirectory(folder)


def pack(directory: RunDirectory) -> dict[str, bytes]:
    """Return the files of a run that a process apart needs: its plan and earlier saves."""
    files = [directory.path / "plan.json", *directory.saves.glob("[!.]*")]
    return {str(f.relative_to(directory.path)): read_record(f) for f in files if f.is_file()}
