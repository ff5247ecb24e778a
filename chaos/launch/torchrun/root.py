"""The process that agents of torchrun are forked from: torch imported, and no script run.

`python -u root.py SOCKET_FD` (see `commands.root`).

    harness
      +-- root              one per hash seed, environment and working directory of jobs
            +-- agent       one per run: `agent.main`, in which torchelastic runs as it is installed
                  +-- forker      forks and reaps the workers for the agent, which has threads
                        +-- worker    one per rank and round: `worker.main`, then the script

The forker has one thread, as the root has. Of torchelastic one thing is replaced: where it would
start `python -u worker.py train.py …`, the forker is asked for the same process. The kernel ends
every process when its parent ends.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    sys.path.pop(0)  # this file's folder: modules of the script's may have the names of these here

import os
import socket
from pathlib import Path
from typing import Any

from chaos.launch.commands.root import serve_starts, warm_up
from chaos.processes.forks import Forks, build_death_error
from chaos.processes.start import ForkedProcess, ProcessStart
from chaos.processes.wire import Wire


def main(fd: int) -> None:
    """Fork agents until the harness is gone; return only in a worker, at the script's end."""
    harness, token = warm_up(fd, "chaos.launch.torchrun.agent", "chaos.launch.torchrun.worker")
    from chaos.launch.torchrun import agent, worker

    # From here on this is an agent, a child of the root. The forker is forked off first:
    # torchelastic starts threads in the agent, and a process with threads must not be forked from.
    start = serve_starts(harness, token)
    agent_end, forker_end = socket.socketpair()
    if os.fork() == 0:
        agent_end.close()
        start = serve_starts(Wire(forker_end), token)
        worker.main(start.words[1:])
        return
    forker_end.close()
    fork_workers(
        Forks(
            Wire(agent_end), lambda: build_death_error("the process that workers are forked from")
        )
    )
    code = agent.main(start.words[0], os.getppid())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing of the job's is in here: what the root imported need not be taken down


def fork_workers(forks: Forks) -> None:
    """Replace the start of torchelastic's workers, in an agent, by a fork (torch 2.13)."""
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    class ForkedWorker(SubprocessHandler):  # type: ignore[misc]
        """One worker; all but the start of its process is torchelastic's own."""

        def _popen(self, args: tuple[str, ...], env: dict[str, str]) -> ForkedProcess:
            _, unbuffered, *words = args
            assert unbuffered == "-u"
            out, err = (stream and stream.name for stream in (self._stdout, self._stderr))
            start = ProcessStart(tuple(words), env, str(Path.cwd()), out, err)
            return ForkedProcess(forks, start, process_name="a worker")

        def close(self, death_sig: Any = None) -> None:  # a signal
            try:
                super().close(death_sig)
            except ProcessLookupError:  # ended since it was asked for, and reaped by the forker
                return

    api.get_subprocess_handler = ForkedWorker


if __name__ == "__main__":
    main(int(sys.argv[1]))
