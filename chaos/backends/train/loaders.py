"""The processes of a worker's data loaders, as torch itself counts them."""

import os
from collections.abc import Callable
from typing import Any


def watch_loaders(changed: Callable[[int], None]) -> None:
    """Call `changed` with the number of processes from now on, whenever a loader begins or ends.

    torch 2.13 notes each iterator's processes, and forgets them once the iterator is done with
    them; a library with an iterator of its own does the same.
    """
    try:
        from torch.utils.data._utils import signal_handling
    except ImportError:  # a job that boosts trees needs no torch
        return
    processes: dict[int, int] = {}
    own = os.getpid()
    begun, ended = signal_handling._set_worker_pids, signal_handling._remove_worker_pids  # noqa: SLF001

    def tell() -> None:
        if os.getpid() == own:
            changed(sum(processes.values()))

    def begin(loader: int, pids: Any) -> Any:  # noqa: ANN401 - torch's
        result = begun(loader, pids)
        processes[loader] = len(pids)
        tell()
        return result

    def end(loader: int) -> Any:  # noqa: ANN401 - torch's
        result = ended(loader)
        if processes.pop(loader, 0):
            tell()
        return result

    signal_handling._set_worker_pids = begin  # noqa: SLF001
    signal_handling._remove_worker_pids = end  # noqa: SLF001
