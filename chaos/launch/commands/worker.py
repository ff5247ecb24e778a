"""One worker of a command: a probe, and the job's script as `__main__`."""

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from chaos.launch.commands.ahead import FOLDER, Imports, notes_imports
from chaos.launch.job import is_clean_exit, run_script
from chaos.probe.address import RunAddress
from chaos.probe.probe import Probe, Worker
from chaos.run.directory import RunDirectory


def opened(worker: Worker, address: RunAddress) -> Probe:
    """Watch this process from now on; report that its rank begins the script."""
    directory = RunDirectory(address.directory)
    probe = Probe.of(worker, directory, address)
    probe.install(directory, ranks=worker.ranks)
    imports = None
    if worker.attempt == 0 and worker.ranks > 1 and notes_imports():
        imports = Imports()

    def joined() -> None:
        if imports is not None:
            with suppress(Exception):  # each worker imports for itself then
                imports.write(directory.path / FOLDER, worker.rank)
        probe.group_joined()

    keep_groups(joined)
    probe.script_begins()
    return probe


def run_watched(words: Sequence[str], ended: Callable[[BaseException | None], None]) -> None:
    """Run the script of these words; call a function with its error, and raise that."""
    try:
        run_script(words)
    except BaseException as error:
        ended(None if is_clean_exit(error) else error)
        raise
    ended(None)


def complain(error: Exception) -> None:
    """Write that the probe could not start: the run goes on, and is judged inconclusive."""
    os.write(2, f"chaos: the probe could not start: {error}\n".encode())


def keep_groups(joined: Callable[[], None]) -> None:
    """Keep every process group as long as this process, and call a function for the first one.

    torch 2.13: ~ProcessGroupGloo holds the GIL while it waits for its threads, and one of them may
    need it to let go of the context that backward() stored with the last all-reduce
    (`_engine_run_backward`). A worker then hangs in the line of its script that frees the model,
    and the others have ended: three of some hundred runs on a busy machine did.
    """
    from torch.distributed import distributed_c10d

    original = distributed_c10d._new_process_group_helper  # noqa: SLF001
    tell, pid = functools.cache(joined), os.getpid()

    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> Any:
        group, store = original(*args, **kwargs)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        if os.getpid() == pid:  # a fork of this process is a rank of its own, or none
            tell()
        return group, store

    distributed_c10d._new_process_group_helper = made  # noqa: SLF001
