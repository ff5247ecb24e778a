"""What a run left behind in the cluster, on the host and in storage; found, recorded, removed."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from chaos.backends.ray import compat
from chaos.backends.ray.agent import processes_of
from chaos.backends.train.storage import search_storage
from chaos.model.event import AnyEvent, Leftover, LeftoversSearched
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.journal import Journal

T = TypeVar("T")

PATIENCE_S = 10.0
OURS = ("NodeAgent", "ChaosActor")
PLACES = ("processes", "placement groups", "actors")


@dataclass(frozen=True)
class Leftovers:
    """What was there before the run, so that only the run's own is counted."""

    token: str
    actors: frozenset[str]
    placement_groups: frozenset[str]

    @classmethod
    def before(cls, token: str) -> "Leftovers":
        """Look around before the run begins."""
        return cls(
            token=token,
            actors=frozenset(compat.live_actors()),
            placement_groups=frozenset(compat.open_placement_groups()),
        )

    def search(
        self, journal: Journal, seen: Sequence[AnyEvent], storage: Path, *, files: bool
    ) -> None:
        """Wait a little for things to end by themselves, record what has not, and remove it."""
        for pid, command in _patiently(lambda: processes_of(self.token)):
            journal.add(Leftover(kind="process", what=f"pid {pid}: {command}"))
            _end_process(pid)
        for pg_id in _patiently(self._placement_groups):
            journal.add(Leftover(kind="placement_group", what=pg_id))
            compat.remove_placement_group(pg_id)
        for name, pid in _patiently(self._actors):
            journal.add(Leftover(kind="actor", what=f"{name}, pid {pid}"))
            _end_process(pid)
        stored = search_storage(journal, seen, storage, is_watched=files)
        journal.add(LeftoversSearched(places=(*PLACES, *stored)))

    def _placement_groups(self) -> list[str]:
        return [pg for pg in compat.open_placement_groups() if pg not in self.placement_groups]

    def _actors(self) -> list[tuple[str, int]]:
        return [
            (name, pid)
            for actor_id, (name, pid) in compat.live_actors().items()
            if actor_id not in self.actors and name not in OURS
        ]


def _patiently(look: Callable[[], list[T]]) -> list[T]:
    clock = SystemClock()
    start = clock.now_ns()
    while (found := look()) and seconds_since(start, clock) < PATIENCE_S:
        clock.sleep(0.1)
    return found


def _end_process(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ValueError):
        psutil.Process(pid).kill()
