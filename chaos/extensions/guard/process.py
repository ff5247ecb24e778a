"""The guard of a process, as its interpreter starts, or from where the script asks for it."""

import atexit
import os
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from chaos.declaration import GUARD_ENV

FOLDER = ".chaos-guard"
COPIED = "chaos.extensions.guard.copied"  # the audit event of a save that is elsewhere from now on
COMMAND_ENV = "CHAOS_GUARD_COMMAND"  # the process that `chaos guard` has become
STOPS_ENV, ACCEPTS_ENV = "CHAOS_GUARD_STOPS", "CHAOS_GUARD_ACCEPTS"
# Groups of the state, and kinds of findings, that a job may mean to be other after a restart.
ACCEPTABLE = (
    *("buffers", "gradients", "optimizer", "optimizer-settings", "schedule", "scaler"),
    *("averaged-model", "declared", "data", "older", "began-anew"),
)
_reported_sites: set[str] = set()
_is_guarded = False


class GuardedCommand(NamedTuple):
    """The command of a start, by which it is known whether it is of the same job."""

    words: tuple[str, ...]
    cwd: str
    #: the folder of a run of Ray Train; empty for others
    run: str = ""
    #: the folder of the checkpoint that Ray gave the start; empty with none, None if not known
    checkpoint: str | None = None

    @classmethod
    def from_process(cls) -> Self:
        """Return that of this process."""
        return cls(tuple(sys.orig_argv), str(Path.cwd()))


class GuardPolicy(NamedTuple):
    """The use that is made of a finding."""

    stops: bool = False
    #: what is meant to be other after a restart, of `ACCEPTABLE`
    accepted_subjects: frozenset[str] = frozenset()

    @classmethod
    def from_env(cls) -> Self:
        """Return what the environment asks for."""
        words = os.environ.get(ACCEPTS_ENV, "").split(",")
        return cls(os.environ.get(STOPS_ENV) == "1", frozenset(filter(None, words)))

    def variables(self) -> dict[str, str]:
        """Return the environment that asks for it."""
        return {
            STOPS_ENV: str(int(self.stops)),
            ACCEPTS_ENV: ",".join(sorted(self.accepted_subjects)),
        }


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
    location = os.fspath(folder)
    location = location if "://" in location else str(Path(location).absolute())
    begin_guard(location, GuardPolicy(on_mismatch == "stop", frozenset(accept)))


def watch_child() -> None:
    """Watch this process, as its environment asks for it."""
    if location := os.environ[GUARD_ENV]:
        begin_guard(location, GuardPolicy.from_env())


def begin_guard(location: str, policy: GuardPolicy, command: GuardedCommand | None = None) -> None:
    """Guard this process from now on; a second call does nothing. Raises nothing.

    `command` is the job's where that is another process's.
    """
    global _is_guarded  # noqa: PLW0603 - there is one process
    if _is_guarded:
        return
    _is_guarded = True
    # Its children as well; and `chaos.declare` has an effect.
    os.environ.update({GUARD_ENV: location} | policy.variables())
    if unknown := policy.accepted_subjects.difference(ACCEPTABLE):
        words = ", ".join(sorted(unknown))
        write_line(f"{ACCEPTS_ENV} has {words}, which accepts nothing; it has some of {ACCEPTABLE}")
    if os.environ.get(COMMAND_ENV) == str(os.getpid()):
        atexit.register(_call_safely, partial(_report_no_step, location))
    try:
        from chaos.probe.import_hooks import call_after_import

        call_after_import(
            {"torch"}, lambda _: _call_safely(partial(_install, location, policy, command))
        )
    except Exception as error:  # noqa: BLE001 - training goes on
        report_failure("start", error)


def _install(location: str, policy: GuardPolicy, command: GuardedCommand | None) -> None:
    from chaos.extensions.guard.folder import GuardFolder
    from chaos.extensions.guard.watch import GuardedRank

    rank = GuardedRank(GuardFolder(location), policy, command, report_failure=report_failure)
    rank.install()
    pid = os.getpid()
    atexit.register(lambda: _call_safely(rank.finish) if os.getpid() == pid else None)


def _report_no_step(location: str) -> None:
    """Report, as the command ends, that no start is recorded: boosted trees make none."""
    from chaos.extensions.guard.folder import GuardFolder

    if not GuardFolder(location).load_starts():
        write_line(
            "no optimizer of torch.optim made a step: a training without them is not watched"
        )


def _call_safely(action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - training goes on
        report_failure("guard", error)


def report_failure(site: str, error: Exception) -> None:
    """Write, once for each place, that something was not seen; training goes on."""
    if site in _reported_sites:
        return
    _reported_sites.add(site)
    write_line(f"not watched ({site}): {type(error).__name__}: {error}")


def write_line(text: str) -> None:
    """Write a line to the job's standard error."""
    # The descriptor itself: a job may have put something else in the place of `sys.stderr`.
    with suppress(OSError):
        os.write(2, f"chaos-guard: {text}\n".encode(errors="replace"))
