"""Refusals, by name, of the calls of Ray that the embedded backend does not have.

A task or an actor may be declared, and Ray Data imported: many scripts use
them only after `fit()`. A call is refused, with the line of the script.
"""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import ray
import ray.exceptions

from chaos.errors import ComputedEarlyError, NeedsClusterError, raise_when_called
from chaos.launch.job import build_v1_refusal, describe_script_line

if TYPE_CHECKING:
    from collections.abc import Callable

_HOOKS = ("auto_init_hook", "client_mode_hook")
DATASET_READERS = ("read_", "from_", "range")


def refuse_to_fork_tensorflow() -> None:
    """Raise `ComputedEarlyError` if TensorFlow has computed in this process.

    A fork does not copy TensorFlow's threads, and the child's first operation waits for
    them for ever (tensorflow 2.21). An import starts none of them.
    """
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    if getattr(context, "_initialized", False):
        raise ComputedEarlyError.from_library("TensorFlow")


def remote(actor_class: Callable[[Any, dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return the replacement of `ray.remote`; `actor_class` wraps the classes of Ray itself."""

    def remote(*args: Any, **options: Any) -> Any:
        def make(target: Any) -> Any:
            if getattr(target, "__module__", "").startswith("ray."):
                return actor_class(target, options)
            return DeclaredTask(target)

        return make(args[0]) if args else make

    return remote


class DeclaredTask:
    """A task or an actor of the script: it may be declared, but not started."""

    def __init__(self, target: Any) -> None:  # a function or a class
        self._name = getattr(target, "__name__", type(target).__name__)
        self.__doc__ = target.__doc__

    def options(self, **_: Any) -> DeclaredTask:
        return self

    def remote(self, *_: Any, **__: Any) -> NoReturn:
        raise NeedsClusterError.from_feature(
            f"`ray.remote` (`{self._name}.remote()`{describe_script_line()})"
        )

    bind = remote


def replace_dataset_readers() -> None:
    """Replace the functions that make a dataset of Ray Data; all others need a dataset."""
    import ray.data

    for name, function in inspect.getmembers(ray.data, inspect.isfunction):
        if name.startswith(DATASET_READERS):
            raise_error = raise_when_called(functools.partial(_build_reader_error, name))
            setattr(ray.data, name, functools.wraps(function)(raise_error))


def _build_reader_error(name: str, *_: Any, **__: Any) -> NeedsClusterError:
    return NeedsClusterError.from_feature(f"Ray Data (`ray.data.{name}`{describe_script_line()})")


def explain_error(error: BaseException) -> BaseException:
    """Return an error that names what the job uses, for one in which Ray reports its absence."""
    if isinstance(error, DeprecationWarning) and "restore" in str(error):
        return build_v1_refusal(", which calls `restore` or `can_restore`")
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [(frame, str(frame.f_globals.get("__name__", ""))) for frame in frames]
    line = describe_script_line(frames)
    if isinstance(error, NeedsClusterError):
        return error
    if any(name.startswith("ray.data") for _, name in names):
        return NeedsClusterError.from_feature(f"Ray Data{line and f' ({line[2:]})'}")
    if not isinstance(error, ray.exceptions.RaySystemError) or "not been started" not in str(error):
        return error
    frame, module = next(((f, n) for f, n in names if n.startswith("ray.")), (None, "ray"))
    if frame is not None and module.endswith(_HOOKS):  # around all of Ray's own functions
        function = getattr(frame.f_locals.get("fn") or frame.f_locals.get("func"), "__name__", None)
        module = f"ray.{function}()" if function else "ray"
    return NeedsClusterError.from_feature(f"`{module}`{line and f' ({line[2:]})'}")
