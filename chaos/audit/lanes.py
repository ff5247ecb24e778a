"""Runs side by side: each lane has a backend and a thread of its own.

The ranks of a small job wait for each other about as long as they compute, so
more runs at a time than the cores seem to allow still save time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from chaos.audit.baseline_runs import CleanResult
from chaos.errors import NoViewError, RequestError
from chaos.model.event import FileRenamed, WroteOutside
from chaos.model.objects import is_store_object
from chaos.model.paths import is_in_folder
from chaos.probe.write_ledger import WriteLimits, is_spared
from chaos.processes.view import HeldView, ViewFolders
from chaos.run.machine import free_bytes
from chaos.run.ports import Backend, ScriptBackend

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


# Of the memory that is free, for all that is written in views.
VIEW_MEMORY_SHARE = 0.25


def open_view_lanes(
    stack: ExitStack, backend: ScriptBackend, clean: CleanResult, folder: Path, count: int
) -> list[Backend]:
    """Return backends for so many lanes, none of which sees the files of another.

    `folder` is the audit's. `stack` ends them. Raises `NoViewError` if there can be only one.
    """
    if clean.plan.backend != "fork":
        raise NoViewError("its processes are started anew, and only forks of ours enter one")
    created_paths = WriteLimits(folder).list_created()
    written_paths = [event.path for _, event in clean.baseline.select_events(WroteOutside)]
    if any(map(is_store_object, (*created_paths, *written_paths))):
        raise NoViewError("it saves to a bucket, of which there are no views")
    outside_paths = {
        path for path in (*created_paths, *written_paths) if not is_in_folder(path, str(folder))
    }
    paths = [path for path in outside_paths if not is_spared(path)]
    room = int(VIEW_MEMORY_SHARE * free_bytes() / count)
    sights = ViewFolders.from_paths(
        paths, created_paths=set(created_paths), untouched_paths=[str(folder)], max_bytes=room
    )
    for _, rename in clean.baseline.select_events(FileRenamed):
        if sights.covers(rename.path) != sights.covers(rename.to):
            raise NoViewError(
                f"it renames {rename.path} to {rename.to}, which takes one file system"
            )
    views = [stack.enter_context(HeldView(sights)) for _ in range(count)]
    return [stack.enter_context(backend.open_parallel(view)) for view in views]


def require_comparable_runs(clean: CleanResult) -> None:
    """Raise `RequestError` for a job whose runs elsewhere could not be compared with ours."""
    reason = None
    if clean.plan.job.fit > 1:
        reason = (
            "trains before the training that is tested, and elsewhere no files stay between runs"
        )
    elif clean.shares_files:
        reason = "writes files by absolute paths, which runs side by side on a node would share"
    elif not clean.repetition.is_exact:
        reason = (
            "does not repeat itself to the last bit, so that another machine looks "
            f"like a fault: {clean.repetition}"
        )
    if reason is not None:
        hint = "Audit it without {address}."
        raise RequestError("the job {reason}", hint, field="address", reason=reason)
