"""The libraries of a job, imported ahead in the process that its workers are forked from.

A worker runs its script from the first line, at every start: what the script does, reads and
decides before it joins its group it does anew. Only the imports of installed libraries, which take
seconds, are shared, as that of torch is:

    first run     each worker notes what it imports until it joins its group (`ImportRecorder`)
    harness       what all ranks import alike, in the same state, is agreed on
                  (`find_shared_imports`)
    later runs    are forked from a root that has imported it (`import_shared`)

An import is shared only if it leaves modules, and nothing else that a fresh process would not have
in the same way. The first that does more ends the list, since the later ones may rest on it: the
root begins anew without it (`restart_root`). A worker then imports the rest itself, in its own
order.
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
IMPORT_RECORDS_FOLDER = "imports"  # of a run, until it is read
# With fewer modules a root of its own costs more than it saves: those of torch are in every root.
LEAST = 100

_STDLIB = sysconfig.get_paths()["stdlib"]
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_Env: TypeAlias = Mapping[str, str]


class RecordedImport(NamedTuple):
    """A module of a library, and the state of the process as its import began."""

    name: str
    origin: str
    #: the variables that the script had set by then, or taken away (None)
    env: tuple[tuple[str, str | None], ...]
    path: tuple[str, ...]


class SharedImports(NamedTuple):
    """The libraries that a job imports first, in their order."""

    imports: tuple[RecordedImport, ...] = ()
    #: the variables in which one worker's environment differs from another's, or from the root's
    varying: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return a text short enough for a variable: most imports begin in one and the same state.

        A variable has at most 128 KiB (Linux).
        """
        states = list(dict.fromkeys((library.env, library.path) for library in self.imports))
        rows = [
            (library.name, library.origin, states.index((library.env, library.path)))
            for library in self.imports
        ]
        text = json.dumps((rows, states, self.varying, self.words))
        return base64.b85encode(zlib.compress(text.encode())).decode()

    @classmethod
    def from_text(cls, text: str) -> "SharedImports":
        rows, states, varying, words = json.loads(zlib.decompress(base64.b85decode(text)))
        parsed_states = [(tuple((k, v) for k, v in env), tuple(path)) for env, path in states]
        imports = tuple(
            RecordedImport(name, origin, *parsed_states[index]) for name, origin, index in rows
        )
        return cls(imports, tuple(varying), tuple(words))


def find_origin(module: ModuleType | None) -> str | None:
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


def record_root_env() -> SharedImports:
    """Note, in a root, the environment that it imports in; return what it is to import."""
    global _root_env, _has_all  # noqa: PLW0603 - of the process, as `os.environ` is
    _has_all = AHEAD_ENV in os.environ
    text = os.environ.pop(AHEAD_ENV, None)
    _root_env = dict(os.environ)
    return SharedImports() if text is None else SharedImports.from_text(text)


def should_record_imports() -> bool:
    """Return whether this worker, forked from a root, is to note its imports for later ones."""
    return _root_env is not None and not _has_all


class ImportRecorder(importlib.abc.MetaPathFinder):
    """A finder that finds nothing: it notes which modules are imported, in order, and when."""

    def __init__(self) -> None:
        self._env = dict(os.environ)
        self._path, self._cwd = tuple(sys.path), str(Path.cwd())
        self._initial_globals = {name: dict(vars(module)) for name, module in _list_modules()}
        self._states: dict[str, tuple[tuple[tuple[str, str | None], ...], tuple[str, ...]]] = {}
        self._is_elsewhere = False
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Note the state in which an import begins."""
        del path, target
        self._is_elsewhere |= str(Path.cwd()) != self._cwd
        self._states.pop(name, None)  # it was asked for before, and not imported
        if not self._is_elsewhere:
            current_env = dict(os.environ)
            changes = {} if current_env == self._env else _compare_envs(self._env, current_env)
            self._states[name] = (tuple(sorted(changes.items())), tuple(sys.path))
        return None

    def write(self, folder: Path, rank: int) -> None:
        """Write down what is a library's, once, as the script joins its group."""
        sys.meta_path.remove(self)
        imports = [] if self._is_patched() else [*self._libraries()]
        root_env = _root_env or {}
        varying = sorted(_compare_envs(root_env, self._env))
        folder.mkdir(exist_ok=True)
        file = folder / f"{rank}.json"
        partial_file = file.with_suffix(".part")
        partial_file.write_text(
            SharedImports(tuple(imports), tuple(varying), tuple(sys.argv)).to_text()
        )
        partial_file.replace(file)

    def _libraries(self) -> Iterator[RecordedImport]:
        for name, (env, path) in self._states.items():
            origin = find_origin(sys.modules.get(name))
            if origin is not None and is_library(origin):
                yield RecordedImport(name, origin, env, path)

    def _is_patched(self) -> bool:
        """Return whether the job has changed what libraries find as they are imported."""
        # The order of imports and changes is not known, so none is shared.
        import torch

        if torch.get_default_dtype() != torch.float32 or torch.get_default_device().type != "cpu":
            return True
        if any(action == "error" for action, *_ in warnings.filters):
            return True
        return self._is_stubbed() or any(self._is_changed(*entry) for entry in _list_modules())

    def _is_stubbed(self) -> bool:
        """Return whether a module was put into `sys.modules` by hand, or kept out of it so."""
        # Native code makes modules of its own so, such as Cython's `_cython_3_1_4`, and libraries
        # put submodules there.
        all_modules: dict[str, object] = {**sys.modules}
        new_names = (
            all_modules.keys() - self._initial_globals.keys() - self._states.keys() - {"__main__"}
        )
        return any(
            all_modules[name] is None or getattr(all_modules[name], "__spec__", None) is None
            for name in new_names
            if not name.startswith("_") and "." not in name
        )

    def _is_changed(self, name: str, module: ModuleType) -> bool:
        """Return whether a global of a library is the job's."""
        if not is_library(find_origin(module) or ""):
            return False
        initial_globals = self._initial_globals.get(name, {})
        return any(
            _is_replaced(initial_globals[key], value)
            if key in initial_globals
            else _is_of_the_job(value)
            for key, value in [*vars(module).items()]
        )


def _list_modules() -> list[tuple[str, ModuleType]]:
    # Any object may stand there, though typing says a module does.
    entries: list[tuple[str, object]] = [*sys.modules.items()]
    return [(name, module) for name, module in entries if isinstance(module, ModuleType)]


_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict, set, frozenset, ModuleType)


_CHAOS_FOLDER = str(Path(__file__).parents[2])


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
        file = find_origin(sys.modules.get(value.__module__)) or "<unknown>"
    else:
        return False
    return not (file.startswith(("<", _CHAOS_FOLDER)) or is_library(file))


def _compare_envs(earlier_env: _Env, later_env: _Env) -> dict[str, str | None]:
    names = earlier_env.keys() | later_env.keys()
    return {
        name: later_env.get(name) for name in names if earlier_env.get(name) != later_env.get(name)
    }


# -- in the harness -----------------------------------------------------------------------------


def find_shared_imports(folder: Path, ranks: int) -> SharedImports | None:
    """Return what all ranks import alike, from their beginning on; None if one wrote nothing.

    The folder is removed then. A script that sizes itself may have more ranks than its plan says.
    """
    files = sorted(folder.glob("*.json"))
    if len(files) < ranks:
        return None
    recordings = [SharedImports.from_text(file.read_text(encoding="utf-8")) for file in files]
    shutil.rmtree(folder)
    shared = []
    for candidates in zip(*(recording.imports for recording in recordings), strict=False):
        if len(set(candidates)) > 1:
            break
        shared.append(candidates[0])
    if len(shared) < LEAST:
        return SharedImports()
    varying = {name for recording in recordings for name in recording.varying}
    return SharedImports(tuple(shared), tuple(sorted(varying)), recordings[0].words)


# -- in a root ----------------------------------------------------------------------------------


def import_shared(shared: SharedImports, fd: int) -> None:
    """Import libraries in a root, whose socket is `fd`; begin it anew without what none can share.

    What was imported cannot be taken back.
    """
    if (refusal := find_unshared_import(shared)) is not None:
        restart_root(shared, *refusal, fd)


def find_unshared_import(shared: SharedImports) -> tuple[int, str] | None:
    """Import libraries one after the other; return the first not to be shared, and the reason."""
    replaced = replaced_functions()
    for index, library in enumerate(shared.imports):
        if library.name in sys.modules:
            continue
        initial_state, initial_modules = ProcessState.capture(), set(sys.modules)
        with _imitate_worker(library, shared) as effects:
            try:
                importlib.import_module(library.name)
            except BaseException as error:  # noqa: BLE001 - whatever a library raises
                return index, f"it raises {type(error).__name__}"
        new_modules = [sys.modules[name] for name in sys.modules if name not in initial_modules]
        reason = (
            next(iter(effects), None)
            or initial_state.describe_change(ProcessState.capture())
            or _describe_conflict(new_modules, replaced)
        )
        if reason is None and find_origin(sys.modules.get(library.name)) != library.origin:
            reason = "another file is found"
        if reason is not None:
            return index, reason
    return None


def restart_root(shared: SharedImports, index: int, reason: str, fd: int) -> None:
    """Start this root again, by the same interpreter and pid, without imports from `index` on."""
    name = shared.imports[index].name
    os.write(2, f"chaos: {name} and later imports are left to each worker: {reason}\n".encode())
    os.set_inheritable(fd, True)
    remaining = shared._replace(imports=shared.imports[:index])
    assert _root_env is not None
    os.execve(sys.executable, sys.orig_argv, {**_root_env, AHEAD_ENV: remaining.to_text()})  # noqa: S606


def replaced_functions() -> dict[int, str]:
    """Return the functions that a probe replaces in their modules, by id.

    A library that was imported before has the original, if it has taken the function by its name.
    """
    import pickle

    import torch
    import torch.distributed as dist

    functions = {
        "torch.save": torch.save,
        "torch.load": torch.load,
        "pickle.dump": pickle.dump,
        "torch.distributed.init_process_group": dist.init_process_group,
        **{f"os.{name}": getattr(os, name) for name in ("fsync", "fdatasync", "sync")},
    }
    return {id(function): name for name, function in functions.items()}


def _describe_conflict(new: Sequence[ModuleType], replaced: Mapping[int, str]) -> str | None:
    for module in new:
        origin = find_origin(module)
        if origin is not None and not is_library(origin):
            return f"it imports {origin}, which is the job's"
        for value in list(getattr(module, "__dict__", {}).values()):
            if (name := replaced.get(id(value))) is not None:
                return f"{module.__name__} takes {name} by its name"
    return None


class ProcessState(NamedTuple):
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
    def capture(cls) -> "ProcessState":
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

    def describe_change(self, later_state: "ProcessState") -> str | None:
        """Return what differs, in words; None if nothing does."""
        pairs = zip(self._fields, self, later_state, strict=True)
        changed_names = (name for name, old, new in pairs if old != new)
        return next((f"it changes {name.replace('_', ' ')}" for name in changed_names), None)


def _open_files() -> tuple[tuple[str, str], ...]:
    links = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            links.append((link.name, str(link.readlink())))
    return tuple(sorted(links))


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EFFECTS = {
    *("socket.connect", "socket.bind", "subprocess.Popen", "os.posix_spawn", "os.system"),
    *("os.fork", "os.exec", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink"),
    *("os.link", "sqlite3.connect"),
}
_report_effect: Callable[[str], None] | None = None  # while a library is imported ahead
_listens = False


def _audit_event(event: str, args: tuple[Any, ...]) -> None:
    if _report_effect is None:
        return
    # A descriptor is of a file whose own opening was seen: of bytecode, say, which is left out.
    is_path = event == "open" and not isinstance(args[0], int)
    is_write = is_path and isinstance(args[2], int) and args[2] & _WRITES
    # To ask whether there is IPv6 (urllib3). No port is taken from anybody, and a socket that is
    # left is an open file.
    is_probe = event == "socket.bind" and args[1][1:2] == (0,)
    if (
        (event in _EFFECTS or is_write)
        and not is_probe
        and "__pycache__" not in str(args)
        and args[0] != os.devnull
    ):
        _report_effect(f"it does {event} {args[0]}"[:200])


@contextmanager
def _imitate_worker(library: RecordedImport, shared: SharedImports) -> Iterator[list[str]]:
    """Import as the script's worker did; yield what the import does that is not to be shared."""
    effects: list[str] = []
    env, path, argv = dict(os.environ), [*sys.path], sys.argv
    _set_variables(dict(library.env))
    worker_env = dict(os.environ)
    sys.path[:], sys.argv = library.path, [*shared.words]
    try:
        with _watch_effects(effects.append), _watch_reads(effects.append, {*shared.varying}):
            yield effects
    finally:
        if dict(os.environ) != worker_env or tuple(sys.path) != library.path:
            effects.append("it changes environment")
        _set_variables(_compare_envs(os.environ, env))
        sys.path[:], sys.argv = path, argv
        for folder in {*library.path} - {*path}:
            sys.path_importer_cache.pop(folder, None)  # files may come there until a worker looks


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _watch_effects(report: Callable[[str], None]) -> Iterator[None]:
    """Call `report` with what this process does to others and to files."""
    global _report_effect, _listens  # noqa: PLW0603 - a hook cannot be taken away
    if not _listens:
        sys.addaudithook(_audit_event)
    _listens, _report_effect = True, report
    try:
        yield
    finally:
        _report_effect = None


@contextmanager
def _watch_reads(report: Callable[[str], None], varying: Collection[str]) -> Iterator[None]:
    """Call `report` if one of these variables is read, or all variables are."""
    env_class = type(os.environ)
    original_getitem, original_iter = env_class.__getitem__, env_class.__iter__

    def get_variable(self: Any, name: Any) -> Any:
        if name in varying:
            report(f"it reads {name}, which is not the same in all workers")
        return original_getitem(self, name)

    def iterate_variables(self: Any) -> Iterator[Any]:
        report("it reads all variables, and some are not the same in all workers")
        return original_iter(self)

    env_class.__getitem__, env_class.__iter__ = get_variable, iterate_variables  # type: ignore[method-assign]
    try:
        yield
    finally:
        env_class.__getitem__, env_class.__iter__ = original_getitem, original_iter  # type: ignore[method-assign]
