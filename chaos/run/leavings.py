"""Folders in /tmp that go with the processes that use them, whatever ends those.

Whoever uses such a folder holds it: a shared lock (flock) on the folder itself,
which the kernel takes back when the process ends. A pid in a file would say less:
pids come again, and name other processes in another container.

    /tmp/chaos-ray-k3x0a1bc.held          `make`: the name is random
    /tmp/chaos-run-0a1b2c3d-4e5f6071.held `named`: several processes know the name

A folder that nobody holds is removed, and processes whose environment names it or that
write files in it are ended: by `sweep` when the next harness starts, and at once where
a process `attend`s to it, which waits for the lock and nothing else.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from chaos.errors import HarnessError
from chaos.run.clock import SystemClock

TMP = Path("/tmp")  # noqa: S108 - never TMPDIR: whoever sweeps may have another one
SUFFIX = ".held"
HELD_ENV = "CHAOS_HELD"  # in the environment of what ends with a folder: the folder's path
ROUNDS, ROUND_S = 100, 0.05

_held: dict[Path, int] = {}  # the locks of this process
_attending: "dict[Path, subprocess.Popen[bytes]]" = {}


def make(prefix: str) -> Path:
    """Return a new folder that this process holds; `prefix` begins with `chaos-`."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=SUFFIX, dir=TMP))
    hold(folder)
    return folder


def named(name: str) -> Path:
    """Return where the folder of a name is; `name` begins with `chaos-`."""
    return TMP / f"{name}{SUFFIX}"


def hold(folder: Path) -> None:
    """Keep a folder until this process ends or removes it; make it where it is not there.

    A folder that is there already is held only where it is this user's: anybody may make one in
    /tmp. What it lets others do is taken from it.
    Raises HarnessError for another user's folder.
    """
    while folder not in _held:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # it has just been swept
            lock = _open(folder)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if _is_there(lock, folder):
                _keep_to_this_user(lock, folder)
                _held[folder] = lock
            else:
                os.close(lock)


def attend(folder: Path) -> None:
    """Start a process that clears a folder away once nobody holds it, even after SIGKILL."""
    module = "chaos.run.leavings"
    _attending[folder] = subprocess.Popen(
        [sys.executable, "-m", module, str(folder)],
        env={name: value for name, value in os.environ.items() if name != HELD_ENV},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends our session or group does not end it
    )


@contextlib.contextmanager
def belonging_to(folder: Path) -> Iterator[None]:
    """Have the processes that are started meanwhile, and theirs, end with a folder."""
    before = os.environ.get(HELD_ENV)
    os.environ[HELD_ENV] = str(folder)
    try:
        yield
    finally:
        del os.environ[HELD_ENV]
        if before is not None:
            os.environ[HELD_ENV] = before


def remove(folder: Path) -> None:
    """End what belongs to a folder, remove it, and hold it no longer."""
    _end(folder)
    attending = _attending.pop(folder, None)
    if attending is not None:
        attending.kill()
        attending.wait()
    drop(folder)


def drop(folder: Path) -> None:
    """Remove a folder that no process belongs to any more, and hold it no longer."""
    lock = _held.pop(folder, None)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep() -> None:
    """Clear away all folders of this user's that nobody holds."""
    for folder in TMP.glob(f"chaos-*{SUFFIX}"):
        _clear(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _clear(folder: Path, how: int) -> None:
    with contextlib.suppress(OSError):  # it is held (BlockingIOError), gone, or not ours to open
        lock = _open(folder)
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, how)
                if _is_there(lock, folder):
                    _end(folder, is_orphaned=True)
        finally:
            os.close(lock)


def _end(folder: Path, *, is_orphaned: bool = False) -> None:
    """End the processes of a folder, in rounds, for some may start others; then remove it."""
    for _ in range(ROUNDS):
        found = _processes_of(folder, is_orphaned=is_orphaned)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not found:
            break
        SystemClock().sleep(ROUND_S)
    shutil.rmtree(folder, ignore_errors=True)


def _processes_of(folder: Path, *, is_orphaned: bool) -> list[psutil.Process]:
    """Find what names a folder in its environment, and what is below that.

    Ray's workers write their titles over their environment. Where their raylet is still there
    they are below it. Where it died first, and whoever held the folder is dead as well, they are
    known by the raylet's log, which they have open (Ray 2.60): a worker that is starting on a
    busy machine takes more than 20 s to notice by itself that its raylet is gone.
    """
    this = psutil.Process()
    ours, found = {this, *this.parents()}, set[psutil.Process]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # it ends, or is another user's
            names = process.environ().get(HELD_ENV) == str(folder)
            if process not in ours and (names or (is_orphaned and _writes_in(folder, process))):
                found |= {process, *process.children(recursive=True)}
    return list(found - ours)


def _writes_in(folder: Path, process: psutil.Process) -> bool:
    return any(
        Path(file.path).is_relative_to(folder) and file.mode != "r" for file in process.open_files()
    )


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _keep_to_this_user(lock: int, folder: Path) -> None:
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        raise HarnessError(f"{folder} is another user's: remove it, or have them remove it")
    os.fchmod(lock, 0o700)


def _is_there(lock: int, folder: Path) -> bool:
    """Return whether a folder that was opened is still the one of that path."""
    try:
        return os.path.samestat(os.fstat(lock), folder.stat())
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    _clear(Path(sys.argv[1]), fcntl.LOCK_EX)
