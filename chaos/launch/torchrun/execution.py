"""One run under torchrun, from the harness's side."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil

from chaos.declared import TOKEN_ENV
from chaos.launch.files_outside import settle
from chaos.launch.frame import RunWatch
from chaos.launch.node_disk import NodeDisk, make_room, remove_disks
from chaos.launch.torchrun.agents import Agents
from chaos.launch.torchrun.job import job_called, job_ended
from chaos.launch.torchrun.rendezvous import HOST
from chaos.launch.torchrun.server import RoundServer
from chaos.launch.torchrun.settings import (
    HASH_SEED,
    NODE_ENV,
    confines_of,
    environment_of,
    node_name,
)
from chaos.launch.torchrun.world import AgentWorld
from chaos.launch.world import metadata_of
from chaos.model.event import (
    AgentEnded,
    Disturbed,
    FailureDecided,
    FaultInvoked,
    FitReturned,
    Leftover,
    LeftoversSearched,
    StackTaken,
)
from chaos.probe.address import RunAddress
from chaos.processes.start import Process, Start, Starter
from chaos.processes.tree import kill
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal, Trained
from chaos.run.signals import STACK_SIGNAL, agent_stacks, is_foreign, killed, rank_stacks

AGENT = "chaos.launch.torchrun.agent"
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
class Run(RunWatch[Agents]):
    """One execution of one plan; its driver is the agents that call torchrun, one per node."""

    hash_seed: str = HASH_SEED
    again_after: str | None = None
    starter: Starter = started_anew

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        make_room(self.address)
        self.world = AgentWorld(
            self.clock,
            self.plan.shape.nodes,
            ArmedFaults(self.directory.storage_faults),
            partial(NodeDisk, self.address),
        )

    def execute(self) -> None:
        """Start torchrun, watch it, clean up; the outcome is in the journals."""
        with metadata_of(self.plan, self.world, self.directory) as variables:
            self.address = replace(self.address, metadata=variables)
            self._execute()

    def _execute(self) -> None:
        self.begin(again_after=self.again_after)
        self.journal.add(job_called(self.plan))
        chaos = Journal(self.directory.journals, "chaos", role="chaos", clock=self.clock)
        controller = ChaosController(
            self.plan, self.world, chaos, has_trained=Trained(self.directory.journals)
        )
        name = self.address.controller.partition(":")[2]
        server = RoundServer(name, controller, self.world, self.journal)
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
                if self.world.agents is not None:
                    closing.callback(self.world.agents.close)
                closing.callback(self.end, interrupted=interrupted)
                closing.callback(remove_disks, self.address)
                self._search_leftovers()
                confines = confines_of(self.plan, self.directory.path)
                settle(self.address, confines, self.journal)

    def start_driver(self) -> Agents:
        """Start an agent for each node."""
        agents = self.world.agents = Agents(self._start_agent)
        for _ in range(self.plan.shape.nodes):
            agents.add()
        return agents

    def _start_agent(self, node: str) -> Process:
        """Start the process that calls torchrun for a node."""
        log = str(self.directory.logs / "driver.log")
        env = environment_of(self.plan, self.address, hash_seed=self.hash_seed)
        words = (str(self.directory.path),)
        return self.starter(Start(words, {**env, NODE_ENV: node}, self.plan.cwd, log, log))

    def driver_started(self, driver: Agents) -> None:
        """Set the world's driver."""
        self.world.driver_started(driver.pid)

    def exit_code(self, driver: Agents) -> int | None:
        """Return 0 if torchrun ended well on every node that was left to it, None while it runs."""
        codes = driver.codes()
        for node, code in codes.items():
            if code is not None and is_foreign(code):
                who = "torchrun" if len(codes) == 1 else f"torchrun's agent of {node}"
                self.journal.add(Disturbed(why=killed(who, code)))
        if (rank := self._struck_from_outside()) is not None:
            why = killed(f"the worker of rank {rank}", -signal.SIGKILL)
            self.journal.add(Disturbed(why=why))
        self._end_latecomers(driver, codes)
        if not driver.is_over():
            return None
        ended = {e.node_id: e for e in self.seen() if isinstance(e, AgentEnded)}
        event = job_ended(driver.codes(), ended, self._workers_were_on())
        self.journal.add(event)
        return 0 if isinstance(event, FitReturned) else 1

    def _end_latecomers(self, driver: Agents, codes: Mapping[str, int | None]) -> None:
        """End agents that come when the job is over: they wait for a rendezvous that is gone."""
        if codes.get(node_name(HOST), 0) is None:
            return
        waiting = codes.keys() - self._workers_were_on()
        if all(code is not None for node, code in codes.items() if node not in waiting):
            for node in waiting:
                driver.end_one(node)

    def _workers_were_on(self) -> set[str]:
        """Return the nodes that have had workers."""
        return {event.node_id for event in self.workers()}

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

    def end_driver(self, driver: Agents) -> int:
        """Kill torchrun; its workers end with it."""
        driver.end()
        return -signal.SIGKILL

    def meanwhile(self) -> None:
        """Wait."""
        self.clock.sleep(POLL_S)

    def take_stacks(self, driver: Agents) -> None:
        """Signal all ranks and agents to write their stacks: faulthandler does, even in C++."""
        asked: list[tuple[int, int | None, str]] = [
            (driver.pid_of(node), None, agent_stacks(node)) for node in driver.codes()
        ]
        asked += [(e.pid, e.rank, rank_stacks(e.rank, e.pid)) for e in self.workers()]
        for pid, rank, name in asked:
            if (self.directory.logs / name).exists() and psutil.pid_exists(pid):
                os.kill(pid, STACK_SIGNAL)
                self.journal.add(StackTaken(pid=pid, rank=rank, path=f"logs/{name}"))
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
