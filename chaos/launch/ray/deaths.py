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
from chaos.run.signals import MEMORY, describe_kill, is_foreign


@dataclass(frozen=True)
class Death:
    """The end of a process."""

    #: in Ray's words
    kind: str
    node_id: str
    pid: int
    #: a signal's is negative
    code: int
    is_head: bool

    def __str__(self) -> str:
        """Return a sentence: the process, its end, and the remedy."""
        owner = "the head" if self.is_head else f"node {self.node_id[:8]}"
        process = f"the {self.kind.replace('_', ' ')} of {owner} (pid {self.pid})"
        if is_foreign(self.code):
            return describe_kill(process, self.code)
        return (
            f"{process} ended by itself, with code {self.code}. A raylet that does not answer for "
            "two seconds is given up, and ends: run with fewer workers, or where less else runs"
        )


def describe_lost_actor(error: Exception) -> str:
    """Return the sentence for the error of a call of an actor of chaos."""
    message = next(iter(str(error).splitlines()), "")
    return f"an actor of chaos on the cluster is gone ({type(error).__name__}: {message}). {MEMORY}"


@dataclass
class Deaths:
    """The deaths of one run."""

    #: returns all of them
    list_deaths: Callable[[], Collection[Death]]
    #: returns the nodes that faults affected
    list_faulted_nodes: Callable[[], Collection[str]]
    #: the plan ends the GCS, without which raylets end themselves after a while
    ends_gcs: bool = False
    _explained: set[Death] = field(default_factory=set[Death])

    def find_unexplained(self) -> Death | None:
        """Return a death that no fault explains, the head's first, which no fault ever kills."""
        new_deaths = sorted(
            set(self.list_deaths()) - self._explained, key=lambda death: not death.is_head
        )
        for death in new_deaths:
            if not self._is_explained(death):
                return death
            self._explained.add(death)
        return None

    def _is_explained(self, death: Death) -> bool:
        if self.ends_gcs and death.kind == "raylet":
            return True
        return not death.is_head and death.node_id in self.list_faulted_nodes()


@dataclass
class JobDeaths:
    """Workers and Ray Train's controller of one run that are gone while they should train.

    Only a raylet gets the exit code of its workers, and Ray 2.60 does not pass it on: a worker
    that is killed from outside looks like one that the job ends itself. The baseline has shown
    that the job does not. So if a process is gone before any decision of Ray, and no fault was
    injected in its attempt, the run is no evidence about the job.
    """

    is_gone: Callable[[int], bool] = lambda pid: not is_running(pid)
    _event_count: int = 0
    _controller: int | None = None
    _workers: dict[int, int] = field(default_factory=dict[int, int])  # pid by rank, while it trains
    _start_death: str | None = None
    _active_ops: set[int] = field(default_factory=set[int])
    _has_fault: bool = False

    def find_unexplained(self, events: Sequence[AnyEvent]) -> str | None:
        """Return the sentence for a process that is gone, None if there is none.

        The caller must read the events once more and ask again: an event that explains an end
        is written before the end, but may not have been read yet.
        """
        # Processes are looked at now, events come later: a worker may be gone whose TrainFnEnded is
        # not read yet. Hence two questions with a reading between them (see
        # `RayRun._find_vanished`), and only new events are learnt from, since this is asked ten
        # times a second.
        for event in events[self._event_count :]:
            self._learn(event)
        self._event_count = len(events)
        if self._start_death is not None:
            return self._start_death
        if self._is_explained:
            return None
        for rank, pid in self._workers.items():
            if self.is_gone(pid):
                return _describe_vanished(f"rank {rank}'s process (pid {pid})")
        if self._controller is not None and self.is_gone(self._controller):
            return _describe_vanished(
                f"the process of Ray Train's controller (pid {self._controller})"
            )
        return None

    @property
    def _is_explained(self) -> bool:
        return self._has_fault or bool(self._active_ops)

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
                self._record_decision(event)
            case TrainFnEnded():
                self._workers.pop(event.rank, None)
            case _:
                self._learn_faults(event)

    def _record_decision(self, event: FailureDecided) -> None:
        """Note the end of an attempt. Ray 2.60 names no rank that dies in a start."""
        if event.charged == "controller" and "ActorDied" in event.error and not self._is_explained:
            process = f"a worker that was starting, after attempt {event.attempt} or in it,"
            self._start_death = _describe_vanished(process)
        self._workers, self._has_fault = {}, False

    def _learn_faults(self, event: AnyEvent) -> None:
        match event:
            case FaultInvoked():
                self._has_fault = True
                self._active_ops.add(event.op)
            case FaultEnded():
                self._active_ops.discard(event.op)
            case _:
                pass


_LAST_STATES = frozenset({"SHUTTING_DOWN", "FINISHED", "ERRORED", "ABORTED"})


def _describe_vanished(process: str) -> str:
    return (
        f"{process} is gone without an error, and chaos did not end it: somebody killed it, or it "
        f"ended itself in native code. {MEMORY}"
    )
