"""The process that zygotes are forked from: Ray Train and torch imported, and no script run.

`python -m chaos.backends.fork.root SOCKET_FD`. Importing takes seconds, a fork
takes milliseconds; every job of a harness begins here. It has one thread, and
ends when the harness is gone.
"""

import os
import socket
import sys
from pathlib import Path

from chaos.backends.fork import compat, needs
from chaos.backends.fork.forks import fork_for_each
from chaos.backends.fork.messages import ForkZygote
from chaos.backends.fork.printed import write_to
from chaos.backends.fork.wire import Wire
from chaos.backends.fork.zygote import live_as_zygote


def main(fd: int) -> None:
    """Serve until the harness is gone; in each zygote, live as one."""
    harness = Wire(socket.socket(fileno=fd))
    compat.warm_up()
    compat.replace_core()
    needs.refuse_ray_data()
    request = fork_for_each(harness)
    try:
        _become_zygote(request)
    finally:
        os._exit(1)


def _become_zygote(request: ForkZygote) -> None:
    os.setsid()
    write_to(Path(request.log))
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    sys.path[0] = request.cwd  # where `python -m` put the folder that the root was started in
    live_as_zygote(request)


if __name__ == "__main__":
    main(int(sys.argv[1]))
