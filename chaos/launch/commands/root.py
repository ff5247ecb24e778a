"""The first lines of a process that commands are forked from: libraries imported, no script run.

`python -u root.py SOCKET_FD`, by the launcher's own root. Imports take seconds, a fork takes
milliseconds. A root has one thread, since a fork copies no other, and ends with the harness.
"""

import ctypes
import gc
import importlib
import os
import socket
from pathlib import Path

from chaos.declaration import TOKEN_ENV
from chaos.processes.child import redirect_streams
from chaos.processes.forks import exit_with_harness, serve_forks
from chaos.processes.start import ProcessStart
from chaos.processes.view import enter_view
from chaos.processes.wire import Wire


def warm_up(fd: int, *modules: str) -> tuple[Wire, int]:
    """Import torch and these modules; return the wire to the harness, and the token's address."""
    # The address of the variable's text among those that the interpreter was started with.
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    token: int = libc.getenv(TOKEN_ENV.encode())
    harness = Wire(socket.socket(fileno=fd))
    with exit_with_harness(harness.end):
        for module in ("torch._dynamo", *modules):  # an optimizer imports the former, in a second
            importlib.import_module(module)
    # Nothing that exists by now becomes garbage. A collector that visited it in a child would
    # write to its pages, and so copy them.
    gc.collect()
    gc.freeze()
    return harness, token


def serve_starts(requests: Wire, token: int) -> ProcessStart:
    """Fork for each request; return only in a child, once it is as if it had been started so."""
    from chaos.processes.child import draw_fresh_randomness

    request, end = serve_forks(requests)
    start: ProcessStart = request
    # As torchelastic starts its workers (torch 2.13: `start_new_session`): a signal to the group of
    # one reaches no other process of the tree.
    os.setsid()
    if start.view is not None:
        enter_view(start.view)
    for stream, name in ((1, start.stdout), (2, start.stderr)):
        if name is not None:
            redirect_streams(Path(name), stream)
    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.env)
    # `/proc/PID/environ` shows the memory that the kernel filled at the interpreter's start, which
    # `os.environ` does not change. Leftovers of a run are found by the token in it, after a harness
    # that was killed as well, so the token is overwritten in place: in a forked process it would be
    # the root's for ever. Both have the same length, and `token` is the address of the text, found
    # by `getenv` before anything could move it.
    token_text = start.env[TOKEN_ENV].encode()
    ctypes.memmove(token, token_text, len(token_text))
    draw_fresh_randomness()
    end.send(None)
    end.close()
    return start
