"""Files of a run that grow on hosts apart, and the copies of them in the run's own directory.

A request states how much of each file is known, and the answer has the rest. So
a lost or repeated answer has no effect.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec

from chaos.model.history import Entry
from chaos.run.directory import RunDirectory
from chaos.run.record_file import read_record
from chaos.run.whole_file import write_bytes

PIECE_BYTES = 4 << 20

Known: TypeAlias = Mapping[str, int]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


@dataclass(frozen=True)
class Piece:
    """The part of a file that was not known: `since` and `now` are offsets, or times of change."""

    path: str
    since: int
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
        """Add parts to the copies."""
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
