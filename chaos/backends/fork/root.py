"""The process that zygotes are forked from: Ray Train and torch imported, and no script run.

`python -m chaos.backends.fork.root SOCKET_FD`. Importing takes seconds, a fork
takes milliseconds; every job of a harness begins here. It has one thread, and
ends when the harness is gone.
"""

import os
import selectors
import socket
import sys
from pathlib import Path

from chaos.backends.fork import compat
from chaos.backends.fork.messages import Exited, ForkZygote, Started
from chaos.backends.fork.wire import Wire
from chaos.backends.fork.zygote import live_as_zygote, write_to
from chaos.backends.train.lifeline import die_with_parent, ended_children

POLL_S = 0.01


def main(fd: int) -> None:
    """Serve until the harness is gone; in each zygote, live as one."""
    harness = Wire(socket.socket(fileno=fd))
    compat.warm_up()
    compat.replace_core()
    selector = selectors.DefaultSelector()
    selector.register(harness.end, selectors.EVENT_READ)
    while True:
        if selector.select(POLL_S):
            try:
                request: ForkZygote = harness.receive()
            except EOFError:
                os._exit(0)  # what was forked here is killed by the kernel with us
            root, pid = os.getpid(), os.fork()
            if pid == 0:
                selector.close()
                harness.close()
                _become_zygote(request, root)
            harness.send(Started(pid))
        for pid, code in ended_children():
            harness.send(Exited(pid, code))


def _become_zygote(request: ForkZygote, root: int) -> None:
    try:
        os.setsid()
        die_with_parent(root)
        write_to(Path(request.log))
        os.chdir(request.cwd)
        os.environ.clear()
        os.environ.update(request.env)
        sys.path[0] = request.cwd  # where `python -m` put the folder that the root was started in
        live_as_zygote(request)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
