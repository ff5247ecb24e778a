"""New parts of a run's files on another host, and the copies that the harness keeps of them.

A request states how much of each file is known, and the answer has the rest. So a lost or repeated
answer has no effect.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec

from chaos.model.history import JournalEntry
from chaos.run.directory import RunDirectory
from chaos.run.record_file import read_small_file, write_bytes

PIECE_BYTES = 4 << 20

FilePositions: TypeAlias = Mapping[str, int]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JournalEntry)


@dataclass(frozen=True)
class FilePiece:
    """The part of a file that was not known."""

    path: str
    #: an offset, or a time of change
    known_position: int
    #: likewise
    new_position: int
    content: bytes


def collect_pieces(folder: Path, positions: FilePositions) -> list[FilePiece]:
    """Return the new parts of files below a folder: whole lines of journals, whole saves."""
    pieces = []
    for pattern in ("journals/*.jsonl", "logs/*.txt"):
        for path in sorted(folder.glob(pattern)):
            name = str(path.relative_to(folder))
            offset = positions.get(name, 0)
            content = _load_part(path, offset)
            if path.suffix == ".jsonl":
                content = content[: content.rfind(b"\n") + 1]
            if content:
                pieces.append(FilePiece(name, offset, offset + len(content), content))
    for path in sorted(folder.glob("saves/[!.]*")):  # but for drafts; some are empty marks
        name, modified_ns = str(path.relative_to(folder)), path.stat().st_mtime_ns
        if modified_ns != positions.get(name, 0):
            pieces.append(
                FilePiece(name, positions.get(name, 0), modified_ns, read_small_file(path))
            )
    return pieces


def _load_part(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)


class HostCopies:
    """The copies of one host's files.

    `clock_offset_ns` is added to its times to get the time here. The host's `name` is appended
    to the names of journals: a pid is unique on one host only.
    """

    def __init__(self, directory: RunDirectory, name: str, *, clock_offset_ns: int) -> None:
        self._directory = directory
        self._name = name
        self._clock_offset_ns = clock_offset_ns
        self.positions: dict[str, int] = {}

    @property
    def journal_names(self) -> frozenset[str]:
        """The journals of which a part has come."""
        return frozenset(
            self.build_local_name(Path(path).stem)
            for path in self.positions
            if path.endswith(".jsonl")
        )

    def build_local_name(self, journal: str) -> str:
        """Return the name here of a journal of that host."""
        return f"{journal}-{self._name}"

    def add_pieces(self, pieces: list[FilePiece]) -> None:
        for piece in pieces:
            if piece.known_position != self.positions.get(piece.path, 0):
                continue  # another answer has brought it already
            self.positions[piece.path] = piece.new_position
            path = Path(piece.path)
            if path.suffix == ".jsonl":
                lines = b"".join(self._convert_line(line) for line in piece.content.splitlines())
                _append(
                    self._directory.journals / f"{self.build_local_name(path.stem)}.jsonl", lines
                )
            elif path.suffix == ".txt":
                _append(
                    self._directory.logs / f"{self.build_local_name(path.stem)}.txt", piece.content
                )
            else:
                write_bytes(self._directory.save_records / path.name, piece.content)

    def _convert_line(self, line: bytes) -> bytes:
        entry = _decoder.decode(line)
        local_entry = msgspec.structs.replace(
            entry,
            time_ns=entry.time_ns + self._clock_offset_ns,
            source=self.build_local_name(entry.source),
        )
        return _encoder.encode(local_entry) + b"\n"


def _append(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        while content:  # a full disk takes a part of it, and then raises
            content = content[os.write(file, content) :]
    finally:
        os.close(file)
