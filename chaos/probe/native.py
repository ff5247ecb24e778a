"""Functions of libraries that write a file in native code, which makes no audit event."""

import functools
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from chaos.probe.imported import once_imported

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
    once_imported(NATIVE, lambda module: _wrap(module, tell))


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
