"""The files that this process writes and removes, recorded, and refused if they are not the job's.

Python raises audit events (PEP 578) before `open`, `os.rename`, `os.remove` and
the like; an error raised in the hook prevents the operation. Native code raises
no such events, so the few functions that save models (`NATIVE`) are wrapped.
Writes of a process started by `exec`, and of any other native code, are not seen.

`record(Ledger(...))` begins, in a process and in all that are forked from it;
another call continues with another ledger. `read_ledger(path)` returns the lines
of all processes:

    created   a file that was not there         folder    a directory likewise
    replaced  emptied, or another put there     extended  opened to append to
    opened    for reading and writing           removed   deleted or renamed
    refused   a file of the user that would have been replaced or removed
    remote    likewise, an object in a store that is not on this machine
    begun     an upload of an object in parts, by its id
    named     given to a program that the process started, as a path
    synced    on its disk for certain, as it was then: each time
    saved     also, by a function that saves models

Every path is absolute, or an object's name (`s3://bucket/key`); a process records each (path, how)
once, and once more if it does so as it trains.
"""

import errno
import functools
import json
import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import F_GETFL, fcntl
from pathlib import Path
from typing import Any, Literal, TypeAlias

from chaos.errors import ForeignFileError, RemoteStoreError
from chaos.model.objects import is_object
from chaos.model.paths import is_below
from chaos.probe.native import wrap_native
from chaos.probe.stores import Around, plainly, wrap_stores
from chaos.probe.written_objects import recorded
from chaos.run.clock import SystemClock

How: TypeAlias = Literal[
    "created",
    "folder",
    "replaced",
    "extended",
    "opened",
    "removed",
    "refused",
    "remote",
    "begun",
    "synced",
    "saved",
    "named",
]
FileState: TypeAlias = tuple[int, int, int]  # inode, time of its content (unix, ns), bytes
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WORDS = re.compile(r"""[^\s'"`<>|;&()=]{1,1024}""")  # of a command of a shell, what may be a path
_WORDS_MAX = 200
_LINE = '{"pid": '  # a line of a ledger begins so
_NO_FILES = ("/dev/", "/proc/", "/sys/")  # below these are devices and pipes
TRAINS = "trains"  # beside a ledger: an empty file, as old as the training
_HERE = -1  # the dir_fd of a path that is relative to the working directory


@dataclass(frozen=True)
class Written:
    """One line of a ledger."""

    path: str
    how: How
    pid: int
    #: written after the job's first step, or as a model is
    is_output: bool
    #: of a file that was synced, its `file_state`; empty for one that is synced by itself, as a
    #: database is; for all files of the machine, the time (unix, ns)
    state: Sequence[int] = ()


@dataclass(frozen=True)
class Confines:
    """The limits of a process."""

    #: the audit's; files that are older may not be harmed
    folder: Path
    #: files and folders that may be written nevertheless
    allowed: tuple[Path, ...] = ()
    #: likewise objects, and what begins as their names do
    objects: tuple[str, ...] = ()
    #: of object stores, only one on this machine may be written to
    stays_here: bool = False

    @property
    def created(self) -> Path:
        """The list of files and folders outside that the audit has made, one path a line."""
        return self.folder / "created.txt"

    def holds(self, path: str) -> bool:
        """Return whether a path is the audit's own, allowed, or made by its processes.

        So is all that lies in a folder they made: native code writes unseen.
        """
        if is_object(path):
            return self.names(path) or path in self.made()
        real = os.path.realpath(path)
        if any(is_below(real, os.path.realpath(own)) for own in (self.folder, *self.allowed)):
            return True
        return not {path, *map(str, Path(path).parents)}.isdisjoint(self.made())

    def names(self, path: str) -> bool:
        """Return whether an object may be written by its name."""
        return any(is_below(path, own) for own in self.objects)

    def made(self) -> list[str]:
        """Return the files and folders outside that the audit has made by now."""
        try:
            return self.created.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []


@dataclass
class WriteLedger:
    """The file in which a process records its writes."""

    file: Path
    #: the folders whose files are not recorded
    left_out: Sequence[Path] = ()
    confines: Confines | None = None
    #: called with each file before it is opened to be written
    keep: Callable[[str], None] | None = None
    #: of a process that a rank has started: it trains when the rank does
    is_child: bool = False
    _training: bool = field(default=False, init=False)
    _fd: int = field(default=-1, init=False)
    _seen: set[tuple[str, How, bool]] = field(default_factory=set, init=False)
    outputs: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        left_out = [*self.left_out, self.file.with_name(TRAINS)]
        left_out += [self.confines.created] if self.confines else []
        self._left_out = tuple(str(path) for path in left_out)

    @property
    def is_training(self) -> bool:
        """Whether what is written now is the job's output, and not its data."""
        if self.is_child and not self._training:
            self._training = self.file.with_name(TRAINS).exists()
        return self._training

    def training_begins(self) -> None:
        """Count as output what this process, and each child on its node, writes from now on."""
        self._training = True
        with suppress(OSError):  # another process of the node has made it
            self.file.with_name(TRAINS).touch(exist_ok=False)

    def open(self) -> None:
        self._fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def refuse(self, path: str, how: How) -> None:
        """Raise `ForeignFileError` if this harms a file that was there before."""
        confines = self.confines
        if confines is None or self._is_left_out(path) or is_spared(path) or confines.holds(path):
            return
        self._write(path, "refused", is_output=False)
        raise ForeignFileError.of(path, "remove" if how == "removed" else "overwrite")

    def refuse_store(self, path: str) -> None:
        """Raise `RemoteStoreError`: an object is about to be written elsewhere than here."""
        confines = self.confines
        if confines is not None and confines.stays_here and not confines.names(path):
            self._write(path, "remote", is_output=False)
            raise RemoteStoreError.of(path)

    def known(self, path: str) -> How | None:
        """Return how an object was put before, None if it was not."""
        ways: tuple[How, ...] = ("created", "replaced")
        both = (True, False)
        return next((w for w in ways if any((path, w, out) in self._seen for out in both)), None)

    def note(self, path: str, how: How, *, is_output: bool) -> None:
        is_output = is_output or self.is_training
        # A file that was opened before training, and is opened again in it, becomes output.
        if self._is_left_out(path) or {(path, how, is_output), (path, how, True)} & self._seen:
            return
        self._write(path, how, is_output=is_output)
        if how in ("created", "folder") and self.confines is not None:
            _append(self.confines.created, f"{path}\n")
        if is_output:
            self.outputs.add(path)

    def synced(self, path: str, state: Sequence[int]) -> None:
        if self._fd >= 0 and not self._is_left_out(path):
            self._append(path=path, how="synced", is_output=self.is_training, state=state)

    def made(self) -> frozenset[str]:
        """Return the files that this process, or one that it was forked from, has created."""
        return frozenset(path for path, how, _ in self._seen if how == "created")

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, path: str, how: How, *, is_output: bool) -> None:
        if self._fd < 0:
            return
        self._seen.add((path, how, is_output))
        self._append(path=path, how=how, is_output=is_output)

    def _append(self, **fields: Any) -> None:  # those of a line
        # One write to O_APPEND: the lines of several processes stay whole.
        line = f"{json.dumps({'pid': os.getpid(), **fields})}\n".encode()
        if os.write(self._fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))

    def _is_left_out(self, path: str) -> bool:
        return path.startswith(_NO_FILES) or any(is_below(path, own) for own in self._left_out)


Listener: TypeAlias = Callable[[str, tuple[Any, ...]], None]

_ledger: WriteLedger | None = None
_listeners: list[Listener] = []
_around: list[Around] = []
_is_hooked = False
_within = threading.local()


def record(ledger: WriteLedger | None) -> None:
    """Record from now on the writes of this process and of those forked from it."""
    # None in between: opening a ledger is an event too, and would be written to the one before.
    global _ledger  # noqa: PLW0603 - what a process writes is written to one ledger
    before, _ledger = _ledger, None
    if before is not None:
        before.close()
    if ledger is not None:
        ledger.open()
    _ledger = ledger
    _hook()


def listen(tell: Listener) -> None:
    """Set the one function that is called with these events as well."""
    _listeners[:] = [tell]
    _hook()


def surround(around: Around) -> None:
    """Set the one function by which calls to object stores are made as well."""
    _around[:] = [around]
    _hook()


def _hook() -> None:
    global _is_hooked  # noqa: PLW0603 - an audit hook is the process's, and stays
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_on_audit_event)
        os.register_at_fork(after_in_child=_be_a_child)
        wrap_native(_told_by_native)
        wrap_stores(lambda call: recorded(call, _ledger, next(iter(_around), plainly)))
        _wrap_syncs()


def _be_a_child() -> None:
    if _ledger is not None:
        _ledger.is_child = True


def training_has_begun() -> None:
    """Count files written from now on as the job's output, not as its data.

    So is a file that was made before and is still open for writing, as a log is.
    """
    if _ledger is not None and not _ledger.is_training:
        _ledger.training_begins()
        held = open_files(for_writing=True)
        for path in _ledger.made():
            if os.path.realpath(path) in held:
                _ledger.note(path, "extended", is_output=True)


def open_files(*, for_writing: bool = False) -> frozenset[str]:
    """Return the paths of files that this process holds open; none if that is unknown."""
    found = set()
    with suppress(OSError):
        for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208 - faster than paths
            with suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
                if not for_writing or fcntl(int(fd), F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                    found.add(path)
    return frozenset(found)


def read_ledger(path: Path) -> list[Written]:
    """Return the lines of a ledger; none if there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [_parsed(line) for line in lines if line.endswith("}")]


def _parsed(line: str) -> Written:
    try:
        return Written(**json.loads(line))
    except ValueError:  # it follows a line that a full disk took a part of
        return Written(**json.loads(line[line.rfind(_LINE) :]))


def is_spared(path: str) -> bool:
    """Return whether a file is a cache, a setting, a lock or an installed module."""
    if is_object(path):
        return False
    if path.endswith((".lock", ".pyc")) or "/__pycache__/" in path:
        return True
    home = os.path.expanduser("~") + "/."  # noqa: PTH111 - called within audit events
    caches = (os.environ.get(name) for name in ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME"))
    folders = [sys.prefix, *filter(None, caches)]
    return path.startswith(home) or any(is_below(path, folder) for folder in folders)


# -- audit events --------------------------------------------------------------------------------

_Touched: TypeAlias = Iterator[tuple[str, How, bool]]  # path, how, whether content is lost


def _opened(path: Any, _: Any, flags: int) -> _Touched:  # an event's arguments
    if not flags & _WRITES or isinstance(path, int):
        return
    target = absolute(path)
    found = _stat(target)
    if found is None:
        if flags & os.O_CREAT:
            yield target, "created", False
    elif stat.S_ISREG(found.st_mode) and not flags & os.O_EXCL:
        how: How = "extended" if flags & os.O_APPEND else "opened"
        if flags & os.O_TRUNC:
            how = "replaced"
        yield target, how, how == "replaced" and found.st_size > 0


def _renamed(source: Any, target: Any, source_fd: int = _HERE, target_fd: int = _HERE) -> _Touched:
    yield from _removed(source, source_fd)
    here, found = absolute(source, source_fd), _stat(absolute(source, source_fd), follow=False)
    if found is None or not stat.S_ISDIR(found.st_mode):
        yield from _linked(None, target, None, target_fd)
        return
    there = absolute(target, target_fd)
    for folder, _, files in os.walk(here):  # a renamed folder takes its files along
        moved = there + folder.removeprefix(here)
        if _stat(moved) is None:
            yield moved, "folder", False
        for name in files:
            yield from _removed(f"{folder}/{name}")
            yield f"{moved}/{name}", "created", False


def _linked(_: Any, target: Any, __: Any = None, target_fd: int = _HERE) -> _Touched:
    path = absolute(target, target_fd)
    found = _stat(path, follow=False)
    yield path, "replaced" if found else "created", _has_content(found)


def _removed(path: Any, dir_fd: int = _HERE) -> _Touched:
    target = absolute(path, dir_fd)
    found = _stat(target, follow=False)
    if found is not None:
        yield target, "removed", _has_content(found)


def _truncated(path: Any, _: int) -> _Touched:
    if not isinstance(path, int):
        yield absolute(path), "replaced", _has_content(_stat(absolute(path)))


def _made(path: Any, _: int, dir_fd: int = _HERE) -> _Touched:
    target = absolute(path, dir_fd)
    if _stat(target) is None:
        yield target, "folder", False


def _connected(database: Any) -> _Touched:
    if isinstance(database, str | bytes | os.PathLike) and os.fspath(database) != ":memory:":
        target = absolute(database)
        yield target, "opened" if _stat(target) else "created", False


def _started(program: Any, words: Any = (), cwd: Any = None, *_: Any) -> _Touched:
    """Yield the paths that a program is given, which it may write: it is not watched itself."""
    given = (program, *words) if isinstance(words, list | tuple) else (program, words)
    texts = (os.fsdecode(word) for word in given if isinstance(word, str | bytes | os.PathLike))
    at = os.getcwd() if cwd is None else os.path.abspath(os.fsdecode(cwd))  # noqa: PTH100, PTH109
    tokens = dict.fromkeys(token for text in texts for token in _WORDS.findall(text))
    for token in list(tokens)[:_WORDS_MAX]:
        yield os.path.normpath(os.path.join(at, token)), "named", False  # noqa: PTH118


_EVENTS: dict[str, Callable[..., _Touched]] = {
    "open": _opened,
    "os.rename": _renamed,
    "os.link": _linked,
    "os.symlink": lambda source, target, fd=_HERE: _linked(source, target, None, fd),
    "os.remove": _removed,
    "os.rmdir": lambda *_: iter(()),  # what was in it was removed before
    "os.truncate": _truncated,
    "os.mkdir": _made,
    "sqlite3.connect": _connected,
    "subprocess.Popen": _started,
    "os.system": _started,
    "os.posix_spawn": lambda program, words, _: _started(program, words),
    "os.exec": lambda program, words, _: _started(program, words),
}


def _syncs_itself(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "sqlite3.connect":
        return True
    return event == "open" and bool(arguments[2] & os.O_DSYNC)  # O_SYNC has this bit, too


def _on_audit_event(event: str, arguments: tuple[Any, ...], *, is_output: bool = False) -> None:
    """Record an audit event; only a refusal and an injected error may be raised here."""
    if event not in _EVENTS or getattr(_within, "keeps", False):
        return
    if event == "open" and _ledger is not None and _ledger.keep is not None:
        _keep(_ledger.keep, *arguments)
    for tell in _listeners:
        tell(event, arguments)
    if _ledger is not None:
        _write_down(_ledger, event, arguments, is_output=is_output)


def _keep(keep: Callable[[str], None], path: Any, _: Any, flags: int) -> None:  # of an event
    if flags & _WRITES and not isinstance(path, int):
        _within.keeps = True  # what it opens is not the job's
        try:
            keep(absolute(path))
        except Exception:  # noqa: BLE001, S110 - the job's own call is to fail by itself
            pass
        finally:
            _within.keeps = False


def _write_down(
    ledger: WriteLedger, event: str, arguments: tuple[Any, ...], *, is_output: bool
) -> None:
    try:
        # An audit event comes before its operation: only then can it still be refused, and only
        # then is it seen whether a file was there before. All are asked before any is noted, so
        # that nothing is recorded of an operation that does not happen.
        touched = list(_EVENTS[event](*arguments))
        for path, how, is_harm in touched:
            if is_harm:
                ledger.refuse(path, how)
        moved = [path for path, how, _ in touched if event == "os.rename" and how == "removed"]
        is_output = is_output or not ledger.outputs.isdisjoint(moved)
        for path, how, _ in touched:
            ledger.note(path, how, is_output=is_output)
            if _syncs_itself(event, arguments):
                ledger.synced(path, ())
    except ForeignFileError:
        raise
    except Exception as error:
        # A disk without room for the line: the job then makes no file that no run would remove. Its
        # own call fails, as it does on a full disk.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise


def _told_by_native(path: Any, flags: int) -> None:  # whatever a library is given
    if isinstance(path, str | bytes | os.PathLike):
        _on_audit_event("open", (path, None, flags), is_output=True)
        if _ledger is not None:
            with suppress(OSError):
                _ledger.note(absolute(path), "saved", is_output=True)


def _wrap_syncs() -> None:
    """Record what is synced: Python has no audit event for it."""
    for name in ("fsync", "fdatasync"):
        setattr(os, name, _recorded(getattr(os, name)))
    everything = os.sync

    @functools.wraps(everything)
    def sync() -> None:
        now_ns = SystemClock().wall_ns()
        everything()
        if _ledger is not None:
            _ledger.synced("/", (now_ns,))

    os.sync = sync


def _recorded(sync: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(sync)
    def synced(file: Any) -> None:  # a descriptor, or what has one
        sync(file)
        if _ledger is not None:
            with suppress(OSError):
                fd = file if isinstance(file, int) else file.fileno()
                path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - of a descriptor
                _ledger.synced(path, file_state(os.fstat(fd)))

    return synced


def file_state(found: os.stat_result) -> FileState:
    """Return what tells a file's content from an earlier or later one, whatever its name."""
    return found.st_ino, found.st_mtime_ns, found.st_size


# -- paths -------------------------------------------------------------------------------------


def absolute(path: Any, dir_fd: int = _HERE) -> str:  # an event's arguments
    """Return the absolute path that an audit event names; links stay links."""
    name = os.fsdecode(path)
    if dir_fd not in (_HERE, None) and not name.startswith("/"):
        name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)  # noqa: PTH115, PTH118
    return os.path.abspath(name)  # noqa: PTH100 - links stay links


def _stat(path: str, *, follow: bool = True) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116
    except OSError:
        return None


def _has_content(found: os.stat_result | None) -> bool:
    return found is not None and stat.S_ISREG(found.st_mode) and found.st_size > 0


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
