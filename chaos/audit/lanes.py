"""Runs side by side: each lane has a backend and a thread of its own.

The ranks of a small job wait for each other about as long as they compute, so
more runs at a time than the cores seem to allow still save time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Self, TypeVar

from chaos.run.ports import Backend

T = TypeVar("T")
R = TypeVar("R")


def count_lanes(cpus: int, *, workers: int) -> int:
    """Return the number of runs at a time for a job with so many workers."""
    return max(1, 2 * cpus // workers)


def run_side_by_side(
    work: Callable[[Backend, T], R], items: Iterable[T | None], backends: Sequence[Backend]
) -> Iterator[R]:
    """Do `work` on every item, and yield each result as it comes.

    An item is taken only when a lane is free. None in its place waits for a result, after which
    there may be more items. If work raises, or the caller stops, the
    backends are closed, which breaks off the runs under way.
    """
    if len(backends) == 1:
        yield from (work(backends[0], item) for item in items if item is not None)
        return
    with Lanes(backends) as lanes:
        for item in items:
            while not lanes.idle_lanes:
                yield from lanes.wait_for_results()
            if item is None:
                yield from lanes.wait_for_results()
            else:
                lanes.start(work, item)
        while lanes.running_lanes:
            yield from lanes.wait_for_results()


class Lanes:
    """Threads that live as long as the lanes: a process ends with the thread that forked it."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = backends
        self.idle_lanes = [(ThreadPoolExecutor(1), backend) for backend in backends]
        self._threads = [thread for thread, _ in self.idle_lanes]
        self.running_lanes: dict[Future[Any], tuple[ThreadPoolExecutor, Backend]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for backend in self._backends if kind is not None else self._backends[1:]:
            backend.close()
        for thread in self._threads:
            thread.shutdown()

    def start(self, work: Callable[[Backend, T], R], item: T) -> None:
        """Begin an item on an idle lane."""
        thread, backend = self.idle_lanes.pop()
        self.running_lanes[thread.submit(work, backend, item)] = (thread, backend)

    def wait_for_results(self) -> Iterator[Any]:
        """Wait until a lane is free; yield the results that are there, or raise an item's error."""
        finished_futures, _ = wait(self.running_lanes, return_when=FIRST_COMPLETED)
        for future in finished_futures:
            self.idle_lanes.append(self.running_lanes.pop(future))
            yield future.result()
