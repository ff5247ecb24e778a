"""A start of the script: everything imported, the script run up to its `fit()`.

One per job, forked from the root (see `root`). It forks lanes, which fork the
processes of runs: whatever its driver part drew at random, all runs of all lanes
have drawn the same.
"""

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

from chaos.backends.fork import compat, needs
from chaos.backends.fork.earlier import earlier_fits
from chaos.backends.fork.forks import fork_for_each
from chaos.backends.fork.lane import Lane
from chaos.backends.fork.look import refuse_by_its_text
from chaos.backends.fork.messages import Failed, ForkZygote, Ready
from chaos.backends.fork.node_disk import record_start
from chaos.backends.fork.wire import Wire
from chaos.backends.fork.worker import draw_fresh_randomness
from chaos.backends.train.fit import Fit, RunPart
from chaos.backends.train.job import is_clean_exit, run_job
from chaos.backends.train.lifeline import adopt_orphans
from chaos.model.event import ScriptRaised
from chaos.run.directory import RunDirectory


def live_as_zygote(request: ForkZygote, harness: Wire) -> NoReturn:
    """Run the script up to its `fit()`, and fork from there, in a process forked from the root."""
    adopt_orphans()  # what the script starts before its `fit()` ends with this process
    draw_fresh_randomness()
    directory = RunDirectory(Path(request.run_directory))
    plan = directory.load_plan()
    record_start(directory, plan)
    compat.Context.resources = {"CPU": float(plan.shape.nodes * plan.shape.cpus_per_node)}
    fit = Fit(lambda: _serve(harness), number=plan.job.fit, earlier=earlier_fits(plan, directory))
    fit.intercept()
    code = 0
    try:
        refuse_by_its_text(plan.job.source)
        run_job(plan)
    except BaseException as error:  # noqa: BLE001 - the script's, whatever it is
        if not is_clean_exit(error):
            code = 1
            _tell(harness, fit, error)
    if fit.run is None and code == 0:
        harness.send(Failed("NoFit", "ended without calling trainer.fit()"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(harness: Wire) -> RunPart:
    """Fork lanes for ever; returns in each driver, with the run that it is to carry out."""
    needs.refuse_to_fork_tensorflow()
    # Nothing that exists by now is ever garbage, and a collector that looked at it in a
    # child would copy its pages.
    gc.collect()
    gc.freeze()
    harness.send(Ready())
    _, end = fork_for_each(harness)
    try:
        adopt_orphans()
        return Lane(end).serve()
    except Exception as error:  # noqa: BLE001 - it is ours, and the script would take it for its own
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
        os._exit(1)


def _tell(harness: Wire, fit: Fit, error: BaseException) -> None:
    # Printed first: a harness that is told of it may end this process.
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    known = needs.named(error)
    name, message = type(known).__name__, str(known)[:2000]
    if fit.run is None:
        harness.send(Failed(name, message))
    elif error is not fit.raised:
        fit.run.journal.add(ScriptRaised(error=name, message=message))
