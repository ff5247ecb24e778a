"""Functions of libraries that write a file in native code, which makes no audit event."""

import functools
import operator
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from chaos.probe.import_hooks import call_after_import

Tell: TypeAlias = Callable[[Any, int], None]  # with the flags that `open` would have
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
# h5py 3: the default is to read.
_BY_MODE = {"r": None, "r+": os.O_RDWR, "a": os.O_RDWR | os.O_CREAT}


class Writer(NamedTuple):
    """A function, dotted below its module, and its argument that is the file's path.

    If it has one that is the mode, that is the next.
    """

    function: str
    position: int
    keyword: str
    mode: str = ""


# Read in torch 2.13, safetensors 0.6, xgboost 3.1, lightgbm 4.6 and h5py 3.14. torch.save with a
# path opens its file in C++, always through this class.
NATIVE = {
    "torch.serialization": Writer("_open_zipfile_writer_file.__init__", 1, "name"),
    "safetensors.torch": Writer("serialize_file", 1, "filename"),
    "safetensors.numpy": Writer("serialize_file", 1, "filename"),
    "xgboost.core": Writer("Booster.save_model", 1, "fname"),
    "h5py._hl.files": Writer("File.__init__", 1, "name", mode="mode"),
    "lightgbm.basic": Writer("Booster.save_model", 1, "filename"),
}


def wrap_native(on_write: Tell) -> None:
    """Call `on_write` before each of these writes, also of modules imported later."""
    call_after_import(NATIVE, lambda module: _wrap(module, on_write))


def _wrap(module: ModuleType, on_write: Tell) -> None:
    """Wrap a module's function, if it has the one in `NATIVE`."""
    writer = NATIVE[module.__name__]
    holder, _, name = writer.function.rpartition(".")
    try:
        owner = operator.attrgetter(holder)(module) if holder else module
        original = getattr(owner, name)
    except AttributeError:  # another version
        return

    @functools.wraps(original)
    def write_file(*args: Any, **kwargs: Any) -> Any:
        path, mode = (
            args[position] if len(args) > position else kwargs.get(name)
            for position, name in (
                (writer.position, writer.keyword),
                (writer.position + 1, writer.mode),
            )
        )
        flags = _BY_MODE.get(mode or "r", _ANEW) if writer.mode else _ANEW
        if flags is not None:
            on_write(path, flags)
        return original(*args, **kwargs)

    setattr(owner, name, write_file)
