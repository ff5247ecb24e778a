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

from chaos.guard.records import SAVES_KEPT, Restart, Save, Start, Startup, Step

R = TypeVar("R")
_SALT, SALT_BYTES = "salt", 32
_OF_SAVES, _OF_STARTS, _OF_TRAILS, _OF_RESTARTS = "saves", "starts", "trail", "restarts"
_OF_STARTUPS, STARTUPS_KEPT = "startups", 256
TRAILS_KEPT = 4  # pieces of a start, of `TRAIL_STEPS` each
STARTS_KEPT = 8  # whose pieces are kept: a job may die again and again at one place


class Folder:
    """A guard's folder. A record that cannot be read, such as half a one, is left out."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._store: Any = _fsspec(place) if "://" in place else _Directory(Path(place))

    # -- written ---------------------------------------------------------------------------

    def keep_save(self, save: Save) -> None:
        """Write a save, in place of what was known of it, and remove the oldest of the rank."""
        self._put(f"{_OF_SAVES}/{save.rank}-{save.start}-{save.step}.json", save)
        for name in self._names(_OF_SAVES, save.rank)[:-SAVES_KEPT]:
            self._store.remove(name)

    def salt(self) -> bytes:
        """Return the salt of the folder, which is made the first time that one is asked for.

        In an object store two that ask at the same time may get each its own.
        """
        if found := self._store.once(_SALT, secrets.token_bytes(SALT_BYTES)):
            return bytes(found)
        raise OSError(errno.EIO, "the folder's salt is empty", f"{self.place}/{_SALT}")

    def keep_start(self, start: Start) -> None:
        self._put(f"{_OF_STARTS}/{start.rank}-{start.start}.json", start)

    def keep_restart(self, restart: Restart) -> None:
        self._put(f"{_OF_RESTARTS}/{restart.rank}-{restart.start}.json", restart)

    def keep_startup(self, startup: Startup) -> None:
        self._put(_name_of(startup), startup)
        for name in self._names(_OF_STARTUPS, startup.rank)[:-STARTUPS_KEPT]:
            self._store.remove(name)

    def remove_startup(self, startup: Startup) -> None:
        self._store.remove(_name_of(startup))

    def trail(self, rank: int, start: int, first: int) -> "Trail":
        """Return a new piece of a rank's trail, which begins with a step."""
        pieces = self._names(_OF_TRAILS, rank)
        own = [name for name in pieces if _numbers(name)[1] == start]
        old = [name for name in pieces if _numbers(name)[1] <= start - STARTS_KEPT]
        for name in (*own[: -TRAILS_KEPT + 1], *old):
            self._store.remove(name)
        return Trail(self._store, f"{_OF_TRAILS}/{rank}-{start}-{first}.jsonl")

    # -- read ------------------------------------------------------------------------------

    def saves(self, rank: int | None = None) -> list[Save]:
        """Return the saves of a rank, or of all, the oldest first."""
        found = self._all(_OF_SAVES, Save, rank)
        return sorted(found, key=lambda save: (save.at_s, save.step))

    def starts(self, rank: int | None = None) -> list[Start]:
        found = self._all(_OF_STARTS, Start, rank)
        return sorted(found, key=lambda start: (start.start, start.rank))

    def restarts(self) -> list[Restart]:
        found = self._all(_OF_RESTARTS, Restart, None)
        return sorted(found, key=lambda restart: (restart.start, restart.rank))

    def startups(self) -> list[Startup]:
        found = self._all(_OF_STARTUPS, Startup, None)
        return sorted(found, key=lambda startup: (startup.began_s, startup.rank))

    def steps(self, rank: int, start: int) -> list[Step]:
        """Return the steps of a rank's start, as far as they are kept."""
        found: dict[int, Step] = {}
        for name in self._names(_OF_TRAILS, rank):
            if _numbers(name)[1] == start:
                for line in self._store.get(name).splitlines():
                    with suppress(msgspec.MsgspecError):  # a killed process may leave half a line
                        step = msgspec.json.decode(line, type=Step)
                        found[step.number] = step
        return [found[number] for number in sorted(found)]

    # -- inside ----------------------------------------------------------------------------

    def _put(self, name: str, record: msgspec.Struct) -> None:
        self._store.put(name, msgspec.json.encode(record))

    def _all(self, kind: str, cls: type[R], rank: int | None) -> Iterator[R]:
        for name in self._names(kind, rank):
            with suppress(msgspec.MsgspecError, OSError):
                yield msgspec.json.decode(self._store.get(name), type=cls)

    def _names(self, kind: str, rank: int | None) -> list[str]:
        """Return the names of a kind, in the order of their numbers."""
        every = [name for name in self._store.names(kind) if name.endswith((".json", ".jsonl"))]
        numbered = [(_numbers(name), name) for name in every]
        own = [(n, name) for n, name in numbered if n and (rank is None or n[0] == rank)]
        return [name for _, name in sorted(own)]


def _name_of(startup: Startup) -> str:
    return f"{_OF_STARTUPS}/{startup.rank}-{int(startup.began_s * 1000)}.json"


def _numbers(name: str) -> tuple[int, ...]:
    stem = name.rpartition("/")[2].partition(".")[0]
    try:
        return tuple(int(number) for number in stem.split("-"))
    except ValueError:
        return ()


class Trail:
    """One piece of a rank's steps, a line each."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, name
        self.steps = 0

    def add(self, step: Step) -> None:
        self._store.add(self._name, msgspec.json.encode(step) + b"\n")
        self.steps += 1

    def flush(self) -> None:
        self._store.flush(self._name)


class _Directory:
    """Files, of which each is written whole or not at all, but for those that grow."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: tuple[str, int] | None = None  # what grows, and its descriptor

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        beside.write_bytes(content)
        beside.replace(path)

    def once(self, name: str, content: bytes) -> bytes:
        """Write a file if it is not there; return the content that it has."""
        path = self._root / name
        if not path.exists():
            beside = f".{name}.{secrets.token_hex(4)}"
            self.put(beside, content)
            try:
                path.hardlink_to(self._root / beside)
            except FileExistsError:
                pass  # another rank was the first
            except OSError:  # a file system without links
                self.put(name, content)
            self.remove(beside)
        return path.read_bytes()

    def get(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def names(self, kind: str) -> list[str]:
        try:
            return [f"{kind}/{name}" for name in os.listdir(self._root / kind)]  # noqa: PTH208
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def add(self, name: str, line: bytes) -> None:
        if self._open is None or self._open[0] != name:
            if self._open is not None:
                os.close(self._open[1])
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._open = name, os.open(path, flags, 0o666)
        os.write(self._open[1], line)

    def flush(self, name: str) -> None:
        """Do nothing: each line is the kernel's at once, and outlives the process."""


class _Store:
    """Objects: what grows is gathered, and put whole at each flush."""

    def __init__(self, files: Any, root: str) -> None:
        self._files, self._root = files, root
        self._growing: dict[str, bytearray] = {}

    def put(self, name: str, content: bytes) -> None:
        self._files.pipe_file(f"{self._root}/{name}", content)

    def once(self, name: str, content: bytes) -> bytes:
        with suppress(FileNotFoundError):
            return self.get(name)
        self.put(name, content)
        return self.get(name)

    def get(self, name: str) -> bytes:
        content: bytes = self._files.cat_file(f"{self._root}/{name}")
        return content

    def names(self, kind: str) -> list[str]:
        try:
            found = self._files.ls(f"{self._root}/{kind}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return [f"{kind}/{str(path).rpartition('/')[2]}" for path in found]

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def add(self, name: str, line: bytes) -> None:
        if name not in self._growing:
            self._growing = {name: bytearray()}
        self._growing[name] += line

    def flush(self, name: str) -> None:
        if name in self._growing:
            self.put(name, bytes(self._growing[name]))


def _fsspec(place: str) -> _Store:
    import fsspec  # torch itself depends on it (2.13)

    files, root = fsspec.core.url_to_fs(place)
    return _Store(files, root.rstrip("/"))
