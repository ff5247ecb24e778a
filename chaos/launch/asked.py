"""Things that a script asks for, which torchrun gives its workers and no other launcher does."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

from chaos.launch.job import line_of_script
from chaos.model.launcher import WORKER_ENV

RunPart = TypeVar("RunPart")
_LIBRARY, _PACKAGES = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))
_GROUP = str(Path("torch", "distributed", "rendezvous.py"))


class AskedOfTorchrun:
    """The first thing of torchrun's that a script asks for, by its place: `train.py:12 reads RANK`.

    A library that looks whether the variables are set, as many do when they are imported, asks for
    nothing, except torch, where the script has it join a group of processes.
    """

    def __init__(self) -> None:
        self.first: str | None = None
        self._plain = type(os.environ)

    def begin(self) -> None:
        """Look at what is read from the environment from here on."""
        watch = self

        class Watched(self._plain):  # type: ignore[misc, name-defined]
            """The environment, whose reads are seen."""

            def __getitem__(self, name: str) -> str:
                if name in WORKER_ENV and watch.first is None:
                    watch.first = _asked(name, sys._getframe(1))  # noqa: SLF001
                found: str = super().__getitem__(name)
                return found

        os.environ.__class__ = Watched

    def end(self) -> None:
        """Look no longer: within a `fit()` the same variables are Ray Train's."""
        os.environ.__class__ = self._plain

    def then(self, begin: Callable[[], RunPart]) -> Callable[[], RunPart]:
        """Return `begin`, which is called as the script calls `fit()`: the watch ends there."""

        def begun() -> RunPart:
            self.end()
            return begin()

        return begun

    def before(self, error: BaseException | None = None) -> str | None:
        """Return what was asked for, by a script that has ended without a `fit()`; or None."""
        return self.first or lacked(error)


def lacked(error: BaseException | None) -> str | None:
    """Return which of torchrun's variables an error, or its cause, is about; None for others."""
    while error is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        words = str(error.args[0]) if error.args else ""
        # torch 2.13, `rendezvous.py:_env_error`
        is_torchs = isinstance(error, ValueError) and "using env:// rendezvous" in words
        name = next((name for name in sorted(WORKER_ENV) if f" {name} expected" in words), "")
        if isinstance(error, KeyError) and words in WORKER_ENV:
            return _at(frames, f"needs {words}")
        if is_torchs and name:
            return _at(frames, f"joins a group of processes, and needs {name}")
        error = error.__cause__ or error.__context__
    return None


def _asked(name: str, frame: FrameType | None) -> str | None:
    frames = [frame for frame, _ in traceback.walk_stack(frame)]
    files = (frame.f_code.co_filename for frame in frames)
    # The one that reads: what is in between is Python's own (`os.getenv`, `Mapping.get`).
    reader = next((file for file in files if not _is_pythons(file)), "")
    if reader.endswith(_GROUP):
        return _at(frames[::-1], "joins a group of processes")
    return None if reader.startswith(_PACKAGES) else _at(frames[::-1], f"reads {name}")


def _is_pythons(file: str) -> bool:
    return file.startswith("<") or (file.startswith(_LIBRARY) and not file.startswith(_PACKAGES))


def _at(frames: list[FrameType], what: str) -> str:
    line = line_of_script(frames).removeprefix(", ")
    return f"{line or 'the script'} {what}"
