"""The process that zygotes are forked from: Ray Train and torch imported, and no script run.

`python -m chaos.launch.forked.root SOCKET_FD`. Imports take seconds, a fork takes
milliseconds; every job of a harness begins here.

    harness                chaos itself, or pytest
      |
      +-- root             one per hash seed and environment of a job; a new interpreter
            |
            +-- zygote     one per job: its script, run up to `fit()`
                  |
                  +-- lane         one for each run that goes on at the same time
                        |
                        +-- driver     one per run: Ray's TrainController
                        |
                        +-- worker     one per rank and attempt: Ray's RayTrainWorker
                              |
                              +-- what the job starts, such as a DataLoader's workers

Root, zygote and lane have one thread, since a fork copies no other. Each reaps its children and
reports their ends to the harness (a worker's only if a foreign signal killed it). A driver asks
its lane for workers, so they are children of the lane. Lane and zygote also adopt and reap the
orphans below them. The root ends when its connection to the harness ends, a worker when that to
its driver does. The kernel kills every zygote, lane, driver and worker when its parent ends.
After a driver was killed, its script starts in a new zygote, with a lane of its own. For an
earlier `fit()` the zygote forks one more lane, and reaps it before it goes on (`first_driver`).
"""

import os
import socket
import sys
from pathlib import Path

from chaos.launch.forked import compat
from chaos.launch.forked import unsupported_calls as needs
from chaos.launch.forked.messages import ForkZygote
from chaos.launch.forked.zygote import live_as_zygote
from chaos.processes.child import redirect_streams
from chaos.processes.forks import exit_with_harness, serve_forks
from chaos.processes.view import enter_view
from chaos.processes.wire import Wire


def main(fd: int) -> None:
    """Fork zygotes until the harness is gone; does not return."""
    harness = Wire(socket.socket(fileno=fd))
    with exit_with_harness(harness.end):
        compat.warm_up()
    compat.replace_core()
    needs.replace_dataset_readers()
    request, end = serve_forks(harness)
    try:
        _become_zygote(request, end)
    except BaseException as error:  # noqa: BLE001 - of chaos: it is seen in this log alone
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(1)


def _become_zygote(request: ForkZygote, harness: Wire) -> None:
    os.setsid()
    if request.view is not None:
        enter_view(request.view)
    redirect_streams(Path(request.log))
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    sys.path[0] = request.cwd  # where `python -m` put the folder that the root was started in
    live_as_zygote(request, harness)


if __name__ == "__main__":
    main(int(sys.argv[1]))
