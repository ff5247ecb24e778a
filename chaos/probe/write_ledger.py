"""The files that this process writes and removes, recorded, and refused if they are not the job's.

Python raises audit events (PEP 578) before `open`, `os.rename`, `os.remove` and
the like; an error raised in the hook prevents the operation. Native code raises
no such events, so the few functions that save models (`NATIVE`) are wrapped.
Writes of a process started by `exec`, and of any other native code, are not seen.

`start_ledger(WriteLedger(...))` begins, in a process and in all that are forked from it;
another call continues with another ledger. `load_ledger(path)` returns the lines
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
from chaos.model.objects import is_store_object
from chaos.model.paths import is_in_folder
from chaos.probe.native_writers import wrap_native
from chaos.probe.object_ledger import record_call
from chaos.probe.stores import Around, make_call, wrap_stores
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
class LedgerLine:
    """One line of a ledger."""

    path: str
    how: How
    pid: int
    #: written after the job's first step, or as a model is
    is_output: bool
    #: of a file that was synced, its `build_file_state`; empty for one that is synced by itself, as
    #: a database is; for all files of the machine, the time (unix, ns)
    state: Sequence[int] = ()


@dataclass(frozen=True)
class WriteLimits:
    """The limits of a process."""

    #: the audit's; files that are older may not be harmed
    folder: Path
    #: files and folders that may be written nevertheless
    allowed: tuple[Path, ...] = ()
    #: likewise objects, and what begins as their names do
    objects: tuple[str, ...] = ()
    #: of object stores, only one on this machine may be written to
    is_local_only: bool = False

    @property
    def created_list(self) -> Path:
        """The list of files and folders outside that the audit has made, one path a line."""
        return self.folder / "created.txt"

    def is_allowed(self, path: str) -> bool:
        """Return whether a path is the audit's own, allowed, or made by its processes.

        So is all that lies in a folder they made: native code writes unseen.
        """
        if is_store_object(path):
            return self.has_allowed_name(path) or path in self.list_created()
        resolved_path = os.path.realpath(path)
        if any(
            is_in_folder(resolved_path, os.path.realpath(allowed_path))
            for allowed_path in (self.folder, *self.allowed)
        ):
            return True
        return not {path, *map(str, Path(path).parents)}.isdisjoint(self.list_created())

    def has_allowed_name(self, path: str) -> bool:
        """Return whether an object may be written by its name."""
        return any(is_in_folder(path, name_prefix) for name_prefix in self.objects)

    def list_created(self) -> list[str]:
        """Return the files and folders outside that the audit has made by now."""
        try:
            return self.created_list.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []


@dataclass
class WriteLedger:
    """The file in which a process records its writes."""

    file: Path
    #: the folders whose files are not recorded
    ignored_folders: Sequence[Path] = ()
    confines: WriteLimits | None = None
    #: called with each file before it is opened to be written
    on_open: Callable[[str], None] | None = None
    #: of a process that a rank has started: it trains when the rank does
    is_child: bool = False
    #: an earlier start of the run has trained: one that finds nothing left to train writes output
    has_trained_before: bool = False
    _has_training_begun: bool = field(default=False, init=False)
    _fd: int = field(default=-1, init=False)
    _recorded_writes: set[tuple[str, How, bool]] = field(default_factory=set, init=False)
    output_paths: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._has_training_begun = self.has_trained_before
        ignored_paths = [*self.ignored_folders, self.file.with_name(TRAINS)]
        ignored_paths += [self.confines.created_list] if self.confines else []
        self._ignored_paths = tuple(str(path) for path in ignored_paths)

    @property
    def is_training(self) -> bool:
        """Whether what is written now is the job's output, and not its data."""
        if self.is_child and not self._has_training_begun:
            self._has_training_begun = self.file.with_name(TRAINS).exists()
        return self._has_training_begun

    def training_begins(self) -> None:
        """Count as output what this process, and each child on its node, writes from now on."""
        self._has_training_begun = True
        with suppress(OSError):  # another process of the node has made it
            self.file.with_name(TRAINS).touch(exist_ok=False)

    def open(self) -> None:
        if self.has_trained_before:  # for the children, on a node that is new
            with suppress(FileExistsError):
                self.file.with_name(TRAINS).touch(exist_ok=False)
        self._fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def check_write(self, path: str, effect: How) -> None:
        """Raise `ForeignFileError` if this harms a file that was there before."""
        confines = self.confines
        if (
            confines is None
            or self._is_ignored(path)
            or is_spared(path)
            or confines.is_allowed(path)
        ):
            return
        self._write_once(path, "refused", is_output=False)
        raise ForeignFileError.from_path(path, "remove" if effect == "removed" else "overwrite")

    def check_store(self, path: str) -> None:
        """Raise `RemoteStoreError`: an object is about to be written elsewhere than here."""
        confines = self.confines
        if confines is not None and confines.is_local_only and not confines.has_allowed_name(path):
            self._write_once(path, "remote", is_output=False)
            raise RemoteStoreError.from_path(path)

    def find_put_effect(self, path: str) -> How | None:
        """Return how an object was put before, None if it was not."""
        put_effects: tuple[How, ...] = ("created", "replaced")
        output_flags = (True, False)
        return next(
            (
                effect
                for effect in put_effects
                if any(
                    (path, effect, is_output) in self._recorded_writes for is_output in output_flags
                )
            ),
            None,
        )

    def record_write(self, path: str, effect: How, *, is_output: bool) -> None:
        is_output = is_output or self.is_training
        # A file that was opened before training, and is opened again in it, becomes output.
        if (
            self._is_ignored(path)
            or {(path, effect, is_output), (path, effect, True)} & self._recorded_writes
        ):
            return
        self._write_once(path, effect, is_output=is_output)
        if effect in ("created", "folder") and self.confines is not None:
            _append(self.confines.created_list, f"{path}\n")
        if is_output:
            self.output_paths.add(path)

    def record_sync(self, path: str, state: Sequence[int]) -> None:
        if self._fd >= 0 and not self._is_ignored(path):
            self._append_line(path=path, how="synced", is_output=self.is_training, state=state)

    def list_created(self) -> frozenset[str]:
        """Return the files that this process, or one that it was forked from, has created."""
        return frozenset(path for path, effect, _ in self._recorded_writes if effect == "created")

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write_once(self, path: str, effect: How, *, is_output: bool) -> None:
        if self._fd < 0:
            return
        self._recorded_writes.add((path, effect, is_output))
        self._append_line(path=path, how=effect, is_output=is_output)

    def _append_line(self, **fields: Any) -> None:  # those of a line
        # One write to O_APPEND: the lines of several processes stay whole.
        line = f"{json.dumps({'pid': os.getpid(), **fields})}\n".encode()
        if os.write(self._fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))

    def _is_ignored(self, path: str) -> bool:
        return path.startswith(_NO_FILES) or any(
            is_in_folder(path, ignored_path) for ignored_path in self._ignored_paths
        )


Listener: TypeAlias = Callable[[str, tuple[Any, ...]], None]

_ledger: WriteLedger | None = None
_listeners: list[Listener] = []
_around: list[Around] = []
_is_hooked = False
_thread_state = threading.local()


def start_ledger(ledger: WriteLedger | None) -> None:
    """Record from now on the writes of this process and of those forked from it."""
    # None in between: opening a ledger is an event too, and would be written to the one before.
    global _ledger  # noqa: PLW0603 - what a process writes is written to one ledger
    previous_ledger, _ledger = _ledger, None
    if previous_ledger is not None:
        previous_ledger.close()
    if ledger is not None:
        ledger.open()
    _ledger = ledger
    _install_hooks()


def set_listener(listener: Listener) -> None:
    """Set the one function that is called with these events as well."""
    _listeners[:] = [listener]
    _install_hooks()


def set_call_handler(call_handler: Around) -> None:
    """Set the one function by which calls to object stores are made as well."""
    _around[:] = [call_handler]
    _install_hooks()


def _install_hooks() -> None:
    global _is_hooked  # noqa: PLW0603 - an audit hook is the process's, and stays
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_handle_audit_event)
        os.register_at_fork(after_in_child=_mark_child)
        wrap_native(_record_native_write)
        wrap_stores(lambda call: record_call(call, _ledger, next(iter(_around), make_call)))
        _wrap_syncs()


def _mark_child() -> None:
    if _ledger is not None:
        _ledger.is_child = True


def mark_training_begin() -> None:
    """Count files written from now on as the job's output, not as its data.

    So is a file that was made before and is still open for writing, as a log is.
    """
    if _ledger is not None and not _ledger.is_training:
        _ledger.training_begins()
        open_paths = list_open_files(for_writing=True)
        for path in _ledger.list_created():
            if os.path.realpath(path) in open_paths:
                _ledger.record_write(path, "extended", is_output=True)


def list_open_files(*, for_writing: bool = False) -> frozenset[str]:
    """Return the paths of files that this process holds open; none if that is unknown."""
    open_paths = set()
    with suppress(OSError):
        for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208 - faster than paths
            with suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
                if not for_writing or fcntl(int(fd), F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                    open_paths.add(path)
    return frozenset(open_paths)


def load_ledger(path: Path) -> list[LedgerLine]:
    """Return the lines of a ledger; none if there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [_parse_line(line) for line in lines if line.endswith("}")]


def _parse_line(line: str) -> LedgerLine:
    try:
        return LedgerLine(**json.loads(line))
    except ValueError:  # it follows a line that a full disk took a part of
        return LedgerLine(**json.loads(line[line.rfind(_LINE) :]))


def is_spared(path: str) -> bool:
    """Return whether a file is a cache, a setting, a lock or an installed module."""
    if is_store_object(path):
        return False
    if path.endswith((".lock", ".pyc")) or "/__pycache__/" in path:
        return True
    home = os.path.expanduser("~") + "/."  # noqa: PTH111 - called within audit events
    caches = (os.environ.get(name) for name in ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME"))
    folders = [sys.prefix, *filter(None, caches)]
    return path.startswith(home) or any(is_in_folder(path, folder) for folder in folders)


# -- audit events --------------------------------------------------------------------------------

_Touched: TypeAlias = Iterator[tuple[str, How, bool]]  # path, how, whether content is lost


def _find_open_effect(path: Any, _: Any, flags: int) -> _Touched:  # an event's arguments
    if not flags & _WRITES or isinstance(path, int):
        return
    target = resolve_event_path(path)
    status = _stat(target)
    if status is None:
        if flags & os.O_CREAT:
            yield target, "created", False
    elif stat.S_ISREG(status.st_mode) and not flags & os.O_EXCL:
        effect: How = "extended" if flags & os.O_APPEND else "opened"
        if flags & os.O_TRUNC:
            effect = "replaced"
        yield target, effect, effect == "replaced" and status.st_size > 0


def _find_renaming_effects(
    source: Any, target: Any, source_fd: int = _HERE, target_fd: int = _HERE
) -> _Touched:
    yield from _find_removal_effect(source, source_fd)
    source_path, status = (
        resolve_event_path(source, source_fd),
        _stat(resolve_event_path(source, source_fd), follow=False),
    )
    if status is None or not stat.S_ISDIR(status.st_mode):
        yield from _find_link_effect(None, target, None, target_fd)
        return
    target_path = resolve_event_path(target, target_fd)
    for folder, _, files in os.walk(source_path):  # a renamed folder takes its files along
        moved_folder = target_path + folder.removeprefix(source_path)
        if _stat(moved_folder) is None:
            yield moved_folder, "folder", False
        for name in files:
            yield from _find_removal_effect(f"{folder}/{name}")
            yield f"{moved_folder}/{name}", "created", False


def _find_link_effect(_: Any, target: Any, __: Any = None, target_fd: int = _HERE) -> _Touched:
    path = resolve_event_path(target, target_fd)
    status = _stat(path, follow=False)
    yield path, "replaced" if status else "created", _has_content(status)


def _find_removal_effect(path: Any, dir_fd: int = _HERE) -> _Touched:
    target = resolve_event_path(path, dir_fd)
    status = _stat(target, follow=False)
    if status is not None:
        yield target, "removed", _has_content(status)


def _find_truncation_effect(path: Any, _: int) -> _Touched:
    if not isinstance(path, int):
        yield resolve_event_path(path), "replaced", _has_content(_stat(resolve_event_path(path)))


def _find_folder_effect(path: Any, _: int, dir_fd: int = _HERE) -> _Touched:
    target = resolve_event_path(path, dir_fd)
    if _stat(target) is None:
        yield target, "folder", False


def _find_database_effect(database: Any) -> _Touched:
    if isinstance(database, str | bytes | os.PathLike) and os.fspath(database) != ":memory:":
        target = resolve_event_path(database)
        yield target, "opened" if _stat(target) else "created", False


def _find_program_paths(program: Any, words: Any = (), cwd: Any = None, *_: Any) -> _Touched:
    """Yield the paths that a program is given, which it may write: it is not watched itself."""
    command_words = (program, *words) if isinstance(words, list | tuple) else (program, words)
    texts = (
        os.fsdecode(word) for word in command_words if isinstance(word, str | bytes | os.PathLike)
    )
    directory = os.getcwd() if cwd is None else os.path.abspath(os.fsdecode(cwd))  # noqa: PTH100, PTH109
    tokens = dict.fromkeys(token for text in texts for token in _WORDS.findall(text))
    for token in list(tokens)[:_WORDS_MAX]:
        yield os.path.normpath(os.path.join(directory, token)), "named", False  # noqa: PTH118


_EVENTS: dict[str, Callable[..., _Touched]] = {
    "open": _find_open_effect,
    "os.rename": _find_renaming_effects,
    "os.link": _find_link_effect,
    "os.symlink": lambda source, target, fd=_HERE: _find_link_effect(source, target, None, fd),
    "os.remove": _find_removal_effect,
    "os.rmdir": lambda *_: iter(()),  # what was in it was removed before
    "os.truncate": _find_truncation_effect,
    "os.mkdir": _find_folder_effect,
    "sqlite3.connect": _find_database_effect,
    "subprocess.Popen": _find_program_paths,
    "os.system": _find_program_paths,
    "os.posix_spawn": lambda program, words, _: _find_program_paths(program, words),
    "os.exec": lambda program, words, _: _find_program_paths(program, words),
}


def _syncs_itself(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "sqlite3.connect":
        return True
    return event == "open" and bool(arguments[2] & os.O_DSYNC)  # O_SYNC has this bit, too


def _handle_audit_event(event: str, arguments: tuple[Any, ...], *, is_output: bool = False) -> None:
    """Record an audit event; only a refusal and an injected error may be raised here."""
    if event not in _EVENTS or getattr(_thread_state, "keeps", False):
        return
    if event == "open" and _ledger is not None and _ledger.on_open is not None:
        _report_opening(_ledger.on_open, *arguments)
    for listener in _listeners:
        listener(event, arguments)
    if _ledger is not None:
        _record_event(_ledger, event, arguments, is_output=is_output)


def _report_opening(
    on_open: Callable[[str], None], path: Any, _: Any, flags: int
) -> None:  # of an event
    if flags & _WRITES and not isinstance(path, int):
        _thread_state.keeps = True  # what it opens is not the job's
        try:
            on_open(resolve_event_path(path))
        except Exception:  # noqa: BLE001, S110 - the job's own call is to fail by itself
            pass
        finally:
            _thread_state.keeps = False


def _record_event(
    ledger: WriteLedger, event: str, arguments: tuple[Any, ...], *, is_output: bool
) -> None:
    try:
        # An audit event comes before its operation: only then can it still be refused, and only
        # then is it seen whether a file was there before. All are asked before any is noted, so
        # that nothing is recorded of an operation that does not happen.
        effects = list(_EVENTS[event](*arguments))
        for path, effect, is_harm in effects:
            if is_harm:
                ledger.check_write(path, effect)
        removed_paths = [
            path for path, effect, _ in effects if event == "os.rename" and effect == "removed"
        ]
        is_output = is_output or not ledger.output_paths.isdisjoint(removed_paths)
        for path, effect, _ in effects:
            ledger.record_write(path, effect, is_output=is_output)
            if _syncs_itself(event, arguments):
                ledger.record_sync(path, ())
    except ForeignFileError:
        raise
    except Exception as error:
        # A disk without room for the line: the job then makes no file that no run would remove. Its
        # own call fails, as it does on a full disk.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise


def _record_native_write(path: Any, flags: int) -> None:  # whatever a library is given
    if isinstance(path, str | bytes | os.PathLike):
        _handle_audit_event("open", (path, None, flags), is_output=True)
        if _ledger is not None:
            with suppress(OSError):
                _ledger.record_write(resolve_event_path(path), "saved", is_output=True)


def _wrap_syncs() -> None:
    """Record what is synced: Python has no audit event for it."""
    for name in ("fsync", "fdatasync"):
        setattr(os, name, _wrap_sync(getattr(os, name)))
    original_sync = os.sync

    @functools.wraps(original_sync)
    def sync() -> None:
        now_ns = SystemClock().wall_ns()
        original_sync()
        if _ledger is not None:
            _ledger.record_sync("/", (now_ns,))

    os.sync = sync


def _wrap_sync(sync: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(sync)
    def sync_and_record(file: Any) -> None:  # a descriptor, or what has one
        sync(file)
        if _ledger is not None:
            with suppress(OSError):
                fd = file if isinstance(file, int) else file.fileno()
                path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - of a descriptor
                _ledger.record_sync(path, build_file_state(os.fstat(fd)))

    return sync_and_record


def build_file_state(status: os.stat_result) -> FileState:
    """Return what tells a file's content from an earlier or later one, whatever its name."""
    return status.st_ino, status.st_mtime_ns, status.st_size


# -- paths -------------------------------------------------------------------------------------


def resolve_event_path(path: Any, dir_fd: int = _HERE) -> str:  # an event's arguments
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


def _has_content(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode) and status.st_size > 0


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
