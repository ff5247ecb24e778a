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
from chaos.launch.ray.agent import find_run_processes
from chaos.launch.raytrain.storage import search_storage
from chaos.model.event import AnyEvent, BystanderSeen, FailureDecided, Leftover, LeftoversSearched
from chaos.model.history import History
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_history

T = TypeVar("T")

PATIENCE_S = 10.0
CHAOS_ACTORS = ("NodeAgent", "LeasedAgent", "ChaosActor")
SEARCHED_PARTS = ("processes", "placement groups", "actors")


@dataclass(frozen=True)
class Leftovers:
    """The actors and groups from before the run, so that only the run's own are counted."""

    token: str
    actors: frozenset[str]
    placement_groups: frozenset[str]
    is_cluster_ours: bool = True
    #: on a cluster that others use too, the Ray jobs (hex) of the run
    jobs: frozenset[str] = frozenset()

    @classmethod
    def from_cluster(cls, token: str, *, is_cluster_ours: bool) -> "Leftovers":
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
        events: Sequence[AnyEvent],
        directory: RunDirectory,
        *,
        files: bool,
    ) -> None:
        """Wait a little until all has ended by itself; record and remove what has not."""
        # Only what does not end by itself is a leftover: Ray's own cleaning takes seconds.
        for pid, command in _await_none(lambda: find_run_processes(self.token)):
            journal.add(Leftover(kind="process", name=f"pid {pid}: {command}"))
            _end_process(pid)
        for pg_id in _await_none(lambda: [*filter(self._is_new, compat.open_placement_groups())]):
            journal.add(Leftover(kind="placement_group", name=pg_id))
            compat.remove_placement_group(pg_id)
        for name, pid in _await_none(self._actors):
            journal.add(Leftover(kind="actor", name=f"{name}, pid {pid}"))
            if self.is_cluster_ours:  # else it may be a pid of another host
                _end_process(pid)
        searched_storage = search_storage(journal, events, directory, is_watched=files)
        journal.add(LeftoversSearched(places=(*SEARCHED_PARTS, *searched_storage)))

    def _actors(self) -> list[tuple[str, int]]:
        return [
            (name, pid)
            for actor_id, (name, pid) in compat.live_actors().items()
            if self._is_new(actor_id) and name not in CHAOS_ACTORS
        ]

    def _is_new(self, identity: str) -> bool:
        """Return whether an actor or a group is of this run: on a cluster of others, by its job."""
        if identity in self.actors | self.placement_groups:
            return False
        return self.is_cluster_ours or compat.belongs_to_job(identity, self.jobs)


def _await_none(find_leftovers: Callable[[], list[T]]) -> list[T]:
    clock = SystemClock()
    start = clock.now_ns()
    while (leftovers := find_leftovers()) and elapsed_seconds(start, clock) < PATIENCE_S:
        clock.sleep(0.1)
    return leftovers


def _end_process(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ValueError):
        psutil.Process(pid).kill()


def record_bystanders(journal: Journal, directory: RunDirectory) -> None:
    """Record the outcome of each other trial of a run's experiment, by number."""
    histories_by_trial: dict[int, list[History]] = {}
    for folder in sorted(
        directory.trials.glob("[0-9]*"), key=lambda folder: _parse_trial_folder(folder.name)
    ):
        history = read_history(RunDirectory(folder).journals)
        histories_by_trial.setdefault(_parse_trial_folder(folder.name)[0], []).append(history)
    for trial, histories in histories_by_trial.items():
        journal.add(build_bystander(trial, *histories))


def build_bystander(trial: int, history: History, *later_histories: History) -> BystanderSeen:
    """Return the outcome of a trial by its own history; `later_histories`: Tune began it again."""
    if later_histories:
        first_outcome, later_outcome = (
            build_bystander(trial, history),
            build_bystander(trial, *later_histories),
        )
        return msgspec.structs.replace(
            later_outcome,
            began_ns=first_outcome.began_ns,
            attempts=first_outcome.attempts + later_outcome.attempts,
            failures=first_outcome.failures + later_outcome.failures,
        )
    tables = RunTables(history)
    times = [entry.time_ns for entry in history] or [0]
    raised = tables.ending.fit_error
    return BystanderSeen(
        trial=trial,
        began_ns=times[0],
        ended_ns=times[-1],
        attempts=len(tables.attempts),
        failures=history.count(FailureDecided),
        steps=tables.lineage.step_count,
        losses={
            f"rank {rank}, epoch {epoch}": _digest([(step.step, step.losses) for step in steps])
            for (rank, epoch), steps in sorted(tables.lineage.steps.items())
        },
        finished=tables.ending.fit_return is not None,
        error=None if raised is None else raised[1].error,
    )


def _parse_trial_folder(name: str) -> tuple[int, int]:
    """Return trial and turn of a folder's name: `3` is (3, 1), `3-2` is (3, 2)."""
    trial, _, turn = name.partition("-")
    return int(trial), int(turn or 1)


def _digest(losses: object) -> str:
    return hashlib.blake2b(repr(losses).encode(), digest_size=8).hexdigest()
