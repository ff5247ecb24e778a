"""A run's files on a host that does not see the run's directory.

The harness leaves a mark with the run's token in the directory. A process that
finds the mark writes there. A process that does not, on another host, writes into
a folder below /tmp, from which its lines are collected: a request states how much of
each file is known, and the answer has the rest. So a lost or repeated answer has no effect.
"""

from collections.abc import Mapping
from pathlib import Path

from chaos.errors import HistoryError
from chaos.run import held_folders
from chaos.run.directory import RunDirectory
from chaos.run.record_file import read_small_file, write_bytes, write_text

_TOKEN_FILE = ".token"  # noqa: S105 (a name)
_FOLDERS = ("journals", "logs", "saves")


def write_token_file(folder: Path, token: str) -> None:
    """Write a mark, by which a process recognizes the folder as the run's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / _TOKEN_FILE, token)


def has_token_file(folder: Path, token: str) -> bool:
    """Return whether this host sees the folder with the mark."""
    try:
        return read_small_file(folder / _TOKEN_FILE) == token.encode()
    except (OSError, HistoryError):
        return False


def remove_token_file(folder: Path) -> None:
    """Remove the mark."""
    (folder / _TOKEN_FILE).unlink(missing_ok=True)


def build_remote_path(token: str, node_id: str) -> Path:
    """Return the folder of a run's files on a node that does not see its directory.

    TMPDIR does not count: an agent must find the files of a worker with another environment.
    Each process of the run holds the folder, so that it is removed once none is left.
    """
    return held_folders.build_path(f"chaos-run-{token}-{node_id[:8]}")


def unpack_files(files: Mapping[str, bytes], folder: Path) -> RunDirectory:
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


def pack_files(directory: RunDirectory) -> dict[str, bytes]:
    """Return the files of a run that a process elsewhere needs: its plan and earlier saves."""
    # Every file of `saves` and not those of JSON alone: some are empty marks. Without the mark of
    # an early report, a worker on another host took it for the end of an epoch.
    files = [directory.path / "plan.json", *directory.save_records.glob("[!.]*")]
    return {
        str(file.relative_to(directory.path)): read_small_file(file)
        for file in files
        if file.is_file()
    }


# A piece travels in one answer of an agent.
