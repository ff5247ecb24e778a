"""Children that multiprocessing spawns, forked from a copy of the command as it was at its start.

A spawned child is a new interpreter, which imports torch for seconds. Here it is a fork of the
template, which has torch imported and has run no line of the script:

    command ── template              forked off before the script's first line; it has one thread
        │          └── (ended)       forks the child and ends, so that the command adopts the child
        └── child                    of the command, for the kernel as well: `waitpid`, SIGCHLD, the
                                     signal at its parent's end

It has the arguments, environment, folder, file descriptors, ignored signals, session and group that
a new interpreter would have, and random generators that nothing has seeded. What a library reads
from the environment as it is imported is that of the command's start.
"""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import util
from typing import Any

from chaos.processes.child import adopt_orphans, die_with_parent, draw_fresh_randomness
from chaos.processes.wire import Wire

SPAWNED = "--multiprocessing-fork"  # the word after the program of a spawned child
STREAMS = (0, 1, 2)
FDS_MAX = 250


@dataclass(frozen=True)
class Spawn:
    """The start of a spawned child, without its file descriptors."""

    program: str
    words: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    #: the numbers that the file descriptors have in it
    fds: tuple[int, ...]
    ignored: tuple[int, ...]


def fork_template() -> Spawn | None:
    """Fork a template off this process, and have multiprocessing ask it; return only in a child.

    None: this is the command itself.
    """
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        ours.close()
        die_with_parent(parent)
        return _live_as_template(Wire(theirs))
    theirs.close()
    util.spawnv_passfds = _Asker(Wire(ours), util.spawnv_passfds).spawn
    return None


class _Asker:
    """The command's side: asks for a child where multiprocessing would start an interpreter."""

    def __init__(self, template: Wire, start: Callable[..., int]) -> None:
        self._template = template
        self._start = start
        self._turn = threading.Lock()

    def spawn(self, path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
        words = [os.fsdecode(word) for word in args]
        is_ours = SPAWNED in words and os.fsdecode(path) == sys.executable
        if is_ours and len(passfds) < FDS_MAX:
            with contextlib.suppress(EOFError, OSError):  # the template is gone: killed, perhaps
                return self._forked(words, passfds)
        return self._start(path, args, passfds)

    def _forked(self, words: Sequence[str], passfds: Sequence[int]) -> int:
        at = words.index(SPAWNED)
        numbers = (*STREAMS, *sorted(set(map(int, passfds))))
        request = Spawn(
            program=words[at - 1],
            words=("-c", *words[at:]),
            env=dict(os.environ),
            cwd=os.getcwd(),  # noqa: PTH109 - sent as a string
            fds=numbers,
            ignored=tuple(
                number
                for number in signal.valid_signals()
                if signal.getsignal(number) is signal.SIG_IGN
            ),
        )
        with self._turn:
            adopt_orphans()
            try:
                self._template.send(request)
                socket.send_fds(self._template.end, [b"."], numbers)
                pid: int = self._template.receive()
            finally:
                adopt_orphans(wanted=False)
        return pid


def _live_as_template(command: Wire) -> Spawn:
    """Fork for each request; return only in a child, once it is as if it had been started so."""
    while True:
        try:
            request: Spawn = command.receive()
            _, fds, _, _ = socket.recv_fds(command.end, 1, len(request.fds))
        except EOFError:
            os._exit(0)
        # The child's pid comes by a pipe, and goes to the command once the process in between has
        # ended: torch asks for a signal at the end of its parent, which is the command by then.
        told, tells = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child:
                os.write(tells, str(child).encode())
                os._exit(0)
            os.close(told)
            os.close(tells)
            command.close()
            _become(request, fds)
            return request
        os.close(tells)
        os.waitpid(between, 0)
        pid = int(os.read(told, 20))
        os.close(told)
        for fd in fds:
            os.close(fd)
        command.send(pid)


def _become(request: Spawn, fds: Sequence[int]) -> None:
    free = max(request.fds) + 1
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, free) for fd in fds]
    for fd in fds:
        os.close(fd)
    for number, copy in zip(request.fds, copies, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    sys.argv = [*request.words]
    draw_fresh_randomness()
