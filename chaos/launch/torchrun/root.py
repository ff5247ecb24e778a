"""The process that agents of torchrun are forked from: torch imported, and no script run.

`python -u root.py SOCKET_FD`. Imports take seconds, a fork takes milliseconds.

    harness
      +-- root              one per hash seed, environment and working directory of jobs
            +-- agent       one per run: `agent.main`, in which torchelastic runs as it is installed
                  +-- forker      forks and reaps the workers for the agent, which has threads
                        +-- worker    one per rank and round: `worker.main`, then the script

Root and forker have one thread, since a fork copies no other. Of torchelastic one thing is
replaced: where it would start `python -u worker.py train.py …`, the forker is asked for the same
process. The kernel ends every process when its parent ends, and the root ends with the harness.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    sys.path.pop(0)  # this file's folder: modules of the script's may have the names of these here

import ctypes
import gc
import os
import socket
from pathlib import Path
from typing import Any

from chaos.declared import TOKEN_ENV
from chaos.processes.child import write_to
from chaos.processes.forks import Forks, ended_with, fork_for_each
from chaos.processes.start import ForkedProcess, ProcessStart
from chaos.processes.wire import Wire


def main(fd: int) -> None:
    """Fork agents until the harness is gone; return only in a worker, at the script's end."""
    # The address of the variable's text among those that the interpreter was started with.
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    token = libc.getenv(TOKEN_ENV.encode())
    harness = Wire(socket.socket(fileno=fd))
    with ended_with(harness.end):
        import torch._dynamo  # noqa: F401 - an optimizer imports it, in a second

        from chaos.launch.torchrun import agent, worker
    # Nothing that exists by now becomes garbage. A collector that visited it in a child would
    # write to its pages, and so copy them.
    gc.collect()
    gc.freeze()
    # From here on this is an agent, a child of the root. The forker is forked off first:
    # torchelastic starts threads in the agent, and a process with threads must not be forked from.
    start = _forked(harness, token)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        start = _forked(Wire(theirs), token)
        worker.main(start.words[1:])
        return
    theirs.close()
    fork_workers(Forks(Wire(ours), "the process that workers are forked from"))
    code = agent.main(start.words[0], os.getppid())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing of the job's is in here: what the root imported need not be taken down


def _forked(asks: Wire, token: int) -> ProcessStart:
    """Fork for each request; return only in a child, once it is as if it had been started so."""
    from chaos.processes.child import draw_fresh_randomness

    request, end = fork_for_each(asks)
    start: ProcessStart = request
    # As torchelastic starts its workers (torch 2.13: `start_new_session`): a signal to the group of
    # one reaches no other process of the tree.
    os.setsid()
    for stream, name in ((1, start.stdout), (2, start.stderr)):
        if name is not None:
            write_to(Path(name), stream)
    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.env)
    # `/proc/PID/environ` shows the memory that the kernel filled at the interpreter's start, which
    # `os.environ` does not change. Leftovers of a run are found by the token in it, after a harness
    # that was killed as well, so the token is overwritten in place: in a forked process it would be
    # the root's for ever. Both have the same length, and `token` is the address of the text, found
    # by `getenv` before anything could move it.
    ours = start.env[TOKEN_ENV].encode()
    ctypes.memmove(token, ours, len(ours))
    draw_fresh_randomness()
    end.send(None)
    end.close()
    return start


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
            return ForkedProcess(forks, start, what="a worker")

        def close(self, death_sig: Any = None) -> None:  # a signal
            try:
                super().close(death_sig)
            except ProcessLookupError:  # ended since it was asked for, and reaped by the forker
                return

    api.get_subprocess_handler = ForkedWorker


if __name__ == "__main__":
    main(int(sys.argv[1]))
