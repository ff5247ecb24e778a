"""Append-only files of events, one per process, readable after any crash.

A line is one `os.write` to a file opened with O_APPEND: it is in the page
cache when the call returns, so it survives the writer's SIGKILL. Only the
last line of a file can be torn.
"""

import os
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from chaos.errors import HistoryError
from chaos.model.event import AnyEvent, JournalOpened
from chaos.model.history import Entry, History, merge
from chaos.run.clock import Clock

Role: TypeAlias = Literal["harness", "driver", "controller", "worker", "chaos", "storage"]

_decoder = msgspec.json.Decoder(Entry)


class Journal:
    """The writer of one process's journal; safe to share between its threads."""

    def __init__(self, folder: Path, source: str, *, role: Role, clock: Clock) -> None:
        self.path = folder / f"{source}.jsonl"
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._seq = 0
        self._encoder = msgspec.json.Encoder()
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.add(
            JournalOpened(
                role=role, host=socket.gethostname(), pid=os.getpid(), wall_ns=clock.wall_ns()
            )
        )

    def add(self, event: AnyEvent) -> Entry:
        """Write one event down, now."""
        with self._lock:
            entry = Entry(
                time_ns=self._clock.now_ns(), source=self._source, seq=self._seq, what=event
            )
            os.write(self._file, self._encoder.encode(entry) + b"\n")
            self._seq += 1
        return entry

    def close(self) -> None:
        """Close the file; what was written stays."""
        os.close(self._file)


def driver_journal(folder: Path, clock: Clock) -> Journal:
    """Open the journal of this driver; of a run's second driver, one of its own."""
    is_first = not (folder / "driver.jsonl").exists()
    return Journal(
        folder, "driver" if is_first else f"driver-{os.getpid()}", role="driver", clock=clock
    )


class Tail:
    """Reads a folder of journals while they are written; gives each entry once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}

    def new_entries(self) -> list[Entry]:
        """Give the entries of all complete lines written since the last call, by time."""
        fresh: list[Entry] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offsets[path] = offset + len(whole)
            fresh.extend(_decoder.decode(line) for line in whole.splitlines())
        return sorted(fresh, key=lambda entry: entry.time_ns)


def read_history(folder: Path) -> History:
    """Merge the journals of a folder into one history.

    Raises `HistoryError` for a line that is not an event; a torn last line is
    left out and its journal named in `History.torn`.
    """
    journals, torn = [], []
    for path in sorted(folder.glob("*.jsonl")):
        entries, is_torn = read_journal(path)
        journals.append(entries)
        if is_torn:
            torn.append(path.stem)
    return merge(journals, torn=torn)


def read_journal(path: Path) -> tuple[list[Entry], bool]:
    """Give a journal's entries, and whether its last line was cut short."""
    text = path.read_bytes()
    lines = text.split(b"\n")
    torn = bool(lines.pop())
    return [_entry(path, number, line) for number, line in enumerate(lines, start=1)], torn


def write_history(path: Path, history: History) -> None:
    """Write a merged history; its first line names the torn journals, if there are any."""
    encoder = msgspec.json.Encoder()
    lines: Iterable[bytes] = (encoder.encode(entry) for entry in history)
    head = [encoder.encode({"torn": history.torn})] if history.torn else []
    path.write_bytes(b"".join(line + b"\n" for line in [*head, *lines]))


def load_history(path: Path) -> History:
    """Read what `write_history` wrote; `HistoryError` names the line that is wrong."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise HistoryError(
            f"cannot read the history: {error.strerror}",
            "Is this the directory of a run?",
            place=str(path),
        ) from error
    lines = text.splitlines()
    torn: list[str] = []
    skip = 0
    if lines and lines[0].startswith(b'{"torn"'):
        torn = _torn(path, lines[0])
        skip = 1
    entries = [_entry(path, number + 1, lines[number]) for number in range(skip, len(lines))]
    return History(entries, torn=torn)


def _torn(path: Path, line: bytes) -> list[str]:
    try:
        return msgspec.json.decode(line, type=dict[str, list[str]])["torn"]
    except msgspec.DecodeError as error:
        problem = f"not the names of torn journals: {error}"
        raise HistoryError(
            problem, "The file was damaged after the run.", place=f"{path}:1"
        ) from error


def _entry(path: Path, number: int, line: bytes) -> Entry:
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as error:
        raise HistoryError(
            f"not an event: {error}",
            "The file was changed or damaged after the run; judge a copy from elsewhere, or run "
            "the plan again with `chaos replay`.",
            place=f"{path}:{number}",
        ) from error
