"""A run's files on a host that does not see the run's directory.

The harness leaves a mark with the run's token in the directory. A process that
finds the mark writes there. A process that does not, on another host, writes into
a folder below /tmp, from which its lines are collected: a request states how much of
each file is known, and the answer has the rest. So a lost or repeated answer has no effect.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec

from chaos.errors import HistoryError
from chaos.model.history import Entry
from chaos.run import leavings
from chaos.run.directory import RunDirectory
from chaos.run.record_file import read_record, write_bytes, write_text

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


def folder_elsewhere(token: str, node_id: str) -> Path:
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
    """Return the files of a run that a process elsewhere needs: its plan and earlier saves."""
    # Every file of `saves` and not those of JSON alone: some are empty marks. Without the mark of
    # an early report, a worker on another host took it for the end of an epoch.
    files = [directory.path / "plan.json", *directory.saves.glob("[!.]*")]
    return {str(f.relative_to(directory.path)): read_record(f) for f in files if f.is_file()}


# A piece travels in one answer of an agent.
PIECE_BYTES = 4 << 20

Known: TypeAlias = Mapping[str, int]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


@dataclass(frozen=True)
class Piece:
    """The part of a file that was not known."""

    path: str
    #: an offset, or a time of change
    since: int
    #: likewise
    now: int
    content: bytes


def news(folder: Path, known: Known) -> list[Piece]:
    """Return the new parts of files below a folder: whole lines of journals, whole saves."""
    pieces = []
    for pattern in ("journals/*.jsonl", "logs/*.txt"):
        for path in sorted(folder.glob(pattern)):
            name = str(path.relative_to(folder))
            since = known.get(name, 0)
            content = _from(path, since)
            if path.suffix == ".jsonl":
                content = content[: content.rfind(b"\n") + 1]
            if content:
                pieces.append(Piece(name, since, since + len(content), content))
    for path in sorted(folder.glob("saves/[!.]*")):  # but for drafts; some are empty marks
        name, now = str(path.relative_to(folder)), path.stat().st_mtime_ns
        if now != known.get(name, 0):
            pieces.append(Piece(name, known.get(name, 0), now, read_record(path)))
    return pieces


def _from(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)


class Copies:
    """The copies of one host's files.

    `offset_ns` is added to its times to get the time here. The host's `name` is appended
    to the names of journals: a pid is unique on one host only.
    """

    def __init__(self, directory: RunDirectory, name: str, *, offset_ns: int) -> None:
        self._directory = directory
        self._name = name
        self._offset_ns = offset_ns
        self.known: dict[str, int] = {}

    @property
    def sources(self) -> frozenset[str]:
        """The journals of which a part has come."""
        return frozenset(self.source(Path(p).stem) for p in self.known if p.endswith(".jsonl"))

    def source(self, own: str) -> str:
        """Return the name here of a journal of that host."""
        return f"{own}-{self._name}"

    def take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if piece.since != self.known.get(piece.path, 0):
                continue  # another answer has brought it already
            self.known[piece.path] = piece.now
            path = Path(piece.path)
            if path.suffix == ".jsonl":
                lines = b"".join(self._line(line) for line in piece.content.splitlines())
                _append(self._directory.journals / f"{self.source(path.stem)}.jsonl", lines)
            elif path.suffix == ".txt":
                _append(self._directory.logs / f"{self.source(path.stem)}.txt", piece.content)
            else:
                write_bytes(self._directory.saves / path.name, piece.content)

    def _line(self, line: bytes) -> bytes:
        entry = _decoder.decode(line)
        here = msgspec.structs.replace(
            entry,
            time_ns=entry.time_ns + self._offset_ns,
            source=self.source(entry.source),
        )
        return _encoder.encode(here) + b"\n"


def _append(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        while content:  # a full disk takes a part of it, and then raises
            content = content[os.write(file, content) :]
    finally:
        os.close(file)
