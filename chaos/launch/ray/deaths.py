"""Processes of a local cluster that have ended without a fault.

The kernel ends one if memory runs out; a raylet ends itself if it does not answer on a busy
machine; another program may end one by mistake. The job's reaction to it is no finding.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

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
from chaos.processes.tree import is_running
from chaos.run.signals import MEMORY, is_foreign, killed


@dataclass(frozen=True)
class Death:
    """The end of a process."""

    #: in Ray's words
    kind: str
    node_id: str
    pid: int
    #: a signal's is negative
    code: int
    is_heads: bool

    def __str__(self) -> str:
        """Return a sentence: the process, its end, and the remedy."""
        whose = "the head" if self.is_heads else f"node {self.node_id[:8]}"
        who = f"the {self.kind.replace('_', ' ')} of {whose} (pid {self.pid})"
        if is_foreign(self.code):
            return killed(who, self.code)
        return (
            f"{who} ended by itself, with code {self.code}. A raylet that does not answer for two "
            "seconds is given up, and ends: run with fewer workers, or where less else runs"
        )


def lost(error: Exception) -> str:
    """Return the sentence for the error of a call of an actor of chaos."""
    first = next(iter(str(error).splitlines()), "")
    return f"an actor of chaos on the cluster is gone ({type(error).__name__}: {first}). {MEMORY}"


@dataclass
class Deaths:
    """The deaths of one run."""

    #: returns all of them
    look: Callable[[], Collection[Death]]
    #: returns the nodes that faults affected
    struck: Callable[[], Collection[str]]
    #: the plan ends the GCS, without which raylets end themselves after a while
    ends_gcs: bool = False
    _known: set[Death] = field(default_factory=set[Death])

    def foreign(self) -> Death | None:
        """Return a death that no fault explains, the head's first, which no fault ever kills."""
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


@dataclass
class JobDeaths:
    """Workers and Ray Train's controller of one run that are gone while they should train.

    Only a raylet gets the exit code of its workers, and Ray 2.60 does not pass it on: a worker
    that is killed from outside looks like one that the job ends itself. The baseline has shown
    that the job does not. So if a process is gone before any decision of Ray, and no fault was
    injected in its attempt, the run is no evidence about the job.
    """

    is_gone: Callable[[int], bool] = lambda pid: not is_running(pid)
    _read: int = 0
    _controller: int | None = None
    _workers: dict[int, int] = field(default_factory=dict[int, int])  # pid by rank, while it trains
    _in_a_start: str | None = None
    _under_way: set[int] = field(default_factory=set[int])
    _is_struck: bool = False

    def foreign(self, seen: Sequence[AnyEvent]) -> str | None:
        """Return the sentence for a process that is gone, None if there is none.

        The caller must read the events once more and ask again: an event that explains an end
        is written before the end, but may not have been read yet.
        """
        # Processes are looked at now, events come later: a worker may be gone whose TrainFnEnded is
        # not read yet. Hence two questions with a reading between them (see `Run._vanished`), and
        # only new events are learnt from, since this is asked ten times a second.
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
        """Note the end of an attempt. Ray 2.60 names no rank that dies in a start."""
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
