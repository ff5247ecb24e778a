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
class SpawnRequest:
    """The start of a spawned child, without its file descriptors."""

    program: str
    words: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    #: the numbers that the file descriptors have in it
    fds: tuple[int, ...]
    ignored: tuple[int, ...]


def fork_template() -> SpawnRequest | None:
    """Fork a template off this process, and have multiprocessing ask it; return only in a child.

    None: this is the command itself.
    """
    command_end, template_end = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        command_end.close()
        die_with_parent(parent)
        return _live_as_template(Wire(template_end))
    template_end.close()
    util.spawnv_passfds = _TemplateClient(Wire(command_end), util.spawnv_passfds).spawn
    return None


class _TemplateClient:
    """The command's side: asks for a child where multiprocessing would start an interpreter."""

    def __init__(self, template: Wire, start: Callable[..., int]) -> None:
        self._template = template
        self._start = start
        self._lock = threading.Lock()

    def spawn(self, path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
        words = [os.fsdecode(word) for word in args]
        is_spawned_child = SPAWNED in words and os.fsdecode(path) == sys.executable
        if is_spawned_child and len(passfds) < FDS_MAX:
            with contextlib.suppress(EOFError, OSError):  # the template is gone: killed, perhaps
                return self._request_fork(words, passfds)
        return self._start(path, args, passfds)

    def _request_fork(self, words: Sequence[str], passfds: Sequence[int]) -> int:
        index = words.index(SPAWNED)
        numbers = (*STREAMS, *sorted(set(map(int, passfds))))
        request = SpawnRequest(
            program=words[index - 1],
            words=("-c", *words[index:]),
            env=dict(os.environ),
            cwd=os.getcwd(),  # noqa: PTH109 - sent as a string
            fds=numbers,
            ignored=tuple(
                number
                for number in signal.valid_signals()
                if signal.getsignal(number) is signal.SIG_IGN
            ),
        )
        with self._lock:
            adopt_orphans()
            try:
                self._template.send(request)
                socket.send_fds(self._template.end, [b"."], numbers)
                pid: int = self._template.receive()
            finally:
                adopt_orphans(wanted=False)
        return pid


def _live_as_template(command: Wire) -> SpawnRequest:
    """Fork for each request; return only in a child, once it is as if it had been started so."""
    while True:
        try:
            request: SpawnRequest = command.receive()
            _, fds, _, _ = socket.recv_fds(command.end, 1, len(request.fds))
        except EOFError:
            os._exit(0)
        # The child's pid comes by a pipe, and goes to the command once the process in between has
        # ended: torch asks for a signal at the end of its parent, which is the command by then.
        read_end, write_end = os.pipe()
        helper = os.fork()
        if helper == 0:
            child = os.fork()
            if child:
                os.write(write_end, str(child).encode())
                os._exit(0)
            os.close(read_end)
            os.close(write_end)
            command.close()
            _apply_request(request, fds)
            return request
        os.close(write_end)
        os.waitpid(helper, 0)
        pid = int(os.read(read_end, 20))
        os.close(read_end)
        for fd in fds:
            os.close(fd)
        command.send(pid)


def _apply_request(request: SpawnRequest, fds: Sequence[int]) -> None:
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
