"""Functions of libraries that write a file in native code, which makes no audit event."""

import functools
import importlib.abc
import importlib.machinery
import operator
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

Tell: TypeAlias = Callable[[Any], None]


class Writer(NamedTuple):
    """A function, dotted below its module, and its argument that is the file's path."""

    function: str
    place: int
    argument: str


# Read in torch 2.13, safetensors 0.6, xgboost 3.1 and lightgbm 4.6. torch.save with a path opens
# its file in C++, always through this class.
NATIVE = {
    "torch.serialization": Writer("_open_zipfile_writer_file.__init__", 1, "name"),
    "safetensors.torch": Writer("serialize_file", 1, "filename"),
    "safetensors.numpy": Writer("serialize_file", 1, "filename"),
    "xgboost.core": Writer("Booster.save_model", 1, "fname"),
    "lightgbm.basic": Writer("Booster.save_model", 1, "filename"),
}


def wrap_native(tell: Tell) -> None:
    """Call `tell` with the path before each of these writes, also of modules imported later."""
    for name in NATIVE:
        if (module := sys.modules.get(name)) is not None:
            _wrap(module, tell)
    sys.meta_path.insert(0, _Finder(tell))


class _Finder(importlib.abc.MetaPathFinder):
    """A finder of the modules of `NATIVE`, which wraps them once they are executed."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec, whose loader also wraps the module."""
        if name not in NATIVE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _wrap(module, self._tell)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wrap(module: ModuleType, tell: Tell) -> None:
    """Wrap a module's function, if it has the one in `NATIVE`."""
    writer = NATIVE[module.__name__]
    holder, _, name = writer.function.rpartition(".")
    try:
        owner = operator.attrgetter(holder)(module) if holder else module
        original = getattr(owner, name)
    except AttributeError:  # another version
        return

    @functools.wraps(original)
    def told(*args: Any, **kwargs: Any) -> Any:
        tell(args[writer.place] if len(args) > writer.place else kwargs.get(writer.argument))
        return original(*args, **kwargs)

    setattr(owner, name, told)
