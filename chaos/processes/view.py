"""A view: folders of this machine as one lane sees them, and no other lane or program does.

In a mount namespace of its own each folder is overlaid (overlayfs): what was there before is seen,
and what is written goes to memory (tmpfs) and with the view. A process of its own holds the
view open; others `enter_view` it, with all that they start, and `HeldView.call` calls a
function in it. The kernel ends a view with its last process, so that nothing is left of one, even
after SIGKILL.

Who may mount needs no more than a mount namespace; who may not gets one in a user namespace, with
the ids that it has (Linux 5.11 for overlayfs there). Many containers allow neither.
"""

import ctypes
import errno
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from chaos.errors import HarnessError, NoViewError
from chaos.model.paths import is_in_folder
from chaos.processes.wire import Wire

P = ParamSpec("P")
R = TypeVar("R")

# Of Linux's sched.h and mount.h.
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_BIND, _REC, _PRIVATE = 1 << 12, 1 << 14, 1 << 18
_CAPABILITIES_3 = 0x20080522
END_S = 5.0


@dataclass(frozen=True)
class ViewFolders:
    """The folders of a view: those overlaid, and what below them stays as it is."""

    folders: tuple[str, ...]
    untouched_paths: tuple[str, ...] = ()
    #: the bytes that may be written in it
    max_bytes: int = 2**20

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[str],
        *,
        created_paths: Collection[str],
        untouched_paths: Sequence[str],
        max_bytes: int,
    ) -> Self:
        """Return the sights of a job that writes these files, and has made `created_paths`.

        Overlaid is the nearest folder that was there before the job: others of its files may
        lie beside these, under names of which none was seen. Raises `NoViewError` if it is `/`.
        """
        folders = sorted({_find_nearest_folder(path, created_paths) for path in paths})
        if "/" in folders:
            raise NoViewError("it makes a folder in /, which cannot be overlaid")
        real_paths = [os.path.realpath(path) for path in untouched_paths]
        nested_paths = [
            path
            for path in [*real_paths, *_list_mounts()]
            if any(is_in_folder(path, f) for f in folders)
        ]
        nested_folders = dict.fromkeys(path for path in nested_paths if path not in folders)
        return cls(tuple(folders), tuple(nested_folders), max_bytes)

    def covers(self, path: str) -> bool:
        """Return whether what is written under a path is seen in the view alone."""
        covering_folders = [
            folder
            for folder in (*self.folders, *self.untouched_paths)
            if is_in_folder(path, folder)
        ]
        return max(covering_folders, key=len, default="") in self.folders


def _find_nearest_folder(path: str, created_paths: Collection[str]) -> str:
    """Return the nearest folder above a file that exists, and is none that the job has made."""
    parents = (str(folder) for folder in Path(path).parents)
    nearest = next(f for f in parents if f == "/" or (Path(f).is_dir() and f not in created_paths))
    return os.path.realpath(nearest)


def _list_mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    escaped = (line.split()[4] for line in lines)  # blanks are octal there
    return sorted({p.encode().decode("unicode_escape").encode("latin-1").decode() for p in escaped})


class HeldView:
    """A view, held open by a process of its own until `close`, or until this process ends.

    Raises `NoViewError`, with the reason, if the kernel gives none.
    """

    def __init__(self, folders: ViewFolders) -> None:
        self._folders = folders
        self._lock = threading.Lock()
        own_end, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[child_end.fileno()],
                start_new_session=True,  # Ctrl-C reaches the harness alone
            )
        self._wire = Wire(own_end)
        try:
            self.call(_make_view, folders)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process that holds it."""
        return self._process.pid

    def covers(self, path: str) -> bool:
        return self._folders.covers(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """Return what a function of a module's returns in the view; raises what it raises."""
        with self._lock:
            try:
                self._wire.send((function, arguments, keywords))
                error, answer = self._wire.receive()
            except (OSError, EOFError) as lost:
                raise HarnessError("the process that holds a lane's view is gone") from lost
        if error is not None:
            raise error
        result: R = answer
        return result

    def close(self) -> None:
        self._wire.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def find_view_obstacle() -> str | None:
    """Return why no view can be had on this machine; None if one was made, written in and ended."""
    if platform.system() != "Linux":
        return "it takes Linux"
    folder = tempfile.mkdtemp()
    try:
        with HeldView(ViewFolders((os.path.realpath(folder),))) as view:
            view.call(_touch, f"{folder}/file")
            return "what is written in it shows outside" if os.listdir(folder) else None  # noqa: PTH208
    except NoViewError as error:
        return str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def enter_view(holder: int) -> None:
    """Move this process, which has one thread, into the view that a process holds."""
    cwd = Path.cwd()
    if (user := _namespace(holder, "user")) is not None:
        _call_libc("setns", user, _NEW_USER)
    if (mounts := _namespace(holder, "mnt")) is not None:
        _call_libc("setns", mounts, _NEW_MOUNTS)
    os.chdir(cwd)  # by its name, and so to the folder as it is seen now
    if user is not None:
        _drop_capabilities()


def _namespace(holder: int, kind: str) -> int | None:
    """Return a descriptor of a process's namespace; None if it is this process's as well."""
    name = f"/proc/{holder}/ns/{kind}"
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    if os.path.samestat(os.fstat(fd), os.stat(f"/proc/self/ns/{kind}")):  # noqa: PTH116
        os.close(fd)
        return None
    return fd


# -- in the process that holds it ----------------------------------------------------------------


def main(fd: int) -> None:
    """Call functions until the harness is gone."""
    harness = Wire(socket.socket(fileno=fd))
    with suppress(EOFError):
        while True:
            function, arguments, keywords = harness.receive()
            try:
                answer: tuple[Exception | None, Any] = None, function(*arguments, **keywords)
            except Exception as error:  # noqa: BLE001 - the caller's, whatever it is
                answer = error, None
            harness.send(answer)


def _make_view(folders: ViewFolders) -> None:
    try:
        is_user = _leave_namespace()
        _overlay_folders(folders, is_user=is_user)
        for folder in folders.folders:
            # A folder of another user's cannot be written below an overlaid one, in which this
            # user's ids are the only ones.
            _touch(f"{folder}/.chaos-{os.getpid()}")
            Path(f"{folder}/.chaos-{os.getpid()}").unlink()
    except OSError as error:
        path_text = f" ({error.filename})" if error.filename else ""
        if error.errno == errno.ENOSPC and error.filename == "unshare":
            path_text = " (unshare: user.max_user_namespaces)"
        raise NoViewError(f"the kernel refuses it: {error.strerror}{path_text}") from None
    if is_user:
        _drop_capabilities()


def _leave_namespace() -> bool:
    """Leave the namespace of mounts; return whether that took a user namespace."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call_libc("unshare", _NEW_MOUNTS)
        is_user = False
    except PermissionError:
        _call_libc("unshare", _NEW_MOUNTS | _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
        is_user = True
    _mount(None, "/", None, _REC | _PRIVATE)  # or what follows would be seen outside
    return is_user


def _overlay_folders(folders: ViewFolders, *, is_user: bool) -> None:
    """Overlay the folders, and put back what below them stays as it is."""
    # Descriptors name what is under a mount point before something is mounted there, and need no
    # escapes in the options of a mount.
    fds = {path: _open_path(path) for path in (*folders.folders, *folders.untouched_paths)}
    first_folder = folders.folders[0]
    _mount("tmpfs", first_folder, "tmpfs", 0, f"mode=0700,size={folders.max_bytes}")
    tmpfs_fd = _open_path(first_folder)
    for number, path in enumerate(sorted(fds)):
        if path in folders.untouched_paths:
            _mount(f"/proc/self/fd/{fds[path]}", path, None, _BIND | _REC)
            continue
        folder_stat = os.fstat(fds[path])
        upper, work = (
            f"/proc/self/fd/{tmpfs_fd}/{number}",
            f"/proc/self/fd/{tmpfs_fd}/{number}.work",
        )
        os.mkdir(upper)  # noqa: PTH102 - of a descriptor
        os.mkdir(work)  # noqa: PTH102
        os.chmod(upper, folder_stat.st_mode & 0o7777)  # noqa: PTH101 - the overlaid folder shows these
        # Who is no root may set no attributes but a user's (Linux 6.6 for those of tmpfs).
        attribute_option = ",userxattr" if is_user else ""
        options = (
            f"lowerdir=/proc/self/fd/{fds[path]},upperdir={upper},workdir={work}{attribute_option}"
        )
        try:
            _mount("overlay", path, "overlay", 0, options)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
    for fd in (*fds.values(), tmpfs_fd):
        os.close(fd)


def _open_path(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


# -- calls of the kernel that Python 3.11 does not have -----------------------------------------


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _call_libc("mount", *texts, flags, None if options is None else os.fsencode(options))


class _ViewData(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def _drop_capabilities() -> None:
    """Be an ordinary user again: a new user namespace gives all capabilities within it."""
    head = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    _call_libc("capset", head, (_ViewData * 2)())


def _call_libc(name: str, *arguments: Any) -> None:  # those of the function
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


if __name__ == "__main__":
    main(int(sys.argv[1]))
