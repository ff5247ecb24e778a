"""One run under torchrun, from the harness's side."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chaos.launch.environment import NODE_ENV
from chaos.launch.local_run import LocalRun
from chaos.launch.node_disk import NodeDisk
from chaos.launch.torchrun.agents import Agents
from chaos.launch.torchrun.job import build_end_event, build_fit_event
from chaos.launch.torchrun.rendezvous import HOST
from chaos.launch.torchrun.server import AgentServer
from chaos.launch.torchrun.settings import (
    FIRST_ENV,
    build_environment,
    node_number,
)
from chaos.launch.torchrun.world import AgentWorld
from chaos.model.event import (
    AgentEnded,
    Disturbed,
    FailureDecided,
    FaultInvoked,
    FitReturned,
    WorkerGroupStarted,
)
from chaos.model.process_end import find_end_signal
from chaos.processes.start import Process, ProcessStart, Starter
from chaos.run.armed_faults import ArmedFaults
from chaos.run.controller import ChaosController
from chaos.run.signals import agent_stacks, describe_kill, is_foreign

AGENT = "chaos.launch.torchrun.agent"
POLL_S = 0.05


@dataclass
class TorchrunRun(LocalRun[Agents, AgentWorld]):
    """One execution of one plan; its driver is the agents that call torchrun, one per node."""

    hash_seed: str
    starter: Starter

    def __post_init__(self) -> None:
        super().__post_init__()
        self._event_count = self._first_attempt = 0  # of the events, and attempts, before a start

    def make_world(self, armed: ArmedFaults, build_disk: Callable[[str], NodeDisk]) -> AgentWorld:
        return AgentWorld(self.clock, self.plan.shape.nodes, armed, build_disk)

    def serve(self, name: str, controller: ChaosController) -> AgentServer:
        return AgentServer(name, controller, self.world, self.journal)

    def start_driver(self) -> Agents:
        events = self.fetch_events()
        self._event_count = len(events)
        attempts = (event.attempt for event in events if isinstance(event, WorkerGroupStarted))
        self._first_attempt = 1 + max(attempts, default=-1)
        nodes = self.plan.shape.nodes
        # The platform starts a command on one node again, on another one if that is lost.
        agents = Agents(
            self._start_agent, HOST if nodes > 1 else node_number(self.world.select_machine())
        )
        self.world.starts.append(agents)
        for _ in range(nodes):
            agents.add()
        self.journal.add(build_fit_event(self.plan))  # embedded, the imports are over
        return agents

    def _start_agent(self, node: str) -> Process:
        log = str(self.directory.logs / "driver.log")
        env = {
            **build_environment(self.plan, self.address, hash_seed=self.hash_seed),
            **self.start_env,
            FIRST_ENV: str(self._first_attempt),
            NODE_ENV: node,
        }
        words = (str(self.directory.path), str(os.getpid()))
        return self.starter(ProcessStart(words, env, self.plan.cwd, log, log))

    def find_pid(self, driver: Agents) -> int:
        """Return the pid of the first agent, which hosts the rendezvous."""
        return driver.find_pid(driver.host)

    def exit_code(self, driver: Agents) -> int | None:
        """Return 0 if torchrun ended well on every node that was left to it, None while it runs."""
        # Of agents that no fault has taken: the exit code of a killed one says nothing of the job.
        codes = driver.find_exit_codes()
        for node, code in codes.items():
            if code is not None and is_foreign(code):
                process = "torchrun" if len(codes) == 1 else f"torchrun's agent of {node}"
                self.journal.add(Disturbed(why=describe_kill(process, code)))
        if (rank := self._find_foreign_kill()) is not None:
            disturbance = describe_kill(f"the worker of rank {rank}", -signal.SIGKILL)
            self.journal.add(Disturbed(why=disturbance))
        self._end_latecomers(driver, codes)
        if not driver.have_ended():
            return None
        new_events = self.fetch_events()[self._event_count :]
        end_events = {
            agent_end.node_id: agent_end
            for agent_end in new_events
            if isinstance(agent_end, AgentEnded)
        }
        event = build_end_event(driver.find_exit_codes(), end_events, self._find_worker_nodes())
        self.journal.add(event)
        return 0 if isinstance(event, FitReturned) else 1

    def _end_latecomers(self, driver: Agents, codes: Mapping[str, int | None]) -> None:
        """End agents that come when the job is over: they wait for a rendezvous that is gone."""
        if codes.get(driver.host, 0) is None:
            return
        waiting = codes.keys() - self._find_worker_nodes()
        if all(code is not None for node, code in codes.items() if node not in waiting):
            for node in waiting:
                driver.end_agent(node)

    def _find_worker_nodes(self) -> set[str]:
        return {event.node_id for event in self.workers()}

    def _find_foreign_kill(self) -> int | None:
        """Return a rank whose worker was killed, in an attempt that no fault was injected into."""
        events = self.fetch_events()
        # A worker that something outside has killed looks to torchrun like one that a fault has.
        # The job would have the blame for what it makes of that, so the run is disturbed instead.
        # In an attempt with a fault nothing distinguishes the two.
        faulted_attempts = {event.attempt for event in events if isinstance(event, FaultInvoked)}
        for event in events:
            if isinstance(event, FailureDecided) and event.attempt not in faulted_attempts:
                for rank, error in event.errors.items():
                    if find_end_signal(error) == "SIGKILL":
                        return rank
        return None

    def end_driver(self, driver: Agents) -> int:
        driver.end()
        return -signal.SIGKILL

    def do_background_work(self) -> None:
        self.clock.sleep(POLL_S)

    def list_stack_files(self, driver: Agents) -> list[tuple[int, str]]:
        """Return the agents that no fault has taken."""
        return [(driver.find_pid(node), agent_stacks(node)) for node in driver.find_exit_codes()]

    def list_cleanups(self) -> list[Callable[[], object]]:
        return [agents.close for agents in self.world.starts]
