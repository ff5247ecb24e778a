"""One worker of torchrun: a probe, and then the job's script as `__main__`.

torchrun starts `python -u worker.py train.py …` in place of `python -u train.py …`, and likewise
`python -u worker.py -m package.module …`.
"""

import os
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder: modules of the script's may have the names of these here

from chaos.launch.child import record_training, watch_children
from chaos.launch.commands.worker import report_probe_error, run_notifying_script, start_probe
from chaos.launch.environment import NODE_ENV
from chaos.launch.job import run_script
from chaos.launch.node_disk import build_node_disk
from chaos.launch.torchrun.settings import ATTEMPT_ENV
from chaos.probe.address import RunAddress
from chaos.probe.probe import Probe, Worker
from chaos.processes.child import die_with_parent
from chaos.run.directory import RunDirectory


def main(words: Sequence[str]) -> None:
    """Watch this process, and run the script of these words in it."""
    die_with_parent(os.getppid())
    probe: Probe | None = None
    try:
        probe = _watch_process(RunAddress.from_env())
    except Exception as error:  # noqa: BLE001 - the run goes on; it is judged inconclusive
        report_probe_error(error)
    if probe is None:
        run_script(words)
        return
    probe.record_train_fn_start()
    run_notifying_script(words, probe.record_train_fn_end)


def _watch_process(address: RunAddress) -> Probe:
    plan, node = RunDirectory(address.directory).load_plan(), os.environ[NODE_ENV]
    watch_children(build_node_disk(plan, address, node).use())
    pid = os.getpid()
    journals = RunDirectory(address.directory).journals
    record_training(journals, is_rank=lambda: os.getpid() == pid)
    worker = Worker(
        attempt=int(os.environ[ATTEMPT_ENV]),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        node_id=node,
    )
    return start_probe(worker, address)


if __name__ == "__main__":
    main(sys.argv[1:])
