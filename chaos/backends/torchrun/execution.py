"""One run under torchrun, from the harness's side."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaos.backends.fork.ending import kill
from chaos.backends.fork.node_disk import make_room, remove_disks
from chaos.backends.fork.outside import settle
from chaos.backends.fork.world import ForkWorld
from chaos.backends.torchrun.process import Process, Start, Starter
from chaos.backends.torchrun.server import RoundServer
from chaos.backends.torchrun.settings import HASH_SEED, confines_of, environment_of
from chaos.backends.train.address import RunAddress
from chaos.declared import TOKEN_ENV
from chaos.model.event import (
    Disturbed,
    FailureDecided,
    FaultInvoked,
    Leftover,
    LeftoversSearched,
)
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal, Trained
from chaos.run.signals import DRIVER_STACKS, STACK_SIGNAL, is_foreign, killed, rank_stacks
from chaos.run.watch import RunWatch

AGENT = "chaos.backends.torchrun.agent"
POLL_S = 0.05
END_S = 5.0
STACKS_S = 0.5


def started_anew(start: Start) -> Process:
    """Start an agent in a new interpreter."""
    assert start.stdout is not None
    with Path(start.stdout).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", AGENT, *start.words, str(os.getpid())],
            env=start.env,
            cwd=start.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the harness alone, which ends the driver
        )


@dataclass
class Run(RunWatch[Process]):
    """One execution of one plan; its driver is the process that calls torchrun."""

    hash_seed: str = HASH_SEED
    again_after: str | None = None
    starter: Starter = started_anew

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        make_room(self.address)
        self.world = ForkWorld(self.clock, 1, ArmedFaults(self.directory.storage_faults))

    def execute(self) -> None:
        """Start torchrun, watch it, clean up; the outcome is in the journals."""
        self.begin(again_after=self.again_after)
        chaos = Journal(self.directory.journals, "chaos", role="chaos", clock=self.clock)
        controller = ChaosController(
            self.plan, self.world, chaos, has_trained=Trained(self.directory.journals)
        )
        name = self.address.controller.partition(":")[2]
        server = RoundServer(name, controller, self.world, ranks=self.plan.job.workers)
        interrupted = True
        try:
            self.watch()
            interrupted = False
        finally:
            self.world.end()
            controller.finish(within_s=END_S)
            server.close()
            chaos.close()
            with contextlib.ExitStack() as closing:  # each step is taken, even if one raises
                closing.callback(self.end, interrupted=interrupted)
                closing.callback(remove_disks, self.address)
                self._search_leftovers()
                confines = confines_of(self.plan, self.directory.path)
                settle(self.address, confines, self.journal)

    def start_driver(self) -> Process:
        """Start the process that calls torchrun."""
        log = str(self.directory.logs / "driver.log")
        env = environment_of(self.plan, self.address, hash_seed=self.hash_seed)
        return self.starter(Start((str(self.directory.path),), env, self.plan.cwd, log, log))

    def driver_started(self, driver: Process) -> None:
        """Set the world's driver."""
        self.world.driver = driver.pid

    def exit_code(self, driver: Process) -> int | None:
        """Return the driver's exit code, None while it runs."""
        code = driver.poll()
        if code is not None and is_foreign(code):
            self.journal.add(Disturbed(why=killed("torchrun", code)))
        elif (rank := self._struck_from_outside()) is not None:
            why = killed(f"the worker of rank {rank}", -signal.SIGKILL)
            self.journal.add(Disturbed(why=why))
        return code

    def _struck_from_outside(self) -> int | None:
        """Return a rank whose worker was killed, in an attempt that no fault was injected into."""
        seen = self.seen()
        struck = {event.attempt for event in seen if isinstance(event, FaultInvoked)}
        for event in seen:
            if isinstance(event, FailureDecided) and event.attempt not in struck:
                for rank, error in event.errors.items():
                    if error.startswith("ended by SIGKILL"):
                        return rank
        return None

    def end_driver(self, driver: Process) -> int:
        """Kill torchrun; its workers end with it."""
        driver.kill()
        return driver.wait()

    def meanwhile(self) -> None:
        """Wait."""
        self.clock.sleep(POLL_S)

    def take_stacks(self, driver: Process) -> None:
        """Signal all ranks and the driver to write their stacks: faulthandler does, even in C++."""
        ranks = [(e.pid, e.rank, rank_stacks(e.rank, e.pid)) for e in self.workers()]
        asked: list[tuple[int, int | None, str]] = [(driver.pid, None, DRIVER_STACKS), *ranks]
        for pid, rank, name in asked:
            if (self.directory.logs / name).exists() and psutil.pid_exists(pid):
                os.kill(pid, STACK_SIGNAL)
                self.stack_taken(pid, rank)
        self.clock.sleep(STACKS_S)

    def _search_leftovers(self) -> None:
        """Wait a little for the run's processes to end, record those that do not, end them."""
        start = self.clock.now_ns()
        while (left := list(self._left())) and seconds_since(start, self.clock) < END_S:
            self.clock.sleep(POLL_S)
        for process in left:
            with contextlib.suppress(psutil.Error):  # it may end with another of its group
                command = " ".join(process.cmdline())[:120]
                self.journal.add(Leftover(kind="process", what=f"pid {process.pid}: {command}"))
                kill(process)
        self.journal.add(LeftoversSearched(places=("processes",)))

    def _left(self) -> Iterator[psutil.Process]:
        """Yield the processes of the run that live: they carry its token in their environment."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if not is_dead and process.environ().get(TOKEN_ENV) == self.address.token:
                    yield process
