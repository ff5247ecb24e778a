"""The guard of a process, as its interpreter starts, or from where the script asks for it."""

import atexit
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from chaos.declared import GUARD_ENV

FOLDER = ".chaos-guard"
STOPS_ENV = "CHAOS_GUARD_STOPS"
_told: set[str] = set()
_begun = False


def guard(folder: str | os.PathLike[str] = FOLDER, *, on_mismatch: str = "warn") -> None:
    """Guard this training from here on, as `chaos guard` does: call it before torch is used.

    `folder` is one for each training, and outlives its nodes. `on_mismatch`: `warn` writes to the
    log, `stop` raises `ResumeMismatchError` in the first step. Raises `ValueError` for another.
    """
    if on_mismatch not in ("warn", "stop"):
        raise ValueError(f"on_mismatch is 'warn' or 'stop', and not {on_mismatch!r}")
    place = os.fspath(folder)
    begin(place if "://" in place else str(Path(place).absolute()), stops=on_mismatch == "stop")


def watch_child() -> None:
    """Watch this process, as its environment asks for it."""
    if place := os.environ[GUARD_ENV]:
        begin(place, stops=os.environ.get(STOPS_ENV) == "1")


def begin(place: str, *, stops: bool = False) -> None:
    """Guard this process from now on; a second call does nothing. Raises nothing."""
    global _begun  # noqa: PLW0603 - there is one process
    if _begun:
        return
    _begun = True
    # Its children as well; and `chaos.declare` has an effect.
    os.environ[GUARD_ENV], os.environ[STOPS_ENV] = place, str(int(stops))
    try:
        from chaos.probe.imported import once_imported

        once_imported({"torch"}, lambda _: _guarded(partial(_install, place, stops=stops)))
    except Exception as error:  # noqa: BLE001 - training goes on
        failed("start", error)


def _install(place: str, *, stops: bool) -> None:
    from chaos.guard.folder import Folder
    from chaos.guard.watch import GuardedRank

    rank = GuardedRank(Folder(place), stops=stops, failed=failed)
    rank.install()
    pid = os.getpid()
    atexit.register(lambda: _guarded(rank.ended) if os.getpid() == pid else None)


def _guarded(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:  # noqa: BLE001 - training goes on
        failed("guard", error)


def failed(where: str, error: Exception) -> None:
    """Write, once for each place, that something was not seen; training goes on."""
    if where in _told:
        return
    _told.add(where)
    say(f"not watched ({where}): {type(error).__name__}: {error}")


def say(text: str) -> None:
    """Write a line to the job's standard error."""
    # The descriptor itself: a job may have put something else in the place of `sys.stderr`.
    with suppress(OSError):
        os.write(2, f"chaos-guard: {text}\n".encode(errors="replace"))
