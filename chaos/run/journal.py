"""Append-only files of events, one per process, readable after any crash.

A line is one `os.write` to a file opened with O_APPEND: it is in the page
cache when the call returns, so it survives the writer's SIGKILL. Only the
last line of a file can be torn.
"""

import errno
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from chaos.errors import HistoryError
from chaos.model.event import AnyEvent, JournalOpened
from chaos.model.history import Entry, History, merge
from chaos.run.clock import Clock
from chaos.run.record_file import HISTORY_BYTES, read_record, refuse_link
from chaos.run.whole_file import write_bytes

Role: TypeAlias = Literal["harness", "driver", "controller", "worker", "chaos", "storage"]

_decoder = msgspec.json.Decoder(Entry)
# A byte that is no UTF-8, and brackets without end, are mistakes of their own.
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Owner(msgspec.Struct):
    """What a journal must know of its run's plan."""

    token: str | None = None


class Journal:
    """The writer of one process's journal; safe to share between its threads.

    It names the run that it belongs to, by the plan in the folder above its own.
    """

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
                role=role,
                host=socket.gethostname(),
                pid=os.getpid(),
                wall_ns=clock.wall_ns(),
                token=_token(folder.parent),
            )
        )

    def add(self, event: AnyEvent) -> Entry:
        """Write one event down, now."""
        with self._lock:
            entry = Entry(
                time_ns=self._clock.now_ns(), source=self._source, seq=self._seq, what=event
            )
            self._write(self._encoder.encode(entry) + b"\n")
            self._seq += 1
        return entry

    def _write(self, line: bytes) -> None:
        """Write a line, whole or not at all: on a full disk a part of it may be written."""
        written = os.write(self._file, line)
        if written < len(line):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

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
    """Reads a folder of journals while they are written; gives each entry once.

    `lines` counts those that were read so far, by journal.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self.lines: Counter[str] = Counter()

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
            self.lines[path.stem] += whole.count(b"\n")
        return sorted(fresh, key=lambda entry: entry.time_ns)


def read_history(folder: Path) -> History:
    """Merge the journals of a folder into one history.

    Raises `HistoryError` for a line that is not an event; a torn last line is
    left out and its journal named in `History.torn`.
    """
    refuse_link(folder)
    journals, torn = [], []
    for path in sorted(folder.glob("*.jsonl")):
        entries, is_torn = read_journal(path)
        journals.append(entries)
        if is_torn:
            torn.append(path.stem)
    return merge(journals, torn=torn)


def read_journal(path: Path) -> tuple[list[Entry], bool]:
    """Give a journal's entries, and whether its last line was cut short."""
    text = read_record(path, most=HISTORY_BYTES)
    lines = text.split(b"\n")
    torn = bool(lines.pop())
    return [_entry(path, number, line) for number, line in enumerate(lines, start=1)], torn


def _token(run: Path) -> str | None:
    """Give the token of a run, None where its plan has none, or there is no plan."""
    try:
        return msgspec.json.decode(read_record(run / "plan.json"), type=_Owner).token
    except (OSError, HistoryError, *_DAMAGE):
        return None


def write_history(path: Path, history: History) -> None:
    """Write a merged history; its first line names the torn journals, if there are any."""
    encoder = msgspec.json.Encoder()
    lines: Iterable[bytes] = (encoder.encode(entry) for entry in history)
    head = [encoder.encode({"torn": history.torn})] if history.torn else []
    write_bytes(path, b"".join(line + b"\n" for line in [*head, *lines]))


def load_history(path: Path) -> History:
    """Read what `write_history` wrote; `HistoryError` names the line that is wrong."""
    try:
        text = read_record(path, most=HISTORY_BYTES)
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
    except (KeyError, *_DAMAGE) as error:
        raise _damaged(f"not the names of torn journals: {error}", path, 1) from error


def _entry(path: Path, number: int, line: bytes) -> Entry:
    try:
        return _decoder.decode(line)
    except _DAMAGE as error:
        raise _damaged(f"not an event: {error}", path, number) from error


def _damaged(problem: str, path: Path, line: int) -> HistoryError:
    return HistoryError(
        problem,
        "The file was changed or damaged after the run; judge a copy from elsewhere, or run "
        "the plan again with `chaos replay`.",
        place=f"{path}:{line}",
    )
