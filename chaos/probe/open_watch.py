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
from typing import Any, Literal, TypeAlias

from chaos.errors import InjectedError
from chaos.model.event import CodeLine
from chaos.model.paths import is_below
from chaos.model.places import Place
from chaos.probe.job_code import running_line
from chaos.probe.state.readable import is_text
from chaos.probe.written import TRAINS, absolute, is_spared, listen, open_files
from chaos.probe.written_objects import STORES
from chaos.run.clock import SystemClock

# Between two looks at files that may have been closed by now, for at most `LOOKS_MAX` of them.
LOOK_S = 0.005
LOOKS_MAX = 20

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_State: TypeAlias = tuple[int, int, int] | None  # inode, size, when it was changed; None: gone
_OF_A_RUN = ("storage", "nodes")  # the folders of a run in which the job writes
_OF_CHAOS = ("written.jsonl", TRAINS, STORES)


Operated: TypeAlias = Literal[
    "making", "opening", "renaming", "linking", "removing", "putting", "completing"
]


@dataclass(frozen=True, slots=True)
class Opening:
    """A file that was opened for writing, by a thread."""

    path: str
    place: Place
    #: at its end, as a log is
    appends: bool
    thread: int
    #: while the thread that opened it made a step of training, as a memory map does that is kept;
    #: its content is of no one place
    stays_open: bool = False
    #: where the job opened it
    code: CodeLine | None = None

    @property
    def is_over(self) -> bool:
        """Whether the call that opens it has returned, as far as this thread can tell."""
        alive = (thread.ident for thread in threading.enumerate())
        return self.thread == threading.get_ident() or self.thread not in alive


@dataclass(frozen=True, slots=True)
class Operation:
    """A renaming, a link, a removal, a new folder, a file written anew, or an object put."""

    moment: Operated
    path: str
    place: Place
    #: the new name, or what a link leads to, or an object is copied from
    to: str = ""


class Opened:
    """The files that one rank has opened.

    `is_read` is called with a path that the rank reads, `look` when files may have been closed,
    `before` with each operation that is about to be done, and `moved` with the old path and the
    new one, which is None for a file that is about to be removed.

    Python calls the audit hook in the thread that opens a file. Nothing may be raised there but
    an injected error, and a file that chaos opens within the hook is not the job's.
    """

    def __init__(
        self,
        run: Path,
        place: Callable[[], Place],
        *,
        is_read: Callable[[Path], None],
        look: Callable[[], None],
        before: Callable[[Operation], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._run = str(run)
        self._place = place
        self._is_read = is_read
        self._look = look
        self._before = before
        self._failed = failed
        self._something = threading.Event()
        self._pid = os.getpid()
        self._within = threading.local()
        self._written: dict[str, Opening] = {}
        self._kept_open: dict[str, Opening] = {}
        self._looked_at: dict[str, tuple[Opening, _State]] = {}
        self._forgotten: set[str] = set()
        self._done: list[Operation] = []
        self._turn = threading.RLock()
        self._acts: dict[str, Callable[..., None]] = {
            "open": self._opens,
            "os.mkdir": self._makes,
            "os.rename": self._renames,
            "os.symlink": self._links,
            "os.link": self._links,
            "os.remove": lambda *name: self._removes("os.remove", absolute(*name)),
            "os.rmdir": lambda *name: self._removes("os.rmdir", absolute(*name)),
        }
        self.is_reading = False
        self.moved: Callable[[str, str | None], None] = lambda *_: None

    def watch(self) -> None:
        threading.Thread(target=self._wait, daemon=True, name="files").start()
        listen(self._on_audit_event)

    def _wait(self) -> None:
        """Look at each file soon after it is closed, in a thread of chaos."""
        clock = SystemClock()
        while True:
            self._something.wait()
            self._something.clear()
            for _ in range(LOOKS_MAX):
                clock.sleep(LOOK_S)
                if self._written:
                    self._look()
                if not self._kept_open:
                    break
                with self._turn:
                    self._open_again()

    def step_begins(self) -> None:
        """Mark the files that this thread, which trains, has opened and not closed by now."""
        here = threading.get_ident()
        with self._turn:
            for waiting in (self._kept_open, self._written):
                for path, opening in waiting.items():
                    if opening.thread == here:
                        waiting[path] = replace(opening, stays_open=True)

    def forget(self, path: Path) -> None:
        """Leave out a file, until it is opened again, that was reported by other means."""
        self._forgotten.add(str(path))

    def closed(self, *, look_again: bool, at_end: bool = False) -> Iterator[Opening]:
        """Yield the files written and closed since; `look_again`: also those open at the last look.

        `at_end` of the train function, an open text file is yielded too: it may never be closed.
        """
        with self._turn:  # one thread at a time: files that one has taken, another would miss
            if look_again:
                self._open_again()
            if not self._written:
                return
            waiting, self._written = self._written, {}
            there = {path for path in waiting if os.path.isfile(path)}  # noqa: PTH113 - of strings
            are_open = open_files()  # in this order: one made in between would seem to be closed
            found = []
            for path, opening in waiting.items():
                if path in self._forgotten:
                    continue
                if path not in there:
                    # The audit event comes before the opening. Else it is gone, or a pipe.
                    if not opening.is_over:
                        self._kept_open[path] = opening
                elif path in are_open and not (at_end and is_text(Path(path))):
                    self._kept_open[path] = opening
                else:
                    self._looked_at[path] = opening, _state_of(path)
                    found.append(opening)
        yield from found

    def _open_again(self) -> None:
        """Look again at files that were open, or that have changed since the last look.

        The audit event comes before the opening: a file that seemed to be closed may not have
        been opened yet.
        """
        changed: dict[str, Opening] = {}
        for path, (opening, before) in list(self._looked_at.items()):
            if (now := _state_of(path)) != before:
                del self._looked_at[path]
                changed |= {} if now is None else {path: opening}
            elif opening.is_over:  # it was opened before that look, and is not written any more
                del self._looked_at[path]
        self._written = {**changed, **self._kept_open, **self._written}
        self._kept_open = {}

    def operations(self) -> list[Operation]:
        """Return what was done to names since the last call, in its order."""
        found, self._done = self._done, []
        return found

    def quietly(self) -> AbstractContextManager[None]:
        """Return a context in which this thread's files are not watched here."""
        return _Quiet(self._within)

    # -- the audit hook ------------------------------------------------------------------------

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        # By thread: chaos opens files in the job's own threads, within this hook and within saves,
        # while other threads of the job open theirs.
        if not self.is_here():
            return
        with self.quietly():
            try:
                if event in self._acts:
                    self._acts[event](*arguments)
            except InjectedError:
                raise  # an injected error is meant for the job
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the job's call
                self._failed("files", error)

    def _opens(self, path: Any, _: Any, flags: int) -> None:  # of an event
        if isinstance(path, int):
            return
        if not flags & _WRITES:
            if self.is_reading and os.path.isfile(path):  # noqa: PTH113 - may be anything
                self._is_read(Path(absolute(path)))
            return
        target = absolute(path)
        if self._is_the_jobs(target):
            self._forgotten.discard(target)
            self._something.set()
            appends = bool(flags & os.O_APPEND)
            thread, code = threading.get_ident(), running_line()
            opening = Opening(target, self._place(), appends, thread, code=code)
            if flags & os.O_TRUNC:
                self.operates(Operation("opening", target, opening.place))
            with self._turn:
                self._written[target] = opening

    def _renames(self, source: Any, to: Any, *_: int) -> None:
        path, target = absolute(source), absolute(to)
        if self._is_the_jobs(path):
            with self._turn:
                self._open_again()
            self._look()  # the file is complete now, and a fault may follow at once
            self.operates(Operation("renaming", path, self._place(), target))
            self.moved(path, target)
            for name in [name for name in self._kept_open if is_below(name, path)]:
                was = self._kept_open.pop(name)
                moved = target + name.removeprefix(path)
                self._kept_open[moved] = replace(was, path=moved)

    def _links(self, to: Any, path: Any, *_: int) -> None:
        link = absolute(path)
        if self._is_the_jobs(link):
            self._look()  # what it leads to may be complete now, and a fault may follow at once
            self.operates(Operation("linking", link, self._place(), os.fsdecode(to)))

    def _makes(self, folder: Any, _: int, *dir_fd: int) -> None:
        path = absolute(folder, *dir_fd)
        if self._is_the_jobs(path) and not os.path.lexists(path):
            self.operates(Operation("making", path, self._place()))

    def _removes(self, event: str, path: str) -> None:
        if self._is_the_jobs(path):
            self.operates(Operation("removing", path, self._place()))
            if event == "os.remove":
                self.moved(path, None)

    def operates(self, operation: Operation) -> None:
        """Stop at an op before an operation, and remember it."""
        self._before(operation)
        self._done.append(operation)

    def is_here(self) -> bool:
        """Return whether what this thread does is the job's, in the process that is watched."""
        return os.getpid() == self._pid and not getattr(self._within, "is_ours", False)

    def _is_the_jobs(self, path: str) -> bool:
        if path.startswith(("/dev/", "/proc/", "/sys/")) or is_spared(path):
            return False
        if not is_below(path, self._run):
            return True
        inside = path[len(self._run) :].lstrip("/").split("/")
        return inside[0] in _OF_A_RUN and inside[-1] not in _OF_CHAOS


class _Quiet(AbstractContextManager[None]):
    def __init__(self, within: threading.local) -> None:
        self._within = within

    def __enter__(self) -> None:
        self._before = getattr(self._within, "is_ours", False)
        self._within.is_ours = True

    def __exit__(self, *_: object) -> None:
        self._within.is_ours = self._before


def _state_of(path: str) -> _State:
    try:
        found = os.stat(path)  # noqa: PTH116 - the path is a string
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def made(path: str) -> Iterator[None]:
    """Make a folder, which the job's own call is to make once this is over."""
    with contextlib.suppress(OSError):
        os.mkdir(path)  # noqa: PTH102 - of a string
    yield
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106


@contextlib.contextmanager
def emptied(path: str) -> Iterator[None]:
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
