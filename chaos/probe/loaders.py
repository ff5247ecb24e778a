"""The processes of a worker's data loaders, as torch itself counts them."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from chaos.errors import LoaderLostError
from chaos.probe.training_listener import TrainingListener


def watch_loaders(listener: TrainingListener) -> None:
    """Count the processes from now on, whenever a loader begins or ends.

    torch 2.13 notes each iterator's processes, and forgets them once the iterator is done with
    them; a library with an iterator of its own does the same.
    """
    try:
        from torch.utils.data._utils import signal_handling
    except ImportError:  # a job that boosts trees needs no torch
        return
    processes: dict[int, int] = {}
    rank_pid = os.getpid()
    original_begin = signal_handling._set_worker_pids  # noqa: SLF001
    original_end = signal_handling._remove_worker_pids  # noqa: SLF001

    def report_count() -> None:
        # A loader's process is a fork of this one, with these functions in it; what it opens is not
        # the rank's.
        if os.getpid() == rank_pid:
            listener.loaders_counted(sum(processes.values()))

    def begin(loader: int, pids: Any) -> Any:  # torch's
        result = original_begin(loader, pids)
        processes[loader] = len(pids)
        report_count()
        iterator = sys._getframe(1).f_locals.get("self")  # noqa: SLF001 - torch passes its id alone
        if getattr(iterator, "_persistent_workers", False) and os.getpid() == rank_pid:
            listener.loader_started(iterator)
        return result

    def end(loader: int) -> Any:  # torch's
        result = original_end(loader)
        if processes.pop(loader, 0):
            report_count()
        return result

    signal_handling._set_worker_pids = begin  # noqa: SLF001
    signal_handling._remove_worker_pids = end  # noqa: SLF001


def watch_loader_starts(begin: Callable[[Any], Callable[[], None]]) -> None:
    """Call `begin` with each loader as its processes are about to be started.

    What it returns is called as soon as they are.
    """
    from torch.utils.data import dataloader

    cls = dataloader._MultiProcessingDataLoaderIter  # noqa: SLF001
    original = cls.__init__

    def make(iterator: Any, loader: Any) -> None:  # as torch 2.13 calls it
        end = begin(loader)
        try:
            original(iterator, loader)
        finally:
            end()

    cls.__init__ = make


@contextlib.contextmanager
def postpone_loader_loss() -> Iterator[None]:
    """Raise torch's error of a lost loader process after the block, as one that is the job's.

    torch 2.13 raises it in the handler of SIGCHLD, wherever the main thread is: while that is held
    at a place, in chaos's own code, which must neither break off nor keep it. A train function that
    is not the main thread's has no such handler.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and callable(handler)):
        yield
        return
    signals: list[tuple[int, Any]] = []
    signal.signal(signal.SIGCHLD, lambda number, frame: signals.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, handler)
    try:
        # Once, however many came: torch's handler looks at the processes of all loaders.
        for number, frame in signals[-1:]:
            handler(number, frame)
    except RuntimeError as error:
        raise LoaderLostError(str(error)) from error
