"""Append-only files of events, one per process, readable after any crash.

A line is one `os.write` to a file opened with O_APPEND: it is in the page cache when the
call returns, so it survives the writer's SIGKILL. Only the last line of a file can be torn.
Each line begins with a checksum of the rest, so that a changed line is detected:

    {"sum":"1a2b3c4d","time_ns":...,"source":"driver","seq":0,"what":{...}}

Files of older versions of chaos, without checksums, are accepted.
"""

import contextlib
import errno
import os
import socket
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from chaos.errors import HistoryError
from chaos.model.event import AnyEvent, JournalOpened, StepDone
from chaos.model.history import History, JournalEntry, merge_journals
from chaos.run.clock import Clock
from chaos.run.record_file import HISTORY_BYTES, read_small_file, refuse_link, write_bytes

Role: TypeAlias = Literal["harness", "driver", "controller", "worker", "chaos", "storage"]

_decoder = msgspec.json.Decoder(JournalEntry)
# A byte that is no UTF-8, and too deep nesting, raise errors of their own.
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# CRC-32 of the line after the sum: it detects damage, and is no protection against forgery.
_SUM = b'{"sum":"'
_SUM_BYTES = len(_SUM) + 8 + len(b'",')


class _Owner(msgspec.Struct):
    """The part of a run's plan that a journal needs."""

    token: str | None = None


class _TornHeader(msgspec.Struct):
    """The first line of a history that was merged of torn journals."""

    torn: list[str]


class Journal:
    """The writer of one process's journal; safe to share between its threads.

    Its first event has the run's token, from the plan in the folder above.
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

    def add(self, event: AnyEvent) -> JournalEntry:
        # Time and number are taken under the lock that the line is written under: within a journal
        # the order of the lines, of `seq` and of the times is one and the same, which
        # `merge_journals` builds on. A number is used up only by a line that was written.
        with self._lock:
            entry = JournalEntry(
                time_ns=self._clock.now_ns(), source=self._source, seq=self._seq, event=event
            )
            self._write(_add_checksum(self._encoder.encode(entry)))
            self._seq += 1
        return entry

    def _write(self, line: bytes) -> None:
        """Write a line, whole or not at all, since a full disk may take only a part of it."""
        # One call for the whole line: the writer may be killed before it or after it, and not
        # within. A half line that stayed would be taken for a torn one, that is, for a process
        # that was killed there.
        byte_count = os.write(self._file, line)
        if byte_count < len(line):
            os.ftruncate(self._file, os.fstat(self._file).st_size - byte_count)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def close(self) -> None:
        os.close(self._file)


def open_driver_journal(folder: Path, clock: Clock) -> Journal:
    """Open the journal of this driver; a run's second driver has one of its own."""
    # The second driver of a run is a fault of ours: a scheduler's, which starts a script twice.
    # Both live at the same time, and a journal has one writer.
    is_first = not (folder / "driver.jsonl").exists()
    return Journal(
        folder, "driver" if is_first else f"driver-{os.getpid()}", role="driver", clock=clock
    )


class JournalTail:
    """A reader of a folder of journals that are being written; it returns each entry once.

    `lines` counts the lines read so far, by journal.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()

    def fetch_entries(self) -> list[JournalEntry]:
        """Return the entries of all complete lines written since the last call, by time."""
        entries: list[JournalEntry] = []
        for path in self._find_grown():
            with path.open("rb") as file:
                file.seek(self._offsets[path.name])
                text = file.read()
            # A line may be seen half written. What lies behind the last newline is read again with
            # the next call, from its beginning.
            complete_lines = text[: text.rfind(b"\n") + 1]
            self._offsets[path.name] += len(complete_lines)
            entries.extend(_decoder.decode(line) for line in complete_lines.splitlines())
            self.lines[path.stem] += complete_lines.count(b"\n")
        return sorted(entries, key=lambda entry: entry.time_ns)

    def _find_grown(self) -> list[Path]:
        """Return the journals with more in them: this is asked a hundred times a second."""
        grown: list[str] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            journals = (file for file in entries if file.name.endswith(".jsonl"))
            grown += (
                journal.path
                for journal in journals
                if journal.stat().st_size > self._offsets[journal.name]
            )
        return [Path(path) for path in sorted(grown)]


class TrainingProgress:
    """The last attempt that has finished a step, by the journals of the workers; for any thread."""

    def __init__(self, folder: Path) -> None:
        self._tail, self._latest_attempt = JournalTail(folder), -1
        self._lock = threading.Lock()

    def __call__(self, attempt: int) -> bool:
        """Return whether an attempt or a later one has finished a step."""
        with self._lock:
            events = (entry.event for entry in self._tail.fetch_entries())
            steps = (event.attempt for event in events if isinstance(event, StepDone))
            self._latest_attempt = max((self._latest_attempt, *steps))
            return attempt <= self._latest_attempt


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
    return merge_journals(journals, torn=torn)


def read_journal(path: Path) -> tuple[list[JournalEntry], bool]:
    """Return a journal's entries, and whether its last line was cut short."""
    text = _load_text(path)
    lines = text.split(b"\n")
    is_torn = bool(lines.pop())
    return _parse_entries(path, lines), is_torn


def _token(run: Path) -> str | None:
    """Return the token of a run, None if its plan has none, or if there is no plan."""
    try:
        return msgspec.json.decode(read_small_file(run / "plan.json"), type=_Owner).token
    except (OSError, HistoryError, *_DAMAGE):
        return None


def write_history(path: Path, history: History) -> None:
    """Write a merged history; its first line names the torn journals, if there are any."""
    encoder = msgspec.json.Encoder()
    head = [encoder.encode({"torn": history.torn})] if history.torn else []
    lines: Iterable[bytes] = (encoder.encode(entry) for entry in history)
    write_bytes(path, b"".join(map(_add_checksum, chain(head, lines))))


def load_history(path: Path) -> History:
    """Return the history of `write_history`; raises `HistoryError` with a damaged line."""
    lines = _load_text(path).splitlines()
    if not lines or b'"torn":' not in lines[0][: _SUM_BYTES + 8]:
        return History(_parse_entries(path, lines))
    _check_sums(path, lines)
    return History(_parse_entries(path, lines[1:], first=2), torn=_parse_torn(path, lines[0]))


def _load_text(path: Path) -> bytes:
    try:
        return read_small_file(path, bytes_max=HISTORY_BYTES)
    except OSError as error:
        raise HistoryError(
            f"cannot read the history: {error.strerror}",
            "Is this the directory of a run?",
            location=str(path),
        ) from error


def _parse_torn(path: Path, line: bytes) -> list[str]:
    try:
        return msgspec.json.decode(line, type=_TornHeader).torn
    except _DAMAGE as error:
        raise _build_damage_error(f"not the names of torn journals: {error}", path, 1) from error


def _add_checksum(body: bytes) -> bytes:
    """Return the line of a JSON object, with its checksum."""
    content = body[1:]
    return b'%b%08x",%b\n' % (_SUM, zlib.crc32(content), content)


def _check_sums(path: Path, lines: Sequence[bytes], first: int = 1) -> None:
    # Of 1,200 records that were damaged on purpose, seven were judged otherwise and not refused: a
    # flipped bit may leave an event that can be read. Where one line has a sum, every line must
    # have one: a line without is one that was put in. Files of an older chaos have none at all.
    if not any(line.startswith(_SUM) for line in lines):
        return
    for number, line in enumerate(lines, start=first):
        recorded = line[len(_SUM) : _SUM_BYTES - 2]
        if not line.startswith(_SUM) or recorded != b"%08x" % zlib.crc32(line[_SUM_BYTES:]):
            raise _build_damage_error("the line is not as it was written", path, number)


def _parse_entries(path: Path, lines: Sequence[bytes], first: int = 1) -> list[JournalEntry]:
    _check_sums(path, lines, first)
    return [_parse_entry(path, number, line) for number, line in enumerate(lines, start=first)]


def _parse_entry(path: Path, number: int, line: bytes) -> JournalEntry:
    try:
        return _decoder.decode(line)
    except _DAMAGE as error:
        raise _build_damage_error(f"not an event: {error}", path, number) from error


def _build_damage_error(problem: str, path: Path, line: int) -> HistoryError:
    return HistoryError(
        problem,
        "The file was changed or damaged after the run; judge a copy from elsewhere, or run "
        "the plan again with `chaos replay`.",
        location=f"{path}:{line}",
    )
