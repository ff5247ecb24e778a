"""The process that calls torchrun, and observes its agent: rounds, failures, restarts left.

`python -m chaos.launch.torchrun.agent RUN_DIRECTORY HARNESS_PID`, once per node. torchelastic
decides by itself; five of its agent's methods are followed, and none is changed. Only the first
rendezvous waits until all agents of the start are ready, as far apart as their imports may end;
and where a fault has taken a node, agents that are done wait for each other less long than torch
has it (see `rendezvous.find_timeouts`).
"""

import os
import sys
from pathlib import Path
from typing import Any

from torch.distributed import run as torchrun
from torch.distributed.elastic.agent.server import WorkerGroup, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as rendezvous_backend

from chaos.errors import HarnessError
from chaos.faults.world import Target
from chaos.launch.environment import NODE_ENV, build_journal_name
from chaos.launch.job import build_script_words
from chaos.launch.torchrun import worker
from chaos.launch.torchrun.rendezvous import HOST, build_launch_options, find_timeouts, max_restarts
from chaos.launch.torchrun.settings import ATTEMPT_ENV, FIRST_ENV, node_number
from chaos.model.causes import find_causes
from chaos.model.event import (
    AgentEnded,
    Disturbed,
    FailureDecided,
    MembershipChanged,
    ObserverFailed,
    TrainFnEnded,
)
from chaos.model.plan import Plan
from chaos.model.process_end import describe_exit_code, describe_signal_end
from chaos.probe.address import ControllerPort, RunAddress
from chaos.processes.child import die_with_parent
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_journal
from chaos.run.signals import agent_stacks, answer_with_stacks


def main(run_directory: str, harness: int) -> int:
    """Run one node's agent of a run's job; return the exit code."""
    die_with_parent(harness)
    directory = RunDirectory(Path(run_directory))
    plan, node = directory.load_plan(), os.environ[NODE_ENV]
    name = build_journal_name(f"agent-{node}")
    journal = Journal(directory.journals, name, role="driver", clock=SystemClock())
    answer_with_stacks(directory.logs / agent_stacks(node))
    controller = RunAddress.from_env().connect()
    observer = AgentObserver(journal, controller, directory, node)
    observer.follow()
    try:
        torchrun.main(_build_command(plan, node, controller, directory.logs))
    except HarnessError as error:  # of an embedded run: the process that forks is gone
        journal.add(Disturbed(why=str(error)))
        return 1
    except (Exception, SystemExit) as error:  # noqa: BLE001 - torchrun's own end, which is kept
        message = (observer.last_errors or str(error))[:2000]
        journal.add(AgentEnded(node_id=node, error=type(error).__name__, message=message))
        return 1
    journal.add(AgentEnded(node_id=node))
    return 0


def _build_command(plan: Plan, node: str, controller: ControllerPort, logs: Path) -> list[str]:
    """Return torchrun's command line; the script that it starts starts the job's script.

    By default torchrun 2.13 leaves a folder of logs behind in the temporary folder, run by run.
    """
    number = node_number(node)
    hosts = number == HOST or plan.shape.nodes == 1
    port = 0 if hosts else controller.rendezvous_port()
    return [
        *build_launch_options(plan, number, port, os.environ),
        f"--max-restarts={max_restarts(plan)}",
        f"--log-dir={logs / 'torchelastic'}",
        # torchrun reads all words before it knows which are the script's: without this, an option
        # of the script's that begins as several of its own do is refused (torch 2.13).
        "--",
        worker.__file__,
        *build_script_words(plan),
    ]


class AgentObserver:
    """The observer of one node's agent: it records rounds as attempts, and decisions.

    The number of an attempt is that of the rendezvous' round, which all agents share, and counts on
    after those of earlier starts of the command. The count of restarts is each agent's own, and one
    that joins later begins at 0.
    """

    def __init__(
        self, journal: Journal, controller: ControllerPort, run: RunDirectory, node: str
    ) -> None:
        self._journal = journal
        self._controller = controller
        self._run = run
        self._node = node
        self._attempt = -1
        self._has_failed = False
        self.last_errors = ""

    def follow(self) -> None:
        """Observe the agent of this process from now on (torch 2.13)."""
        self._follow_rendezvous()
        self._follow_starts()
        self._follow_decisions()
        self._follow_end()

    def _follow_rendezvous(self) -> None:
        meet, host = LocalElasticAgent._rendezvous, rendezvous_backend._create_tcp_store  # noqa: SLF001

        # The port of the store is free of choice, and known once its host has made it: the agents
        # of other nodes ask for it (`rendezvous_port`) before they call torchrun.
        def create_store(parameters: Any) -> Any:  # a TCPStore
            store = host(parameters)
            if node_number(self._node) == HOST:
                self._call_safely("store", lambda: self._controller.rendezvous_hosted(store.port))
            return store

        # Only the first rendezvous waits for all: agents are a second apart or more, as their
        # imports end, and torchelastic would begin the job with those that are there (`--nnodes
        # MIN:MAX`). Later rounds are torchelastic's own matter.
        def meet_watched(agent: Any, group: WorkerGroup) -> None:
            if self._attempt < 0:
                self._call_safely("start", lambda: self._controller.agent_ready(self._node))
            meet(agent, group)
            self._call_safely("rendezvous", lambda: self._learn_round(group))

        rendezvous_backend._create_tcp_store = create_store  # noqa: SLF001
        LocalElasticAgent._rendezvous = meet_watched  # noqa: SLF001

    def _follow_starts(self) -> None:
        start, restart = LocalElasticAgent._start_workers, LocalElasticAgent._restart_workers  # noqa: SLF001

        def start_watched(agent: Any, group: WorkerGroup) -> dict[int, Any]:
            pids: dict[int, Any] = start(agent, group)
            self._call_safely("round", lambda: self._report_workers(group, pids))
            return pids

        # torchelastic restarts workers for two reasons by the same method: one failed, or the
        # membership changed, which costs no retry. What the last look at them found tells which.
        def restart_watched(agent: Any, group: WorkerGroup) -> None:
            if not self._has_failed:
                changed = MembershipChanged(attempt=self._attempt, node_id=self._node)
                self._call_safely("membership", lambda: self._journal.add(changed))
            restart(agent, group)

        LocalElasticAgent._start_workers = start_watched  # noqa: SLF001
        LocalElasticAgent._restart_workers = restart_watched  # noqa: SLF001

    def _follow_decisions(self) -> None:
        monitor = LocalElasticAgent._monitor_workers  # noqa: SLF001

        def monitor_watched(agent: Any, group: WorkerGroup) -> Any:  # a RunResult
            result = monitor(agent, group)
            self._has_failed = result.state in {WorkerState.FAILED, WorkerState.UNHEALTHY}
            if self._has_failed:
                restarts_left = agent._remaining_restarts  # noqa: SLF001
                self._call_safely(
                    "failure", lambda: self._record_failure(restarts_left, result.failures)
                )
            return result

        LocalElasticAgent._monitor_workers = monitor_watched  # noqa: SLF001

    def _follow_end(self) -> None:
        wait = LocalElasticAgent._exit_barrier  # noqa: SLF001

        # An agent whose workers are done waits for all others, 300 s by torch's default. One that a
        # fault has taken never comes, and a right job would fail or stand there as long.
        def wait_watched(agent: Any) -> None:
            def shorten_timeout() -> None:
                if self._controller.node_taken():
                    exit_s = find_timeouts(os.environ).exit
                    agent._exit_barrier_timeout = min(agent._exit_barrier_timeout, exit_s)  # noqa: SLF001

            self._call_safely("end", shorten_timeout)
            wait(agent)

        LocalElasticAgent._exit_barrier = wait_watched  # noqa: SLF001

    def _learn_round(self, group: WorkerGroup) -> None:
        """Learn the number of the round, and pass it on to the workers that are started next."""
        # Through the environment: a worker is started with a copy of it, and has the number before
        # its first line.
        handler = group.spec.rdzv_handler
        round_ = handler._state_holder.state.round  # noqa: SLF001
        self._attempt = int(os.environ[FIRST_ENV]) + round_
        os.environ[ATTEMPT_ENV] = str(self._attempt)

    def _report_workers(self, group: WorkerGroup, pids: dict[int, Any]) -> None:
        targets = {
            member.global_rank: Target(
                self._attempt, member.global_rank, pids[member.local_rank], self._node
            )
            for member in group.workers
        }
        self._controller.part_started(self._attempt, group.workers[0].world_size, targets)

    def _record_failure(self, restarts_left: int, failures: dict[int, Any]) -> None:
        """Record a failure of the round, and whether torchrun restarts this node's workers."""
        errors = {rank: self._find_error(failure) for rank, failure in sorted(failures.items())}
        self.last_errors = "\n".join(find_causes(errors).values())
        decision_event = FailureDecided(
            attempt=self._attempt,
            decision="RETRY" if restarts_left > 0 else "RAISE",
            charged="failures",
            error=f"a worker ended; {restarts_left} restarts were left",
            errors=errors,
            node_id=self._node,
        )
        self._journal.add(decision_event)
        self._controller.failure_decided(decision_event)

    def _find_error(self, failure: Any) -> str:  # a ProcessFailure
        """Return what ended a worker: a signal, the error that it raised, or its exit code."""
        # torchelastic knows of an error only where a script's function is decorated with `record`.
        # The probe has written what the train function raised into the worker's own journal.
        if failure.exitcode < 0:
            return describe_signal_end(failure.signal_name())
        path = self._run.journals / f"worker-{failure.pid}.jsonl"
        entries = read_journal(path)[0] if path.exists() else []
        ends = [entry.event.error for entry in entries if isinstance(entry.event, TrainFnEnded)]
        return next(
            (error for error in reversed(ends) if error), describe_exit_code(failure.exitcode)
        )

    def _call_safely(self, operation: str, act: Any) -> None:  # a function
        try:
            act()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            text = f"{type(error).__name__}: {error}"
            self._journal.add(ObserverFailed(where=operation, error=text))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
