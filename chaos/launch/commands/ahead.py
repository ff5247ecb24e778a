"""The libraries of a job, imported ahead in the process that its workers are forked from.

A worker runs its script from the first line, at every start: what the script does, reads and
decides before it joins its group it does anew. Only the imports of installed libraries, which take
seconds, are shared, as that of torch is:

    first run     each worker notes what it imports until it joins its group (`Imports`)
    harness       what all ranks import alike, in the same state, is agreed on (`agreed`)
    later runs    are forked from a root that has imported it (`import_ahead`)

An import is shared only if it leaves modules, and nothing else that a fresh process would not have
in the same way. The first that does more ends the list, since the later ones may rest on it: the
root begins anew without it (`begin_anew`). A worker then imports the rest itself, in its own order.
"""

import base64
import builtins
import functools
import importlib
import importlib.abc
import json
import logging
import os
import random
import shutil
import signal
import sys
import sysconfig
import tempfile
import threading
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

AHEAD_ENV = "CHAOS_AHEAD"  # of a root: what it imports; no process of a job sees it
FOLDER = "imports"  # of a run, until it is read
# With fewer modules a root of its own costs more than it saves: those of torch are in every root.
LEAST = 100

_STDLIB = sysconfig.get_paths()["stdlib"]
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_Env: TypeAlias = Mapping[str, str]


class Import(NamedTuple):
    """A module of a library, and the state of the process as its import began."""

    name: str
    origin: str
    #: the variables that the script had set by then, or taken away (None)
    env: tuple[tuple[str, str | None], ...]
    path: tuple[str, ...]


class Ahead(NamedTuple):
    """The libraries that a job imports first, in their order."""

    imports: tuple[Import, ...] = ()
    #: the variables in which one worker's environment differs from another's, or from the root's
    varying: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def dumped(self) -> str:
        """Return a text short enough for a variable: most imports begin in one and the same state.

        A variable has at most 128 KiB (Linux).
        """
        states = list(dict.fromkeys((one.env, one.path) for one in self.imports))
        rows = [(one.name, one.origin, states.index((one.env, one.path))) for one in self.imports]
        text = json.dumps((rows, states, self.varying, self.words))
        return base64.b85encode(zlib.compress(text.encode())).decode()

    @classmethod
    def loaded(cls, text: str) -> "Ahead":
        rows, states, varying, words = json.loads(zlib.decompress(base64.b85decode(text)))
        known = [(tuple((k, v) for k, v in env), tuple(path)) for env, path in states]
        found = tuple(Import(name, origin, *known[at]) for name, origin, at in rows)
        return cls(found, tuple(varying), tuple(words))


def origin_of(module: ModuleType | None) -> str | None:
    """Return the file of an imported module; None for one that was not imported from a file."""
    spec = getattr(module, "__spec__", None)
    origin = None if spec is None else spec.origin
    return origin if origin is not None and origin.startswith(os.sep) else None


def is_library(origin: str) -> bool:
    """Return whether a file is of an installed library or Python's own, and not of the job."""
    return origin.startswith(_STDLIB) or any(part in origin for part in _INSTALLED)


# -- in a worker of the first run ---------------------------------------------------------------

_root_env: dict[str, str] | None = None  # of the root, in all that is forked from it
_has_all = False  # whether the root has imported all that is known of its job


def forks_begin() -> Ahead:
    """Note, in a root, the environment that it imports in; return what it is to import."""
    global _root_env, _has_all  # noqa: PLW0603 - of the process, as `os.environ` is
    _has_all = AHEAD_ENV in os.environ
    text = os.environ.pop(AHEAD_ENV, None)
    _root_env = dict(os.environ)
    return Ahead() if text is None else Ahead.loaded(text)


def notes_imports() -> bool:
    """Return whether this worker, forked from a root, is to note its imports for later ones."""
    return _root_env is not None and not _has_all


class Imports(importlib.abc.MetaPathFinder):
    """A finder that finds nothing: it notes which modules are imported, in order, and when."""

    def __init__(self) -> None:
        self._env = dict(os.environ)
        self._path, self._cwd = tuple(sys.path), str(Path.cwd())
        self._known = {name: dict(vars(module)) for name, module in _modules()}
        self._noted: dict[str, tuple[tuple[tuple[str, str | None], ...], tuple[str, ...]]] = {}
        self._is_elsewhere = False
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Note the state in which an import begins."""
        del path, target
        self._is_elsewhere |= str(Path.cwd()) != self._cwd
        self._noted.pop(name, None)  # it was asked for before, and not imported
        if not self._is_elsewhere:
            now = dict(os.environ)
            changed = {} if now == self._env else _difference(self._env, now)
            self._noted[name] = (tuple(sorted(changed.items())), tuple(sys.path))
        return None

    def write(self, folder: Path, rank: int) -> None:
        """Write down what is a library's, once, as the script joins its group."""
        sys.meta_path.remove(self)
        imports = [] if self._is_patched() else [*self._libraries()]
        start = _root_env or {}
        varying = sorted(_difference(start, self._env))
        folder.mkdir(exist_ok=True)
        file = folder / f"{rank}.json"
        part = file.with_suffix(".part")
        part.write_text(Ahead(tuple(imports), tuple(varying), tuple(sys.argv)).dumped())
        part.replace(file)

    def _libraries(self) -> Iterator[Import]:
        for name, (env, path) in self._noted.items():
            origin = origin_of(sys.modules.get(name))
            if origin is not None and is_library(origin):
                yield Import(name, origin, env, path)

    def _is_patched(self) -> bool:
        """Return whether the job has changed what libraries find as they are imported."""
        # The order of imports and changes is not known, so none is shared.
        import torch

        if torch.get_default_dtype() != torch.float32 or torch.get_default_device().type != "cpu":
            return True
        if any(action == "error" for action, *_ in warnings.filters):
            return True
        return self._is_stubbed() or any(self._is_changed(*one) for one in _modules())

    def _is_stubbed(self) -> bool:
        """Return whether a module was put into `sys.modules` by hand, or kept out of it so."""
        # Native code makes modules of its own so, such as Cython's `_cython_3_1_4`, and libraries
        # put submodules there.
        every: dict[str, object] = {**sys.modules}
        new = every.keys() - self._known.keys() - self._noted.keys() - {"__main__"}
        return any(
            every[name] is None or getattr(every[name], "__spec__", None) is None
            for name in new
            if not name.startswith("_") and "." not in name
        )

    def _is_changed(self, name: str, module: ModuleType) -> bool:
        """Return whether a global of a library is the job's."""
        if not is_library(origin_of(module) or ""):
            return False
        before = self._known.get(name, {})
        return any(
            _is_replaced(before[key], value) if key in before else _is_of_the_job(value)
            for key, value in [*vars(module).items()]
        )


def _modules() -> list[tuple[str, ModuleType]]:
    # Any object may stand there, though typing says a module does.
    every: list[tuple[str, object]] = [*sys.modules.items()]
    return [(name, module) for name, module in every if isinstance(module, ModuleType)]


_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict, set, frozenset, ModuleType)


_OURS = str(Path(__file__).parents[2])


def _is_replaced(old: object, new: object) -> bool:
    """Return whether a library's global is no longer what it was, and not by a library."""
    if new is old or isinstance(new, _PLAIN):
        return False
    if isinstance(new, functools.partial) or _is_of_the_job(new):
        return True
    if isinstance(new, FunctionType):
        return False
    # Of an object no attribute is asked for: torch's lazy ones look for a GPU then.
    owner = new.__module__ if isinstance(new, BuiltinFunctionType | type) else type(new).__module__
    spec = getattr(sys.modules.get(owner), "__spec__", None)
    file = "" if spec is None else spec.origin or ""
    return file not in ("built-in", "frozen") and not is_library(file)


def _is_of_the_job(value: object) -> bool:
    """Return whether a function or a class was defined in a file of the job."""
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
    elif isinstance(value, type):
        if value.__module__ == "__main__":
            return True
        file = origin_of(sys.modules.get(value.__module__)) or "<unknown>"
    else:
        return False
    return not (file.startswith(("<", _OURS)) or is_library(file))


def _difference(before: _Env, now: _Env) -> dict[str, str | None]:
    names = before.keys() | now.keys()
    return {name: now.get(name) for name in names if before.get(name) != now.get(name)}


# -- in the harness -----------------------------------------------------------------------------


def agreed(folder: Path, ranks: int) -> Ahead | None:
    """Return what all ranks import alike, from their beginning on; None if one wrote nothing.

    The folder is removed then. A script that sizes itself may have more ranks than its plan says.
    """
    files = sorted(folder.glob("*.json"))
    if len(files) < ranks:
        return None
    each = [Ahead.loaded(file.read_text(encoding="utf-8")) for file in files]
    shutil.rmtree(folder)
    alike = []
    for found in zip(*(one.imports for one in each), strict=False):
        if len(set(found)) > 1:
            break
        alike.append(found[0])
    if len(alike) < LEAST:
        return Ahead()
    varying = {name for one in each for name in one.varying}
    return Ahead(tuple(alike), tuple(sorted(varying)), each[0].words)


# -- in a root ----------------------------------------------------------------------------------


def import_ahead(ahead: Ahead, fd: int) -> None:
    """Import libraries in a root, whose socket is `fd`; begin it anew without what none can share.

    What was imported cannot be taken back.
    """
    if (stop := first_unshared(ahead)) is not None:
        begin_anew(ahead, *stop, fd)


def first_unshared(ahead: Ahead) -> tuple[int, str] | None:
    """Import libraries one after the other; return the first not to be shared, and the reason."""
    replaced = replaced_functions()
    for at, wanted in enumerate(ahead.imports):
        if wanted.name in sys.modules:
            continue
        before, known = State.now(), set(sys.modules)
        with _as_in_a_worker(wanted, ahead) as touched:
            try:
                importlib.import_module(wanted.name)
            except BaseException as error:  # noqa: BLE001 - whatever a library raises
                return at, f"it raises {type(error).__name__}"
        new = [sys.modules[name] for name in sys.modules if name not in known]
        why = next(iter(touched), None) or before.changed(State.now()) or _taken(new, replaced)
        if why is None and origin_of(sys.modules.get(wanted.name)) != wanted.origin:
            why = "another file is found"
        if why is not None:
            return at, why
    return None


def begin_anew(ahead: Ahead, at: int, why: str, fd: int) -> None:
    """Start this root again, by the same interpreter and pid, without the imports from `at` on."""
    name = ahead.imports[at].name
    os.write(2, f"chaos: {name} and later imports are left to each worker: {why}\n".encode())
    os.set_inheritable(fd, True)
    rest = ahead._replace(imports=ahead.imports[:at])
    assert _root_env is not None
    os.execve(sys.executable, sys.orig_argv, {**_root_env, AHEAD_ENV: rest.dumped()})  # noqa: S606


def replaced_functions() -> dict[int, str]:
    """Return the functions that a probe replaces in their modules, by id.

    A library that was imported before has the original, if it has taken the function by its name.
    """
    import pickle

    import torch
    import torch.distributed as dist

    found = {
        "torch.save": torch.save,
        "torch.load": torch.load,
        "pickle.dump": pickle.dump,
        "torch.distributed.init_process_group": dist.init_process_group,
        **{f"os.{name}": getattr(os, name) for name in ("fsync", "fdatasync", "sync")},
    }
    return {id(function): name for name, function in found.items()}


def _taken(new: Sequence[ModuleType], replaced: Mapping[int, str]) -> str | None:
    for module in new:
        origin = origin_of(module)
        if origin is not None and not is_library(origin):
            return f"it imports {origin}, which is the job's"
        for value in list(getattr(module, "__dict__", {}).values()):
            if (name := replaced.get(id(value))) is not None:
                return f"{module.__name__} takes {name} by its name"
    return None


class State(NamedTuple):
    """Things that an import may leave in a process, which a fork would share or lose."""

    environment: object
    random_generators: object
    threads: object
    open_files: object
    signal_handlers: object
    log_handlers: object
    hooks: object
    default_type: object

    @classmethod
    def now(cls) -> "State":
        import numpy as np
        import torch

        numpy_state = np.random.get_state(legacy=True)  # noqa: NPY002
        return cls(
            environment=(dict(os.environ), tuple(sys.path), str(Path.cwd()), tempfile.tempdir),
            random_generators=(
                random.getstate(),
                (*(part.tobytes() if hasattr(part, "tobytes") else part for part in numpy_state),),
                torch.get_rng_state().numpy().tobytes(),
            ),
            threads=(len([*Path("/proc/self/task").iterdir()]), threading.active_count()),
            open_files=_open_files(),
            signal_handlers=tuple(signal.getsignal(s) for s in signal.valid_signals()),
            log_handlers=(tuple(logging.root.handlers), logging.root.level),
            hooks=(sys.excepthook, sys.stdout, sys.stderr, builtins.__import__, builtins.open),
            default_type=(torch.get_default_dtype(), str(torch.get_default_device())),
        )

    def changed(self, now: "State") -> str | None:
        """Return what differs, in words; None if nothing does."""
        pairs = zip(self._fields, self, now, strict=True)
        changed = (name for name, old, new in pairs if old != new)
        return next((f"it changes {name.replace('_', ' ')}" for name in changed), None)


def _open_files() -> tuple[tuple[str, str], ...]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            found.append((link.name, str(link.readlink())))
    return tuple(sorted(found))


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEEDS = {
    *("socket.connect", "socket.bind", "subprocess.Popen", "os.posix_spawn", "os.system"),
    *("os.fork", "os.exec", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink"),
    *("os.link", "sqlite3.connect"),
}
_told: Callable[[str], None] | None = None  # while a library is imported ahead
_listens = False


def _audited(event: str, args: tuple[Any, ...]) -> None:
    if _told is None:
        return
    # A descriptor is of a file whose own opening was seen: of bytecode, say, which is left out.
    is_path = event == "open" and not isinstance(args[0], int)
    is_write = is_path and isinstance(args[2], int) and args[2] & _WRITES
    # To ask whether there is IPv6 (urllib3). No port is taken from anybody, and a socket that is
    # left is an open file.
    is_probe = event == "socket.bind" and args[1][1:2] == (0,)
    if (
        (event in _DEEDS or is_write)
        and not is_probe
        and "__pycache__" not in str(args)
        and args[0] != os.devnull
    ):
        _told(f"it does {event} {args[0]}"[:200])


@contextmanager
def _as_in_a_worker(wanted: Import, ahead: Ahead) -> Iterator[list[str]]:
    """Import as the script's worker did; yield what the import does that is not to be shared."""
    touched: list[str] = []
    env, path, argv = dict(os.environ), [*sys.path], sys.argv
    _set_variables(dict(wanted.env))
    now = dict(os.environ)
    sys.path[:], sys.argv = wanted.path, [*ahead.words]
    try:
        with _listening(touched.append), _read_by(touched.append, {*ahead.varying}):
            yield touched
    finally:
        if dict(os.environ) != now or tuple(sys.path) != wanted.path:
            touched.append("it changes environment")
        _set_variables(_difference(os.environ, env))
        sys.path[:], sys.argv = path, argv
        for folder in {*wanted.path} - {*path}:
            sys.path_importer_cache.pop(folder, None)  # files may come there until a worker looks


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _listening(tell: Callable[[str], None]) -> Iterator[None]:
    """Call `tell` with what this process does to others and to files."""
    global _told, _listens  # noqa: PLW0603 - a hook cannot be taken away
    if not _listens:
        sys.addaudithook(_audited)
    _listens, _told = True, tell
    try:
        yield
    finally:
        _told = None


@contextmanager
def _read_by(tell: Callable[[str], None], varying: Collection[str]) -> Iterator[None]:
    """Call `tell` if one of these variables is read, or all variables are."""
    kind = type(os.environ)
    getitem, listed = kind.__getitem__, kind.__iter__

    def read(self: Any, name: Any) -> Any:
        if name in varying:
            tell(f"it reads {name}, which is not the same in all workers")
        return getitem(self, name)

    def listing(self: Any) -> Iterator[Any]:
        tell("it reads all variables, and some are not the same in all workers")
        return listed(self)

    kind.__getitem__, kind.__iter__ = read, listing  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.__getitem__, kind.__iter__ = getitem, listed  # type: ignore[method-assign]
