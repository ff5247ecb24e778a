"""Things that a script asks for, which torchrun gives its workers and no other launcher does."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

from chaos.launch.job import describe_script_line
from chaos.model.launcher_facts import WORKER_ENV

RunPart = TypeVar("RunPart")
_LIBRARY, _PACKAGES = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))
_GROUP = str(Path("torch", "distributed", "rendezvous.py"))


class TorchrunRequests:
    """The first thing of torchrun's that a script asks for, by its place: `train.py:12 reads RANK`.

    A library that looks whether the variables are set, as many do when they are imported, asks for
    nothing, except torch, where the script has it join a group of processes.
    """

    def __init__(self) -> None:
        self.first_request: str | None = None
        self._original_class = type(os.environ)

    def start(self) -> None:
        """Look at what is read from the environment from here on."""
        watch = self

        class Watched(self._original_class):  # type: ignore[misc, name-defined]
            """The environment, whose reads are seen."""

            def __getitem__(self, name: str) -> str:
                if name in WORKER_ENV and watch.first_request is None:
                    watch.first_request = _describe_read(name, sys._getframe(1))  # noqa: SLF001
                value: str = super().__getitem__(name)
                return value

        os.environ.__class__ = Watched

    def stop(self) -> None:
        """Look no longer: within a `fit()` the same variables are Ray Train's."""
        os.environ.__class__ = self._original_class

    def wrap_fit(self, begin: Callable[[], RunPart]) -> Callable[[], RunPart]:
        """Return `begin`, which is called as the script calls `fit()`: the watch ends there."""

        def begin_unwatched() -> RunPart:
            self.stop()
            return begin()

        return begin_unwatched

    def find_request(self, error: BaseException | None = None) -> str | None:
        """Return what was asked for, by a script that has ended without a `fit()`; or None."""
        return self.first_request or find_missing_variable(error)


def find_missing_variable(error: BaseException | None) -> str | None:
    """Return which of torchrun's variables an error, or its cause, is about; None for others."""
    while error is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        message = str(error.args[0]) if error.args else ""
        # torch 2.13, `rendezvous.py:_env_error`
        is_torch_error = isinstance(error, ValueError) and "using env:// rendezvous" in message
        name = next((name for name in sorted(WORKER_ENV) if f" {name} expected" in message), "")
        if isinstance(error, KeyError) and message in WORKER_ENV:
            return _describe_action(frames, f"needs {message}")
        if is_torch_error and name:
            return _describe_action(frames, f"joins a group of processes, and needs {name}")
        error = error.__cause__ or error.__context__
    return None


def _describe_read(name: str, frame: FrameType | None) -> str | None:
    frames = [frame for frame, _ in traceback.walk_stack(frame)]
    files = (frame.f_code.co_filename for frame in frames)
    # The one that reads: what is in between is Python's own (`os.getenv`, `Mapping.get`).
    reader = next((file for file in files if not _is_stdlib(file)), "")
    if reader.endswith(_GROUP):
        return _describe_action(frames[::-1], "joins a group of processes")
    return None if reader.startswith(_PACKAGES) else _describe_action(frames[::-1], f"reads {name}")


def _is_stdlib(file: str) -> bool:
    return file.startswith("<") or (file.startswith(_LIBRARY) and not file.startswith(_PACKAGES))


def _describe_action(frames: list[FrameType], action: str) -> str:
    line = describe_script_line(frames).removeprefix(", ")
    return f"{line or 'the script'} {action}"
