"""Files that a rank opens itself, by any library, as Python's audit events of `open` show them.

A file opened for writing is read once it is closed. A thread waits for that, because training may
wait in a barrier meanwhile, where a fault may be injected. At the latest the file is read when the
model is next called, a step or a report begins, the file is renamed, or the train function ends.
Its place is that of training when it was opened. A file opened for reading is reported at once.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from chaos.errors import InjectedError
from chaos.model.event import CodeLine
from chaos.model.paths import is_in_folder
from chaos.model.places import TrainingPlace
from chaos.probe.job_code import find_running_line
from chaos.probe.object_ledger import STORES
from chaos.probe.state.readable import is_text
from chaos.probe.training_listener import FileOperation, TrainingListener
from chaos.probe.write_ledger import (
    TRAINS,
    is_spared,
    list_open_files,
    resolve_event_path,
    set_listener,
)
from chaos.run.clock import SystemClock

# Between two looks at files that may have been closed by now, for at most `LOOKS_MAX` of them.
LOOK_S = 0.005
LOOKS_MAX = 20

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_State: TypeAlias = tuple[int, int, int] | None  # inode, size, when it was changed; None: gone
_OF_A_RUN = ("storage", "nodes")  # the folders of a run in which the job writes
_OF_CHAOS = ("written.jsonl", TRAINS, STORES)


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that was opened for writing, by a thread."""

    path: str
    place: TrainingPlace
    #: at its end, as a log is
    is_append: bool
    thread: int
    #: while the thread that opened it made a step of training, as a memory map does that is kept;
    #: its content is of no one place
    is_kept_open: bool = False
    #: where the job opened it
    code: CodeLine | None = None

    @property
    def has_returned(self) -> bool:
        """Whether the call that opens it has returned, as far as this thread can tell."""
        alive = (thread.ident for thread in threading.enumerate())
        return self.thread == threading.get_ident() or self.thread not in alive


class OpenedFiles:
    """The files that one rank has opened; those that it reads only while `is_reading`.

    Python calls the audit hook in the thread that opens a file. Nothing may be raised there but
    an injected error, and a file that chaos opens within the hook is not the job's.
    """

    def __init__(
        self,
        run_folder: Path,
        find_place: Callable[[], TrainingPlace],
        listener: TrainingListener,
        report_failure: Callable[[str, Exception], None],
        *,
        is_reading: bool,
    ) -> None:
        self._run_folder = str(run_folder)
        self._find_place = find_place
        self._listener, self._report_failure = listener, report_failure
        self._has_openings = threading.Event()
        self._pid = os.getpid()
        self._thread_state = threading.local()
        self._written_files: dict[str, OpenedFile] = {}
        self._open_files: dict[str, OpenedFile] = {}
        self._closed_files: dict[str, tuple[OpenedFile, _State]] = {}
        self._ignored_paths: set[str] = set()
        self._operations: list[FileOperation] = []
        self._lock = threading.RLock()
        self._handlers: dict[str, Callable[..., None]] = {
            "open": self._handle_open,
            "os.mkdir": self._handle_folder,
            "os.rename": self._handle_renaming,
            "os.symlink": self._handle_link,
            "os.link": self._handle_link,
            "os.remove": lambda *name: self._handle_removal("os.remove", resolve_event_path(*name)),
            "os.rmdir": lambda *name: self._handle_removal("os.rmdir", resolve_event_path(*name)),
        }
        self.is_reading = is_reading

    def watch(self) -> None:
        threading.Thread(target=self._run_scans, daemon=True, name="files").start()
        set_listener(self._handle_audit_event)

    def _run_scans(self) -> None:
        """Look at each file soon after it is closed, in a thread of chaos."""
        clock = SystemClock()
        while True:
            self._has_openings.wait()
            self._has_openings.clear()
            for _ in range(LOOKS_MAX):
                clock.sleep(LOOK_S)
                if self._written_files:
                    self._listener.files_closed()
                if not self._open_files:
                    break
                with self._lock:
                    self._requeue_files()

    def end_reading(self) -> None:
        """Report no more files that are read: training has begun."""
        self.is_reading = False

    def step_begins(self) -> None:
        """Mark the files that this thread, which trains, has opened and not closed by now."""
        thread_id = threading.get_ident()
        with self._lock:
            for openings in (self._open_files, self._written_files):
                for path, opening in openings.items():
                    if opening.thread == thread_id:
                        openings[path] = replace(opening, is_kept_open=True)

    def ignore_file(self, path: Path) -> None:
        """Leave out a file, until it is opened again, that was reported by other means."""
        self._ignored_paths.add(str(path))

    def take_closed_files(self, *, look_again: bool, at_end: bool = False) -> Iterator[OpenedFile]:
        """Yield the files written and closed since; `look_again`: also those open at the last look.

        `at_end` of the train function, an open text file is yielded too: it may never be closed.
        """
        with self._lock:  # one thread at a time: files that one has taken, another would miss
            if look_again:
                self._requeue_files()
            if not self._written_files:
                return
            openings, self._written_files = self._written_files, {}
            existing_paths = {path for path in openings if os.path.isfile(path)}  # noqa: PTH113 - of strings
            open_paths = (
                list_open_files()
            )  # in this order: one made in between would seem to be closed
            closed_openings = []
            for path, opening in openings.items():
                if path in self._ignored_paths:
                    continue
                if path not in existing_paths:
                    # The audit event comes before the opening. Else it is gone, or a pipe.
                    if not opening.has_returned:
                        self._open_files[path] = opening
                elif path in open_paths and not (at_end and is_text(Path(path))):
                    self._open_files[path] = opening
                else:
                    self._closed_files[path] = opening, _find_state(path)
                    closed_openings.append(opening)
        yield from closed_openings

    def _requeue_files(self) -> None:
        """Look again at files that were open, or that have changed since the last look.

        The audit event comes before the opening: a file that seemed to be closed may not have
        been opened yet.
        """
        changed_openings: dict[str, OpenedFile] = {}
        for path, (opening, earlier_state) in list(self._closed_files.items()):
            if (current_state := _find_state(path)) != earlier_state:
                del self._closed_files[path]
                changed_openings |= {} if current_state is None else {path: opening}
            elif (
                opening.has_returned
            ):  # it was opened before that look, and is not written any more
                del self._closed_files[path]
        self._written_files = {**changed_openings, **self._open_files, **self._written_files}
        self._open_files = {}

    def take_operations(self) -> list[FileOperation]:
        """Return what was done to names since the last call, in its order."""
        operations, self._operations = self._operations, []
        return operations

    def pause_watch(self) -> AbstractContextManager[None]:
        """Return a context in which this thread's files are not watched here."""
        return _WatchPause(self._thread_state)

    # -- the audit hook ------------------------------------------------------------------------

    def _handle_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        # By thread: chaos opens files in the job's own threads, within this hook and within saves,
        # while other threads of the job open theirs.
        if not self.is_job_thread():
            return
        with self.pause_watch():
            try:
                if event in self._handlers:
                    self._handlers[event](*arguments)
            except InjectedError:
                raise  # an injected error is meant for the job
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the job's call
                self._report_failure("files", error)

    def _handle_open(self, path: Any, _: Any, flags: int) -> None:  # of an event
        if isinstance(path, int):
            return
        if not flags & _WRITES:
            if self.is_reading and os.path.isfile(path):  # noqa: PTH113 - may be anything
                self._listener.reading_begins(Path(resolve_event_path(path)))
            return
        target = resolve_event_path(path)
        if self._is_job_path(target):
            self._ignored_paths.discard(target)
            self._has_openings.set()
            appends = bool(flags & os.O_APPEND)
            thread, code = threading.get_ident(), find_running_line()
            opening = OpenedFile(target, self._find_place(), appends, thread, code=code)
            if flags & os.O_TRUNC:
                self.add_operation(FileOperation("opening", target, opening.place))
            with self._lock:
                self._written_files[target] = opening

    def _handle_renaming(self, source: Any, destination: Any, *_: int) -> None:
        path, target = resolve_event_path(source), resolve_event_path(destination)
        if self._is_job_path(path):
            with self._lock:
                self._requeue_files()
            # The file is complete now, and a fault may follow at once.
            self._listener.files_closed()
            self.add_operation(FileOperation("renaming", path, self._find_place(), target))
            self._listener.file_moved(path, target)
            for name in [name for name in self._open_files if is_in_folder(name, path)]:
                opening = self._open_files.pop(name)
                moved_path = target + name.removeprefix(path)
                self._open_files[moved_path] = replace(opening, path=moved_path)

    def _handle_link(self, link_target: Any, path: Any, *_: int) -> None:
        link = resolve_event_path(path)
        if self._is_job_path(link):
            self._listener.files_closed()  # what it leads to may be complete now; likewise
            self.add_operation(
                FileOperation("linking", link, self._find_place(), os.fsdecode(link_target))
            )

    def _handle_folder(self, folder: Any, _: int, *dir_fd: int) -> None:
        path = resolve_event_path(folder, *dir_fd)
        if self._is_job_path(path) and not os.path.lexists(path):
            self.add_operation(FileOperation("making", path, self._find_place()))

    def _handle_removal(self, event: str, path: str) -> None:
        if self._is_job_path(path):
            self.add_operation(FileOperation("removing", path, self._find_place()))
            if event == "os.remove":
                self._listener.file_moved(path, None)

    def add_operation(self, operation: FileOperation) -> None:
        """Stop at an op before an operation, and remember it."""
        self._listener.operation_begins(operation)
        self._operations.append(operation)

    def is_job_thread(self) -> bool:
        """Return whether what this thread does is the job's, in the process that is watched."""
        return os.getpid() == self._pid and not getattr(self._thread_state, "is_ours", False)

    def _is_job_path(self, path: str) -> bool:
        if path.startswith(("/dev/", "/proc/", "/sys/")) or is_spared(path):
            return False
        if not is_in_folder(path, self._run_folder):
            return True
        path_parts = path[len(self._run_folder) :].lstrip("/").split("/")
        return path_parts[0] in _OF_A_RUN and path_parts[-1] not in _OF_CHAOS


class _WatchPause(AbstractContextManager[None]):
    def __init__(self, thread_state: threading.local) -> None:
        self._thread_state = thread_state

    def __enter__(self) -> None:
        self._was_paused = getattr(self._thread_state, "is_ours", False)
        self._thread_state.is_ours = True

    def __exit__(self, *_: object) -> None:
        self._thread_state.is_ours = self._was_paused


def _find_state(path: str) -> _State:
    try:
        status = os.stat(path)  # noqa: PTH116 - the path is a string
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def create_folder(path: str) -> Iterator[None]:
    """Make a folder, which the job's own call is to make once this is over."""
    with contextlib.suppress(OSError):
        os.mkdir(path)  # noqa: PTH102 - of a string
    yield
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106


@contextlib.contextmanager
def truncate_file(path: str) -> Iterator[None]:
    """Do what opening a file anew does first; where it cannot be opened, the job's call says so."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.close(fd)
