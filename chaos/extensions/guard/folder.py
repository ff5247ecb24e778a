"""The guard's folder: a directory, or a place in an object store that fsspec knows.

    saves/<rank>-<start>-<step>.json     trail/<rank>-<start>-<step>.jsonl
    starts/<rank>-<start>.json           restarts/<rank>-<start>.json          salt
    startups/<rank>-<milliseconds>.json

It lies apart from the checkpoints: a job that lists its own folder to find the newest file must not
find one of ours.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chaos.extensions.guard.records import (
    SAVES_KEPT,
    GuardedStart,
    RankSave,
    RankStep,
    RestartAnswer,
    Startup,
)

R = TypeVar("R")
_SALT, SALT_BYTES = "salt", 32
_OF_SAVES, _OF_STARTS, _OF_TRAILS, _OF_RESTARTS = "saves", "starts", "trail", "restarts"
_OF_STARTUPS, STARTUPS_KEPT = "startups", 256
TRAILS_KEPT = 4  # pieces of a start, of `TRAIL_STEPS` each
STARTS_KEPT = 8  # whose pieces are kept: a job may die again and again at one place


class GuardFolder:
    """A guard's folder. A record that cannot be read, such as half a one, is left out."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._store: Any = (
            _open_store(location) if "://" in location else _Directory(Path(location))
        )

    # -- written ---------------------------------------------------------------------------

    def write_save(self, save: RankSave) -> None:
        """Write a save, in place of what was known of it, and remove the oldest of the rank."""
        self._put(f"{_OF_SAVES}/{save.rank}-{save.start}-{save.step}.json", save)
        for name in self._list_names(_OF_SAVES, save.rank)[:-SAVES_KEPT]:
            self._store.remove(name)

    def ensure_salt(self) -> bytes:
        """Return the salt of the folder, which is made the first time that one is asked for.

        In an object store two that ask at the same time may get each its own.
        """
        if content := self._store.put_once(_SALT, secrets.token_bytes(SALT_BYTES)):
            return bytes(content)
        raise OSError(errno.EIO, "the folder's salt is empty", f"{self.location}/{_SALT}")

    def write_start(self, start: GuardedStart) -> None:
        self._put(f"{_OF_STARTS}/{start.rank}-{start.start}.json", start)

    def write_restart(self, restart: RestartAnswer) -> None:
        self._put(f"{_OF_RESTARTS}/{restart.rank}-{restart.start}.json", restart)

    def write_startup(self, startup: Startup) -> None:
        self._put(_build_name(startup), startup)
        for name in self._list_names(_OF_STARTUPS, startup.rank)[:-STARTUPS_KEPT]:
            self._store.remove(name)

    def remove_startup(self, startup: Startup) -> None:
        self._store.remove(_build_name(startup))

    def begin_trail(self, rank: int, start: int, first_step: int) -> "StepTrail":
        """Return a new piece of a rank's trail, which begins with a step."""
        pieces = self._list_names(_OF_TRAILS, rank)
        start_pieces = [name for name in pieces if _parse_numbers(name)[1] == start]
        expired_pieces = [name for name in pieces if _parse_numbers(name)[1] <= start - STARTS_KEPT]
        for name in (*start_pieces[: -TRAILS_KEPT + 1], *expired_pieces):
            self._store.remove(name)
        return StepTrail(self._store, f"{_OF_TRAILS}/{rank}-{start}-{first_step}.jsonl")

    # -- read ------------------------------------------------------------------------------

    def load_saves(self, rank: int | None = None) -> list[RankSave]:
        """Return the saves of a rank, or of all, the oldest first."""
        records = self._load_records(_OF_SAVES, RankSave, rank)
        return sorted(records, key=lambda save: (save.at_s, save.step))

    def load_starts(self, rank: int | None = None) -> list[GuardedStart]:
        records = self._load_records(_OF_STARTS, GuardedStart, rank)
        return sorted(records, key=lambda start: (start.start, start.rank))

    def load_restarts(self) -> list[RestartAnswer]:
        records = self._load_records(_OF_RESTARTS, RestartAnswer, None)
        return sorted(records, key=lambda restart: (restart.start, restart.rank))

    def load_startups(self) -> list[Startup]:
        records = self._load_records(_OF_STARTUPS, Startup, None)
        return sorted(records, key=lambda startup: (startup.began_s, startup.rank))

    def load_steps(self, rank: int, start: int) -> list[RankStep]:
        """Return the steps of a rank's start, as far as they are kept."""
        step_by_number: dict[int, RankStep] = {}
        for name in self._list_names(_OF_TRAILS, rank):
            if _parse_numbers(name)[1] == start:
                for line in self._store.get(name).splitlines():
                    with suppress(msgspec.MsgspecError):  # a killed process may leave half a line
                        step = msgspec.json.decode(line, type=RankStep)
                        step_by_number[step.number] = step
        return [step_by_number[number] for number in sorted(step_by_number)]

    # -- inside ----------------------------------------------------------------------------

    def _put(self, name: str, record: msgspec.Struct) -> None:
        self._store.put(name, msgspec.json.encode(record))

    def _load_records(self, kind: str, cls: type[R], rank: int | None) -> Iterator[R]:
        for name in self._list_names(kind, rank):
            with suppress(msgspec.MsgspecError, OSError):
                yield msgspec.json.decode(self._store.get(name), type=cls)

    def _list_names(self, kind: str, rank: int | None) -> list[str]:
        """Return the names of a kind, in the order of their numbers."""
        record_names = [
            name for name in self._store.list_names(kind) if name.endswith((".json", ".jsonl"))
        ]
        numbered = [(_parse_numbers(name), name) for name in record_names]
        selected = [
            (numbers, name)
            for numbers, name in numbered
            if numbers and (rank is None or numbers[0] == rank)
        ]
        return [name for _, name in sorted(selected)]


def _build_name(startup: Startup) -> str:
    return f"{_OF_STARTUPS}/{startup.rank}-{int(startup.began_s * 1000)}.json"


def _parse_numbers(name: str) -> tuple[int, ...]:
    stem = name.rpartition("/")[2].partition(".")[0]
    try:
        return tuple(int(number) for number in stem.split("-"))
    except ValueError:
        return ()


class StepTrail:
    """One piece of a rank's steps, a line each."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, name
        self.steps = 0

    def add(self, step: RankStep) -> None:
        self._store.add(self._name, msgspec.json.encode(step) + b"\n")
        self.steps += 1

    def flush(self) -> None:
        self._store.flush(self._name)


class _Directory:
    """Files, of which each is written whole or not at all, but for those that grow."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open_file: tuple[str, int] | None = None  # what grows, and its descriptor

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        draft.write_bytes(content)
        draft.replace(path)

    def put_once(self, name: str, content: bytes) -> bytes:
        """Write a file if it is not there; return the content that it has."""
        path = self._root / name
        if not path.exists():
            draft_name = f".{name}.{secrets.token_hex(4)}"
            self.put(draft_name, content)
            try:
                path.hardlink_to(self._root / draft_name)
            except FileExistsError:
                pass  # another rank was the first
            except OSError:  # a file system without links
                self.put(name, content)
            self.remove(draft_name)
        return path.read_bytes()

    def get(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def list_names(self, kind: str) -> list[str]:
        try:
            return [f"{kind}/{name}" for name in os.listdir(self._root / kind)]  # noqa: PTH208
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def add(self, name: str, line: bytes) -> None:
        if self._open_file is None or self._open_file[0] != name:
            if self._open_file is not None:
                os.close(self._open_file[1])
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._open_file = name, os.open(path, flags, 0o666)
        os.write(self._open_file[1], line)

    def flush(self, name: str) -> None:
        """Do nothing: each line is the kernel's at once, and outlives the process."""


class _ObjectStore:
    """Objects: what grows is gathered, and put whole at each flush."""

    def __init__(self, files: Any, root: str) -> None:
        self._files, self._root = files, root
        self._growing_objects: dict[str, bytearray] = {}

    def put(self, name: str, content: bytes) -> None:
        self._files.pipe_file(f"{self._root}/{name}", content)

    def put_once(self, name: str, content: bytes) -> bytes:
        with suppress(FileNotFoundError):
            return self.get(name)
        self.put(name, content)
        return self.get(name)

    def get(self, name: str) -> bytes:
        content: bytes = self._files.cat_file(f"{self._root}/{name}")
        return content

    def list_names(self, kind: str) -> list[str]:
        try:
            paths = self._files.ls(f"{self._root}/{kind}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return [f"{kind}/{str(path).rpartition('/')[2]}" for path in paths]

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def add(self, name: str, line: bytes) -> None:
        if name not in self._growing_objects:
            self._growing_objects = {name: bytearray()}
        self._growing_objects[name] += line

    def flush(self, name: str) -> None:
        if name in self._growing_objects:
            self.put(name, bytes(self._growing_objects[name]))


def _open_store(url: str) -> _ObjectStore:
    import fsspec  # torch itself depends on it (2.13)

    files, root = fsspec.core.url_to_fs(url)
    return _ObjectStore(files, root.rstrip("/"))
