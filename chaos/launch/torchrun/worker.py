"""One worker of torchrun: a probe, and then the job's script as `__main__`.

torchrun starts `python -u worker.py train.py …` in place of `python -u train.py …`, and likewise
`python -u worker.py -m package.module …`.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder: modules of the script's may have the names of these here

from chaos.launch.job import is_clean_exit, run_script
from chaos.launch.node_disk import NodeDisk
from chaos.launch.torchrun.settings import ATTEMPT_ENV, NODE_ENV, confines_of
from chaos.probe.address import RunAddress
from chaos.probe.probe import Probe, Worker
from chaos.processes.child import die_with_parent
from chaos.run.directory import RunDirectory


def main(words: Sequence[str]) -> None:
    """Watch this process, and run the script of these words in it."""
    die_with_parent(os.getppid())
    probe: Probe | None = None
    try:
        probe = _probe(RunAddress.from_env())
    except Exception as error:  # noqa: BLE001 - the run goes on; it is judged inconclusive
        os.write(2, f"chaos: the probe could not start: {error}\n".encode())
    if probe is None:
        run_script(words)
        return
    probe.train_fn_begins()
    try:
        run_script(words)
    except BaseException as error:
        probe.train_fn_ended(None if is_clean_exit(error) else error)
        raise
    probe.train_fn_ended(None)


def _probe(address: RunAddress) -> Probe:
    directory = RunDirectory(address.directory)
    plan = directory.load_plan()
    node = os.environ[NODE_ENV]
    NodeDisk(address, node, confines_of(plan, address.directory)).use()
    worker = Worker(
        attempt=int(os.environ[ATTEMPT_ENV]),
        rank=int(os.environ["RANK"]),
        ranks=int(os.environ["WORLD_SIZE"]),
        node_id=node,
    )
    probe = Probe.of(worker, directory, address)
    probe.install(directory, ranks=worker.ranks)
    _follow_imports(probe)
    keep_groups()
    probe.script_begins()
    return probe


def _follow_imports(probe: Probe) -> None:
    """Look for libraries that save, as the script joins its process group: they are imported."""
    import torch.distributed as dist

    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        probe.libraries_imported()
        return result

    dist.init_process_group = init_process_group


def keep_groups() -> None:
    """Keep every process group as long as this process, which frees it as it ends.

    torch 2.13: ~ProcessGroupGloo holds the GIL while it waits for its threads, and one of them may
    need it to let go of the context that backward() stored with the last all-reduce
    (`_engine_run_backward`). A worker then hangs in the line of its script that frees the model,
    and the others have ended: three of some hundred runs on a busy machine did.
    """
    from torch.distributed import distributed_c10d

    original = distributed_c10d._new_process_group_helper  # noqa: SLF001

    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> Any:
        group, store = original(*args, **kwargs)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        return group, store

    distributed_c10d._new_process_group_helper = made  # noqa: SLF001


if __name__ == "__main__":
    main(sys.argv[1:])
