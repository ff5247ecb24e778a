"""The process that is forked: everything imported, the script run up to its `fit()`.

One per job, itself forked from the root (see `root`). It has one thread and does
nothing but fork: a driver for each run that the harness asks for, a worker for
each that a driver asks for.
"""

import gc
import os
import selectors
import socket
import sys
from pathlib import Path
from typing import NoReturn

from chaos.backends.fork import compat
from chaos.backends.fork.cluster import ForkCluster
from chaos.backends.fork.messages import (
    Exited,
    Failed,
    ForkZygote,
    Ready,
    Spawn,
    Started,
    StartRun,
)
from chaos.backends.fork.port import SocketController
from chaos.backends.fork.wire import Wire, connect
from chaos.backends.fork.worker import draw_fresh_randomness, live_as_worker
from chaos.backends.train.fit import Fit, RunPart
from chaos.backends.train.job import is_clean_exit, run_job
from chaos.backends.train.lifeline import adopt_orphans, die_with_parent, ended_children
from chaos.model.event import ScriptRaised
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import driver_journal
from chaos.run.stacks import DRIVER_STACKS, answer_with_stacks

POLL_S = 0.01


class Zygote:
    """Forks on request until the harness is gone."""

    def __init__(self, harness: Wire) -> None:
        self._harness = harness
        self._drivers: dict[int, Wire] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(harness.end, selectors.EVENT_READ, harness)

    def serve(self) -> RunPart:
        """Serve for ever; returns in each driver, with the run that it is to carry out."""
        compat.refuse_to_fork_tensorflow()
        # Nothing that exists by now is ever garbage, and a collector that looked at it in a
        # child would copy its pages.
        gc.collect()
        gc.freeze()
        self._harness.send(Ready())
        while True:
            for key, _ in self._selector.select(POLL_S):
                wire: Wire = key.data
                try:
                    request = wire.receive()
                except EOFError:
                    self._lost(wire)
                    continue
                if isinstance(request, Spawn):
                    self._fork_worker(request)
                else:
                    part = self._fork_driver(request)
                    if part is not None:
                        return part
            self._reap()

    def _fork_driver(self, request: StartRun) -> RunPart | None:
        ours, theirs = socket.socketpair()
        zygote = os.getpid()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._shed()
            die_with_parent(zygote)
            return _begin_run(request, Wire(theirs))
        theirs.close()
        self._drivers[pid] = Wire(ours)
        self._selector.register(ours, selectors.EVENT_READ, self._drivers[pid])
        self._harness.send(Started(pid))
        return None

    def _fork_worker(self, spawn: Spawn) -> None:
        zygote = os.getpid()
        if os.fork() != 0:
            return
        self._shed()
        try:
            die_with_parent(zygote)
            write_to(Path(spawn.log))
            compat.Context.node_id = spawn.node_id
            compat.Context.session = spawn.session
            live_as_worker(spawn, compat.worker_class()())
        finally:
            os._exit(1)

    def _shed(self) -> None:
        """Close, in a child, the ends that are the zygote's: an open copy would hide an EOF."""
        self._selector.close()
        for wire in [self._harness, *self._drivers.values()]:
            wire.close()

    def _lost(self, wire: Wire) -> None:
        self._selector.unregister(wire.end)
        if wire is self._harness:
            os._exit(0)

    def _reap(self) -> None:
        for pid, code in ended_children():
            if pid in self._drivers:
                wire = self._drivers.pop(pid)
                if wire.end in {key.fileobj for key in self._selector.get_map().values()}:
                    self._selector.unregister(wire.end)
                wire.close()
                self._harness.send(Exited(pid, code))


def live_as_zygote(request: ForkZygote) -> NoReturn:
    """Run the script up to its `fit()`, and fork from there, in a process forked from the root."""
    adopt_orphans()
    draw_fresh_randomness()
    plan = RunDirectory(Path(request.run_directory)).load_plan()
    harness = connect(request.address)
    fit = Fit(Zygote(harness).serve)
    fit.intercept()
    code = 0
    try:
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


def _tell(harness: Wire, fit: Fit, error: BaseException) -> None:
    # Printed first: a harness that is told of it may end this process.
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    known = compat.named(error)
    name, message = type(known).__name__, str(known)[:2000]
    if fit.run is None:
        harness.send(Failed(name, message))
    elif error is not fit.raised:
        fit.run.journal.add(ScriptRaised(error=name, message=message))


def _begin_run(request: StartRun, zygote: Wire) -> RunPart:
    """Become the driver of a run, in a process that was forked for it."""
    directory = RunDirectory(request.address.directory)
    log = directory.logs / "driver.log"
    os.environ.update(request.address.as_env())
    os.environ.update(request.env)
    write_to(log)
    answer_with_stacks(directory.logs / DRIVER_STACKS)
    plan = directory.load_plan()
    journal = driver_journal(directory.journals, SystemClock())
    compat.Context.session = str(directory.storage / ".session")
    cluster = ForkCluster(
        zygote,
        SocketController(request.address.controller.partition(":")[2]),
        cpus_per_node=plan.shape.cpus_per_node,
        log=str(log),
    )
    compat.use_cluster(cluster)
    compat.run_controllers_here(cluster.run_controller)
    return RunPart(plan, directory, journal)


def write_to(log: Path) -> None:
    """Send what this process prints to the run's log."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
