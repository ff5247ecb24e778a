"""The guard of a process, as its interpreter starts, or from where the script asks for it."""

import atexit
import os
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from chaos.declared import GUARD_ENV

FOLDER = ".chaos-guard"
COPIED = "chaos.guard.copied"  # the audit event of a save that is elsewhere from now on
COMMAND_ENV = "CHAOS_GUARD_COMMAND"  # the process that `chaos guard` has become
STOPS_ENV, ACCEPTS_ENV = "CHAOS_GUARD_STOPS", "CHAOS_GUARD_ACCEPTS"
# Groups of the state, and kinds of findings, that a job may mean to be other after a restart.
ACCEPTABLE = (
    *("buffers", "gradients", "optimizer", "optimizer-settings", "schedule", "scaler"),
    *("averaged-model", "declared", "data", "older", "began-anew"),
)
_told: set[str] = set()
_begun = False


class Command(NamedTuple):
    """The command of a start, by which it is known whether it is of the same job."""

    words: tuple[str, ...]
    cwd: str
    #: the folder of a run of Ray Train; empty for others
    run: str = ""
    #: the folder of the checkpoint that Ray gave the start; empty with none, None if not known
    given: str | None = None

    @classmethod
    def own(cls) -> Self:
        """Return that of this process."""
        return cls(tuple(sys.orig_argv), str(Path.cwd()))


class Use(NamedTuple):
    """The use that is made of a finding."""

    stops: bool = False
    #: what is meant to be other after a restart, of `ACCEPTABLE`
    accepted: frozenset[str] = frozenset()

    @classmethod
    def asked(cls) -> Self:
        """Return what the environment asks for."""
        words = os.environ.get(ACCEPTS_ENV, "").split(",")
        return cls(os.environ.get(STOPS_ENV) == "1", frozenset(filter(None, words)))

    def variables(self) -> dict[str, str]:
        """Return the environment that asks for it."""
        return {STOPS_ENV: str(int(self.stops)), ACCEPTS_ENV: ",".join(sorted(self.accepted))}


def guard(
    folder: str | os.PathLike[str] = FOLDER,
    *,
    on_mismatch: str = "warn",
    accept: Collection[str] = (),
) -> None:
    """Guard this training from here on, as `chaos guard` does: call it before torch is used.

    `folder` is one for each training, and outlives its nodes. `on_mismatch`: `warn` writes to the
    log, `stop` raises `ResumeMismatchError` in the first step. `accept`: what the job begins anew
    on purpose, such as `schedule`. Raises `ValueError` for other words.
    """
    if on_mismatch not in ("warn", "stop"):
        raise ValueError(f"on_mismatch is 'warn' or 'stop', and not {on_mismatch!r}")
    for word in accept:
        if isinstance(accept, str) or word not in ACCEPTABLE:
            raise ValueError(f"accept has some of {ACCEPTABLE}, and not {accept!r}")
    place = os.fspath(folder)
    place = place if "://" in place else str(Path(place).absolute())
    begin(place, Use(on_mismatch == "stop", frozenset(accept)))


def watch_child() -> None:
    """Watch this process, as its environment asks for it."""
    if place := os.environ[GUARD_ENV]:
        begin(place, Use.asked())


def begin(place: str, use: Use, command: Command | None = None) -> None:
    """Guard this process from now on; a second call does nothing. Raises nothing.

    `command` is the job's where that is another process's.
    """
    global _begun  # noqa: PLW0603 - there is one process
    if _begun:
        return
    _begun = True
    # Its children as well; and `chaos.declare` has an effect.
    os.environ.update({GUARD_ENV: place} | use.variables())
    if unknown := use.accepted.difference(ACCEPTABLE):
        words = ", ".join(sorted(unknown))
        say(f"{ACCEPTS_ENV} has {words}, which accepts nothing; it has some of {ACCEPTABLE}")
    if os.environ.get(COMMAND_ENV) == str(os.getpid()):
        atexit.register(_guarded, partial(_report_no_step, place))
    try:
        from chaos.probe.imported import once_imported

        once_imported({"torch"}, lambda _: _guarded(partial(_install, place, use, command)))
    except Exception as error:  # noqa: BLE001 - training goes on
        failed("start", error)


def _install(place: str, use: Use, command: Command | None) -> None:
    from chaos.guard.folder import Folder
    from chaos.guard.watch import GuardedRank

    rank = GuardedRank(Folder(place), use, command, failed=failed)
    rank.install()
    pid = os.getpid()
    atexit.register(lambda: _guarded(rank.ended) if os.getpid() == pid else None)


def _report_no_step(place: str) -> None:
    """Report, as the command ends, that no start is recorded: boosted trees make none."""
    from chaos.guard.folder import Folder

    if not Folder(place).starts():
        say("no optimizer of torch.optim made a step: a training without them is not watched")


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
