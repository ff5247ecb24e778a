"""Processes of our own cluster that have ended, and no fault had them end.

The kernel ends one where memory runs out, a raylet ends itself where a busy machine kept it
from answering, and others may do it by mistake. What the job makes of it is no finding.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import psutil

from chaos.model.event import (
    AnyEvent,
    ControllerState,
    FailureDecided,
    FaultEnded,
    FaultInvoked,
    JournalOpened,
    TrainFnEnded,
    WorkerGroupStarted,
)
from chaos.run.killed import MEMORY, is_foreign, killed


@dataclass(frozen=True)
class Death:
    """The end of a process, `kind` in Ray's words; a signal's code is negative."""

    kind: str
    node_id: str
    pid: int
    code: int
    is_heads: bool

    def __str__(self) -> str:
        """Return who ended, how, and what to do about it."""
        whose = "the head" if self.is_heads else f"node {self.node_id[:8]}"
        who = f"the {self.kind.replace('_', ' ')} of {whose} (pid {self.pid})"
        return killed(who, self.code) if is_foreign(self.code) else f"{who} {self._by_itself}"

    @property
    def _by_itself(self) -> str:
        return (
            f"ended by itself, with code {self.code}. A raylet that does not answer for two "
            "seconds is given up, and ends: run with fewer workers, or where less else runs"
        )


def lost(error: Exception) -> str:
    """Return the sentence for an error that a call of an actor of chaos's own ended with."""
    first = next(iter(str(error).splitlines()), "")
    return f"an actor of chaos on the cluster is gone ({type(error).__name__}: {first}). {MEMORY}"


@dataclass
class Deaths:
    """One per run. `look` finds all deaths, `struck` the nodes that faults had to do with so far.

    `ends_gcs`: the plan ends the GCS, without which raylets end themselves after a while.
    """

    look: Callable[[], Collection[Death]]
    struck: Callable[[], Collection[str]]
    ends_gcs: bool = False
    _known: set[Death] = field(default_factory=set[Death])

    def foreign(self) -> Death | None:
        """Return one that no fault explains, the head's first: no fault ever takes that."""
        found = sorted(set(self.look()) - self._known, key=lambda death: not death.is_heads)
        for death in found:
            if not self._is_explained(death):
                return death
            self._known.add(death)
        return None

    def _is_explained(self, death: Death) -> bool:
        if self.ends_gcs and death.kind == "raylet":
            return True
        return not death.is_heads and death.node_id in self.struck()


def is_gone(pid: int) -> bool:
    """Return whether a process of this host has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass
class JobDeaths:
    """Workers and Ray Train's controller of one run that are gone while they should train.

    A raylet alone learns of the exit code of its workers, and Ray 2.60 passes none on: a worker
    that somebody kills looks like one that the job ends by itself. The baseline has shown that
    the job does not; so where a process is gone before Ray has decided anything, and no fault
    was injected in its attempt, the run says nothing of the job.
    """

    is_gone: Callable[[int], bool] = is_gone
    _read: int = 0
    _controller: int | None = None
    _workers: dict[int, int] = field(default_factory=dict[int, int])  # pid by rank, while it trains
    _in_a_start: str | None = None
    _under_way: set[int] = field(default_factory=set[int])
    _is_struck: bool = False

    def foreign(self, seen: Sequence[AnyEvent]) -> str | None:
        """Return the sentence for a process that is gone, None where there is none.

        Whoever is gone must still be missed by `seen` as it is read afterwards: what explains an
        end is written before it.
        """
        for event in seen[self._read :]:
            self._learn(event)
        self._read = len(seen)
        if self._in_a_start is not None:
            return self._in_a_start
        if self._is_explained:
            return None
        for rank, pid in self._workers.items():
            if self.is_gone(pid):
                return _vanished(f"rank {rank}'s process (pid {pid})")
        if self._controller is not None and self.is_gone(self._controller):
            return _vanished(f"the process of Ray Train's controller (pid {self._controller})")
        return None

    @property
    def _is_explained(self) -> bool:
        return self._is_struck or bool(self._under_way)

    def _learn(self, event: AnyEvent) -> None:
        match event:
            case JournalOpened(role="controller"):
                self._controller = event.pid
            case WorkerGroupStarted():
                self._workers = {worker.rank: worker.pid for worker in event.workers}
            case ControllerState() if event.state != "RUNNING":  # Ray ends the group by itself
                self._workers = {}
                if event.state in _LAST_STATES:
                    self._controller = None
            case FailureDecided():
                self._decided(event)
            case TrainFnEnded():
                self._workers.pop(event.rank, None)
            case _:
                self._learn_of_faults(event)

    def _decided(self, event: FailureDecided) -> None:
        """Take in the end of an attempt. Ray 2.60 names no rank that dies in a start."""
        if event.charged == "controller" and "ActorDied" in event.error and not self._is_explained:
            who = f"a worker that was starting, after attempt {event.attempt} or in it,"
            self._in_a_start = _vanished(who)
        self._workers, self._is_struck = {}, False

    def _learn_of_faults(self, event: AnyEvent) -> None:
        match event:
            case FaultInvoked():
                self._is_struck = True
                self._under_way.add(event.op)
            case FaultEnded():
                self._under_way.discard(event.op)
            case _:
                pass


_LAST_STATES = frozenset({"SHUTTING_DOWN", "FINISHED", "ERRORED", "ABORTED"})


def _vanished(who: str) -> str:
    return (
        f"{who} is gone without an error, and chaos did not end it: somebody killed it, or it "
        f"ended itself in native code. {MEMORY}"
    )
