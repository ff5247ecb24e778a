"""The leftovers of a run in the cluster, on the host and in storage: recorded and removed."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil

from chaos.backends.ray import compat
from chaos.backends.ray.agent import processes_of
from chaos.backends.ray.pool import is_waiting
from chaos.backends.train.storage import search_storage
from chaos.model.event import AnyEvent, Leftover, LeftoversSearched
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal

T = TypeVar("T")

PATIENCE_S = 10.0
OURS = ("NodeAgent", "LeasedAgent", "ChaosActor")
PLACES = ("processes", "placement groups", "actors")


@dataclass(frozen=True)
class Leftovers:
    """The actors and groups from before the run, so that only the run's own are counted.

    `jobs`: on a cluster that others use too, the Ray jobs (hex) of the run.
    `prestarts`: it started processes for later attempts; those without work do not count.
    """

    token: str
    actors: frozenset[str]
    placement_groups: frozenset[str]
    is_cluster_ours: bool = True
    jobs: frozenset[str] = frozenset()
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
        for pid, command in _patiently(self._processes):
            journal.add(Leftover(kind="process", what=f"pid {pid}: {command}"))
            _end_process(pid)
        for pg_id in _patiently(self._placement_groups):
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

    def _placement_groups(self) -> list[str]:
        return [pg for pg in compat.open_placement_groups() if self._is_new(pg)]

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
