"""The records of a run that is over: its leftovers, which are removed, and the trials beside it.

Leftovers are in the cluster, on the host and in storage. The other trials of an experiment
without faults are recorded from their own journals.
"""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import psutil

from chaos.check.analysis import RunTables
from chaos.launch.ray import compat
from chaos.launch.ray.agent import processes_of
from chaos.launch.ray.prestart import is_waiting
from chaos.launch.raytrain.storage import search_storage
from chaos.model.event import AnyEvent, BystanderSeen, FailureDecided, Leftover, LeftoversSearched
from chaos.model.history import History
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_history

T = TypeVar("T")

PATIENCE_S = 10.0
OURS = ("NodeAgent", "LeasedAgent", "ChaosActor")
PLACES = ("processes", "placement groups", "actors")


@dataclass(frozen=True)
class Leftovers:
    """The actors and groups from before the run, so that only the run's own are counted."""

    token: str
    actors: frozenset[str]
    placement_groups: frozenset[str]
    is_cluster_ours: bool = True
    #: on a cluster that others use too, the Ray jobs (hex) of the run
    jobs: frozenset[str] = frozenset()
    #: it started processes for later attempts; those without work do not count
    prestarts: bool = False

    @classmethod
    def before(cls, token: str, *, is_cluster_ours: bool) -> "Leftovers":
        """Return the actors and groups that are there before the run begins."""
        return cls(
            token=token,
            is_cluster_ours=is_cluster_ours,
            actors=frozenset(compat.live_actors()),
            placement_groups=frozenset(compat.open_placement_groups()),
        )

    def search(
        self,
        journal: Journal,
        seen: Sequence[AnyEvent],
        directory: RunDirectory,
        *,
        files: bool,
    ) -> None:
        """Wait a little until all has ended by itself; record and remove what has not."""
        # Only what does not end by itself is a leftover: Ray's own cleaning takes seconds.
        for pid, command in _patiently(self._processes):
            journal.add(Leftover(kind="process", what=f"pid {pid}: {command}"))
            _end_process(pid)
        for pg_id in _patiently(lambda: [*filter(self._is_new, compat.open_placement_groups())]):
            journal.add(Leftover(kind="placement_group", what=pg_id))
            compat.remove_placement_group(pg_id)
        for name, pid in _patiently(self._actors):
            journal.add(Leftover(kind="actor", what=f"{name}, pid {pid}"))
            if self.is_cluster_ours:  # else it may be a pid of another host
                _end_process(pid)
        stored = search_storage(journal, seen, directory, is_watched=files)
        journal.add(LeftoversSearched(places=(*PLACES, *stored)))

    def _processes(self) -> list[tuple[int, str]]:
        """Return the run's processes; end those that still wait for work, which will not come.

        Their raylet would end them too, once they have registered with it.
        """
        found = processes_of(self.token)
        waiting = {pid for pid, _ in found if self.prestarts and is_waiting(pid)}
        for pid in waiting:
            _end_process(pid)
        return [(pid, command) for pid, command in found if pid not in waiting]

    def _actors(self) -> list[tuple[str, int]]:
        return [
            (name, pid)
            for actor_id, (name, pid) in compat.live_actors().items()
            if self._is_new(actor_id) and name not in OURS
        ]

    def _is_new(self, identity: str) -> bool:
        """Return whether an actor or a group is of this run: on a cluster of others, by its job."""
        if identity in self.actors | self.placement_groups:
            return False
        return self.is_cluster_ours or compat.is_of_job(identity, self.jobs)


def _patiently(look: Callable[[], list[T]]) -> list[T]:
    clock = SystemClock()
    start = clock.now_ns()
    while (found := look()) and seconds_since(start, clock) < PATIENCE_S:
        clock.sleep(0.1)
    return found


def _end_process(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ValueError):
        psutil.Process(pid).kill()


def record_bystanders(journal: Journal, directory: RunDirectory) -> None:
    """Record the outcome of each other trial of a run's experiment, by number."""
    told: dict[int, list[History]] = {}
    for folder in sorted(directory.trials.glob("[0-9]*"), key=lambda folder: _part(folder.name)):
        history = read_history(RunDirectory(folder).journals)
        told.setdefault(_part(folder.name)[0], []).append(history)
    for trial, histories in told.items():
        journal.add(bystander_of(trial, *histories))


def bystander_of(trial: int, history: History, *again: History) -> BystanderSeen:
    """Return the outcome of a trial by its own history; `again`: Tune began the trial again."""
    if again:
        before, after = bystander_of(trial, history), bystander_of(trial, *again)
        return msgspec.structs.replace(
            after,
            began_ns=before.began_ns,
            attempts=before.attempts + after.attempts,
            failures=before.failures + after.failures,
        )
    tables = RunTables(history)
    times = [entry.time_ns for entry in history] or [0]
    raised = tables.ending.raised
    return BystanderSeen(
        trial=trial,
        began_ns=times[0],
        ended_ns=times[-1],
        attempts=len(tables.attempts),
        failures=history.count(FailureDecided),
        steps=tables.lineage.steps_done,
        losses={
            f"rank {rank}, epoch {epoch}": _digest([(step.step, step.losses) for step in steps])
            for (rank, epoch), steps in sorted(tables.lineage.steps.items())
        },
        finished=tables.ending.returned is not None,
        error=None if raised is None else raised[1].error,
    )


def _part(name: str) -> tuple[int, int]:
    """Return trial and turn of a folder's name: `3` is (3, 1), `3-2` is (3, 2)."""
    trial, _, turn = name.partition("-")
    return int(trial), int(turn or 1)


def _digest(losses: object) -> str:
    return hashlib.blake2b(repr(losses).encode(), digest_size=8).hexdigest()
