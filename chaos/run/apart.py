"""A run's files on a host that does not see the run's directory.

The harness leaves a mark with the run's token in its directory. A process
that finds the mark there writes there. Another one, on a host of its own,
writes into a folder below /tmp, from where its lines are collected.
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
    """Let every process that sees the folder know that it is the run's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / _MARK, token)


def sees(folder: Path, token: str) -> bool:
    """Return whether this host sees the folder where a mark was left."""
    try:
        return read_record(folder / _MARK) == token.encode()
    except (OSError, HistoryError):
        return False


def remove_mark(folder: Path) -> None:
    """Take the mark away again."""
    (folder / _MARK).unlink(missing_ok=True)


def folder_apart(token: str, node_id: str) -> Path:
    """Return where a run's files are on a node that does not see its directory.

    Never by TMPDIR: an agent must find what a worker with another environment wrote. Each of
    them holds it, so that it goes where nobody of the run is left to remove it.
    """
    return leavings.named(f"chaos-run-{token}-{node_id[:8]}")


def unpack(files: Mapping[str, bytes], folder: Path) -> RunDirectory:
    """Write a run's files, by their paths in it, into a folder; gives it as the run's directory.

    What is there already is not older, and stays.
    """
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if (folder / name).exists():
            continue
        write_bytes(folder / name, content)
    return RunDirectory(folder)


def pack(directory: RunDirectory) -> dict[str, bytes]:
    """Return what a process apart needs of a run's directory: its plan and earlier saves."""
    files = [directory.path / "plan.json", *directory.saves.glob("*.json")]
    return {str(f.relative_to(directory.path)): read_record(f) for f in files if f.is_file()}
