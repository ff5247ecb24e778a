"""The root, from which zygotes are forked, and the zygote, which has run the script to its `fit()`.

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

import gc
import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

from chaos.launch.forked import compat, core
from chaos.launch.forked import unsupported_calls as needs
from chaos.launch.forked.first_driver import build_earlier_fit
from chaos.launch.forked.lane import Lane
from chaos.launch.forked.messages import ForkLane, ForkZygote, ScriptFailed, ScriptReady
from chaos.launch.job import is_clean_exit, run_job
from chaos.launch.node_disk import record_start_writes
from chaos.launch.raytrain.fit import FitWrapper, RunPart
from chaos.launch.torchrun_requests import TorchrunRequests
from chaos.model.event import NO_FIT, UNCALLED, ScriptRaised
from chaos.processes.child import adopt_orphans, draw_fresh_randomness, redirect_streams
from chaos.processes.forks import exit_with_harness, serve_forks
from chaos.processes.view import enter_view
from chaos.processes.wire import Wire
from chaos.run.directory import RunDirectory


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
    _live_as_zygote(request, harness)


# -- the zygote ------------------------------------------------------------------------------------
#
# One per job, forked from the root. It forks lanes, which fork the processes of runs: random
# numbers that the script drew before its `fit()` are the same in all runs of all lanes.


def _live_as_zygote(request: ForkZygote, harness: Wire) -> NoReturn:
    """Become a zygote, in a fork of the root: run the script up to its `fit()`, and fork there."""
    adopt_orphans()  # processes that the script starts before its `fit()` end with this one
    draw_fresh_randomness()
    directory = RunDirectory(Path(request.run_directory))
    plan = directory.load_plan()
    record_start_writes(directory, plan)
    core.Context.resources = {"CPU": float(plan.shape.nodes * plan.shape.cpus_per_node)}
    requests = TorchrunRequests()
    begin = requests.wrap_fit(lambda: _serve(harness))
    fit = FitWrapper(begin, number=plan.job.fit, earlier=build_earlier_fit(plan, directory))
    fit.intercept()
    requests.start()
    code = 0
    try:
        run_job(plan)
    except BaseException as error:  # noqa: BLE001 - the script's, whatever it is
        if not is_clean_exit(error):
            code = 1
            _report_failure(harness, fit, error, requests)
    if fit.run is None and code == 0:
        harness.send(ScriptFailed(NO_FIT, UNCALLED, requests.find_request()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(harness: Wire) -> RunPart:
    """Fork lanes for ever; return only in a driver, with the run that it is to execute."""
    # This runs inside the script's call of `fit()`. The zygote and its lanes never leave it; a
    # driver returns, and the script goes on there as if it had been started for this run.
    needs.refuse_to_fork_tensorflow()
    # Nothing that exists by now becomes garbage. A collector that visited it in a child
    # would write to its pages, and so copy them.
    gc.collect()
    gc.freeze()
    harness.send(ScriptReady())
    request, end = serve_forks(harness)
    assert isinstance(request, ForkLane)
    try:
        if request.view is not None:
            enter_view(request.view)
        adopt_orphans()
        return Lane(end).serve()
    except Exception as error:  # noqa: BLE001 - of chaos; the script must not catch it
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
        os._exit(1)


def _report_failure(
    harness: Wire, fit: FitWrapper, error: BaseException, requests: TorchrunRequests
) -> None:
    # Printed first: the harness may end this process as soon as it has the message.
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    explained = needs.explain_error(error)
    name, message = type(explained).__name__, str(explained)[:2000]
    if fit.run is None:
        harness.send(ScriptFailed(name, message, requests.find_request(error)))
    elif error is not fit.raised:
        fit.run.journal.add(ScriptRaised(error=name, message=message))


if __name__ == "__main__":
    main(int(sys.argv[1]))
