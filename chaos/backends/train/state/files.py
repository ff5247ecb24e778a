"""Files that the train function writes with `torch.save` or pickle, and reads with `torch.load`.

All do and give what torch's own and Python's do. What is no file with a path, such as a
buffer, passes through, remembered by its bytes; so does a call in a process that is not the
rank's, a data loader's for one.
"""

import functools
import io
import os
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from chaos.run.file_digest import WHOLE_MAX, stream_digest


class Listener(Protocol):
    """Who is told of saves and loads; only an op that strikes there may raise."""

    def save_begun(self, path: Path) -> None:
        """Tell that a file begins to be written."""

    def saved(self, path: Path, what: Any) -> None:  # noqa: ANN401 - whatever `torch.save` is given
        """Tell that a file is written, and what it was that is in it."""

    def holds(self, path: Path, what: Any) -> None:  # noqa: ANN401 - whatever is pickled
        """Tell what an open file will hold."""

    def holds_bytes(self, digest: str, what: Any) -> None:  # noqa: ANN401 - likewise
        """Tell what some bytes hold."""

    def quietly(self) -> AbstractContextManager[None]:
        """Return a context in which what is opened is told of otherwise."""

    def halfway(self) -> Callable[[], None] | None:
        """Return what is to happen when half of the file is written, where something is."""

    def loading(self, path: Path) -> str | None:
        """Return the digest of a file that is about to be read, None where it cannot be."""

    def within_load(self, digest: str) -> None:
        """Do what is to happen inside a load, where something is."""

    def loaded(self, path: Path, digest: str, error: BaseException | None) -> None:
        """Tell that a file was read, or could not be."""

    def unhooked(self, save: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `save` gives
        """Do the saving while no module carries a hook of ours."""


def watch_files(listener: Listener) -> None:
    """Stand in the place of `torch.save` and `torch.load` from now on."""
    import torch

    torch.save = _saving(torch.save, listener)
    torch.load = _loading(torch.load, listener)
    torch.serialization.save, torch.serialization.load = torch.save, torch.load
    pickle.dump = _dumping(pickle.dump, listener)


def _dumping(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    pid = os.getpid()

    @functools.wraps(original)
    def dump(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = original(*args, **kwargs)
        path = _path_of(_argument(args, kwargs, 1, "file")) if os.getpid() == pid else None
        if path is not None:
            listener.holds(path, _argument(args, kwargs, 0, "obj"))
        return result

    return dump


def _saving(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    pid = os.getpid()

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if os.getpid() != pid:
            return original(*args, **kwargs)
        target = _argument(args, kwargs, 1, "f")
        path = _path_of(target, at_start=True)
        if path is None:
            result = listener.unhooked(lambda: original(*args, **kwargs))
            if isinstance(target, io.BytesIO) and target.tell() <= WHOLE_MAX:
                digest = stream_digest(io.BytesIO(target.getvalue()))
                listener.holds_bytes(digest, _argument(args, kwargs, 0, "obj"))
            return result
        listener.save_begun(path)
        then = listener.halfway() if isinstance(target, str | os.PathLike) else None
        with listener.quietly():
            if then is None:
                result = listener.unhooked(lambda: original(*args, **kwargs))
            else:
                result = listener.unhooked(
                    lambda: _save_in_halves(original, args, kwargs, path=path, then=then)
                )
        listener.saved(path, _argument(args, kwargs, 0, "obj"))
        return result

    return save


def _save_in_halves(
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    path: Path,
    then: Callable[[], None],
) -> Any:  # noqa: ANN401
    """Write one half of a file, do what is to be done there, write the other."""
    buffer = io.BytesIO()
    if len(args) > 1:
        result = original(args[0], buffer, *args[2:], **kwargs)
    else:
        result = original(*args, **{**kwargs, "f": buffer})
    content = buffer.getvalue()
    middle = len(content) // 2
    with path.open("wb") as file:
        file.write(content[:middle])
        file.flush()
        then()
        file.write(content[middle:])
    return result


def _loading(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    pid = os.getpid()

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        path = _path_of(_argument(args, kwargs, 0, "f"))
        digest = listener.loading(path) if path is not None and os.getpid() == pid else None
        if path is None or digest is None:
            return original(*args, **kwargs)
        listener.within_load(digest)
        try:
            with listener.quietly():
                result = original(*args, **kwargs)
        except BaseException as error:
            listener.loaded(path, digest, error)
            raise
        listener.loaded(path, digest, None)
        return result

    return load


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:  # noqa: ANN401
    return args[place] if len(args) > place else kwargs.get(name)


def _path_of(target: Any, *, at_start: bool = False) -> Path | None:  # noqa: ANN401
    """Return the file that torch is asked to write or read; None where it has no path.

    An open file that something was written to already holds more than this save.
    """
    try:
        if isinstance(target, str | os.PathLike):
            return Path(os.path.abspath(os.fspath(target)))  # noqa: PTH100 - links stay links
        name = getattr(target, "name", None)
        if not isinstance(name, str) or not Path(name).is_file():
            return None
        if at_start and target.tell() != 0:
            return None
        return Path(os.path.abspath(name))  # noqa: PTH100 - likewise
    except Exception:  # noqa: BLE001 - whatever it is, torch is asked to deal with it
        return None
