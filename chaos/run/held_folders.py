"""Folders in /tmp that are removed once the processes that use them have ended, even by SIGKILL.

A process that uses such a folder holds it: it has a shared lock (flock) on the folder
itself, which the kernel releases when the process ends. A pid in a file would be less
reliable: pids are used again, and mean other processes in another container.

    /tmp/chaos-ray-k3x0a1bc.held          `make`: the name is random
    /tmp/chaos-run-0a1b2c3d-4e5f6071.held `build_path`: several processes use the name

A folder that no process holds is removed, and processes whose environment names it or
that write files in it are ended: by `sweep` when the next harness starts, or at once by
a process that `start_attendant` has started, which only waits for the lock.
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

TMP = Path("/tmp")  # noqa: S108 - never TMPDIR: the sweeping process may have another one
SUFFIX = ".held"
HELD_ENV = "CHAOS_HELD"  # in the environment of a process that ends with a folder: its path
ROUNDS, ROUND_S = 100, 0.05

_locks: dict[Path, int] = {}  # the locks of this process
_attendants: "dict[Path, subprocess.Popen[bytes]]" = {}


def make(prefix: str) -> Path:
    """Return a new folder that this process holds; `prefix` begins with `chaos-`."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=SUFFIX, dir=TMP))
    hold(folder)
    return folder


def build_path(name: str) -> Path:
    """Return the path of a folder by its name, which begins with `chaos-`."""
    return TMP / f"{name}{SUFFIX}"


def hold(folder: Path) -> None:
    """Hold a folder until this process ends or removes it; make it if it is not there.

    Any user may make a folder in /tmp. So an existing one is held only if it is this user's,
    and its permissions for others are removed. Raises HarnessError for another user's folder.
    """
    # Between `mkdir` and the lock another process may remove the folder: then the loop makes a
    # new one. `_is_current` compares inodes, since a lock on a removed folder holds nothing.
    while folder not in _locks:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # it has just been swept
            lock = _open(folder)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if _is_current(lock, folder):
                _restrict_to_user(lock, folder)
                _locks[folder] = lock
            else:
                os.close(lock)


def start_attendant(folder: Path) -> None:
    """Start a process that removes a folder once no process holds it, even after SIGKILL."""
    module = "chaos.run.held_folders"
    _attendants[folder] = subprocess.Popen(
        [sys.executable, "-m", module, str(folder)],
        env={name: value for name, value in os.environ.items() if name != HELD_ENV},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal to this session or group does not end it
    )


@contextlib.contextmanager
def bind_processes(folder: Path) -> Iterator[None]:
    """Bind the processes started in this context, and their children, to the life of a folder."""
    # In the environment only while the processes are started: within pytest others start processes
    # while a cluster is kept, and those would be ended with it.
    earlier_value = os.environ.get(HELD_ENV)
    os.environ[HELD_ENV] = str(folder)
    try:
        yield
    finally:
        del os.environ[HELD_ENV]
        if earlier_value is not None:
            os.environ[HELD_ENV] = earlier_value


def remove(folder: Path, *, with_writers: bool = False) -> None:
    """End the processes that belong to a folder, remove it, and release it.

    `with_writers`: those as well that write files in it, whatever their environment says.
    """
    # The process that attends is ended before the lock is released, which it waits for.
    _remove_folder(folder, with_writers=with_writers)
    attendant = _attendants.pop(folder, None)
    if attendant is not None:
        attendant.kill()
        attendant.wait()
    release(folder)


def release(folder: Path) -> None:
    """Remove a folder that no process belongs to, and release it."""
    lock = _locks.pop(folder, None)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep() -> None:
    """Remove all folders of this user that no process holds."""
    for folder in TMP.glob(f"chaos-*{SUFFIX}"):
        _clear_folder(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _clear_folder(folder: Path, lock_mode: int) -> None:
    with contextlib.suppress(OSError):  # held (BlockingIOError), gone, or not readable
        lock = _open(folder)
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, lock_mode)
                if _is_current(lock, folder):
                    _remove_folder(folder, with_writers=True)
        finally:
            os.close(lock)


def _remove_folder(folder: Path, *, with_writers: bool) -> None:
    """End the processes of a folder, in rounds, since some may start others; then remove it."""
    for _ in range(ROUNDS):
        processes = _find_processes(folder, with_writers=with_writers)
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not processes:
            break
        SystemClock().sleep(ROUND_S)
    shutil.rmtree(folder, ignore_errors=True)


def _find_processes(folder: Path, *, with_writers: bool) -> list[psutil.Process]:
    """Return the processes whose environment names a folder, and all below them.

    Ray's workers write their titles over their environment. While their raylet lives, they are
    found below it. If it died first, and the holders of the folder are dead as well, they are
    found by the raylet's log, which they have open (Ray 2.60): a worker that is starting on a
    busy machine takes more than 20 s to notice by itself that its raylet is gone. The steps of
    Slurm's jobs (22.05) write titles, too, and outlive their daemons.
    """
    own_process = psutil.Process()
    own_processes, processes = {own_process, *own_process.parents()}, set[psutil.Process]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # it ends, or is another user's
            is_named = process.environ().get(HELD_ENV) == str(folder)
            if process not in own_processes and (
                is_named or (with_writers and _is_writer(folder, process))
            ):
                processes |= {process, *process.children(recursive=True)}
    return list(processes - own_processes)


def _is_writer(folder: Path, process: psutil.Process) -> bool:
    return any(
        Path(file.path).is_relative_to(folder) and file.mode != "r" for file in process.open_files()
    )


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _restrict_to_user(lock: int, folder: Path) -> None:
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        raise HarnessError(f"{folder} is another user's: remove it, or have them remove it")
    os.fchmod(lock, 0o700)


def _is_current(lock: int, folder: Path) -> bool:
    """Return whether an opened folder is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(lock), folder.stat())
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    _clear_folder(Path(sys.argv[1]), fcntl.LOCK_EX)
