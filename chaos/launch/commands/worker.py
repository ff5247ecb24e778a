"""One worker of a command: a probe, and the job's script as `__main__`."""

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from chaos.launch.job import is_clean_exit, run_script
from chaos.probe.address import RunAddress
from chaos.probe.probe import Probe, Worker
from chaos.run.directory import RunDirectory


def start_probe(worker: Worker, address: RunAddress) -> Probe:
    """Watch this process from now on; report that its rank begins the script."""
    directory = RunDirectory(address.directory)
    probe = Probe.create_probe(worker, directory, address)
    probe.install(directory, ranks=worker.world_size)
    patch_group_creation(probe.record_group_join)
    probe.record_script_start()
    return probe


def run_notifying_script(
    script_argv: Sequence[str], on_end: Callable[[BaseException | None], None]
) -> None:
    """Run the script of these words; call a function with its error, and raise that."""
    try:
        run_script(script_argv)
    except BaseException as error:
        on_end(None if is_clean_exit(error) else error)
        raise
    on_end(None)


def report_probe_error(error: Exception) -> None:
    """Write that the probe could not start: the run goes on, and is judged inconclusive."""
    os.write(2, f"chaos: the probe could not start: {error}\n".encode())


def patch_group_creation(on_join: Callable[[], None]) -> None:
    """Keep every process group as long as this process, and call a function for the first one.

    torch 2.13: ~ProcessGroupGloo holds the GIL while it waits for its threads, and one of them may
    need it to let go of the context that backward() stored with the last all-reduce
    (`_engine_run_backward`). That deadlocks the worker as its script frees the model, after the
    others have exited; it happened in 3 of about 100 runs on a busy machine.
    """
    from torch.distributed import distributed_c10d

    original = distributed_c10d._new_process_group_helper  # noqa: SLF001
    report_once, pid = functools.cache(on_join), os.getpid()

    @functools.wraps(original)
    def create_group(*args: Any, **kwargs: Any) -> Any:
        group, store = original(*args, **kwargs)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        if os.getpid() == pid:  # a fork of this process is a rank of its own, or none
            report_once()
        return group, store

    distributed_c10d._new_process_group_helper = create_group  # noqa: SLF001
