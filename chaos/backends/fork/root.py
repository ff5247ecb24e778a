"""The process that zygotes are forked from: Ray Train and torch imported, and no script run.

`python -m chaos.backends.fork.root SOCKET_FD`. Importing takes seconds, a fork
takes milliseconds; every job of a harness begins here. It has one thread, and
ends when the harness is gone.
"""

import os
import select
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
    with _ended_with(harness.end):
        compat.warm_up()
    compat.replace_core()
    needs.refuse_ray_data()
    request, end = fork_for_each(harness)
    try:
        _become_zygote(request, end)
    except BaseException as error:  # noqa: BLE001 - ours: nobody sees it but in this log
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(1)


@contextmanager
def _ended_with(harness: socket.socket) -> Iterator[None]:
    """End this process if the harness ends meanwhile: importing, it reads no socket for seconds.

    The kernel's own signal at the parent's end would come when the thread ends that has
    started this process. No thread of ours is left: what has threads cannot be forked.
    """
    stop, stops = os.pipe()
    ends = select.poll()
    ends.register(harness, select.POLLRDHUP)
    ends.register(stop, select.POLLIN)

    def wait() -> None:
        if any(fd == harness.fileno() for fd, _ in ends.poll()):
            os._exit(1)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        os.close(stops)
        waiting.join()
        os.close(stop)


def _become_zygote(request: ForkZygote, harness: Wire) -> None:
    os.setsid()
    write_to(Path(request.log))
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    sys.path[0] = request.cwd  # where `python -m` put the folder that the root was started in
    live_as_zygote(request, harness)


if __name__ == "__main__":
    main(int(sys.argv[1]))
