"""The process that calls torchrun, and observes its agent: rounds, failures, restarts left.

`python -m chaos.backends.torchrun.agent RUN_DIRECTORY HARNESS_PID`. torchelastic decides by itself;
three of its agent's methods are followed, and none is changed.
"""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.distributed import run as torchrun
from torch.distributed.elastic.agent.server import WorkerGroup, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from chaos.backends.torchrun import worker
from chaos.backends.torchrun.settings import NODE
from chaos.backends.train.address import ControllerPort, RunAddress
from chaos.backends.train.lifeline import die_with_parent
from chaos.errors import HarnessError
from chaos.faults.world import Target
from chaos.model.arguments import command_line
from chaos.model.event import (
    Disturbed,
    FailureDecided,
    FitCalled,
    FitRaised,
    FitReturned,
    ObserverFailed,
    TrainFnEnded,
    WorkerGroupStarted,
    WorkerPlace,
)
from chaos.model.plan import Plan
from chaos.model.scenario import Launcher
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, driver_journal, read_journal
from chaos.run.signals import DRIVER_STACKS, answer_with_stacks

_ME: Launcher = "torchrun"


def main(run_directory: str, harness: int) -> int:
    """Run the job of a run directory's plan under torchrun; return the exit code."""
    die_with_parent(harness)
    directory = RunDirectory(Path(run_directory))
    plan = directory.load_plan()
    journal = driver_journal(directory.journals, SystemClock())
    answer_with_stacks(directory.logs / DRIVER_STACKS)
    observer = Observer(journal, RunAddress.from_env().connect(), directory)
    observer.follow()
    journal.add(_called(plan))
    try:
        torchrun.main(_words(plan))
    except HarnessError as error:  # of an embedded run: the process that forks is gone
        journal.add(Disturbed(why=str(error)))
        return 1
    except Exception as error:  # noqa: BLE001 - torchrun's own end, which the journal keeps
        told = observer.last_errors or str(error)
        journal.add(FitRaised(error=type(error).__name__, message=told[:2000], launcher=_ME))
        return 1
    journal.add(FitReturned(metrics={}, checkpoint=None, launcher=_ME))
    return 0


def max_restarts(plan: Plan) -> int:
    """Return the `--max-restarts` of a plan; torchrun's own default is 0."""
    return 0 if plan.job.failure is None else plan.job.failure.max_failures


def _words(plan: Plan) -> list[str]:
    """Return torchrun's command line; the script that it starts starts the job's script."""
    assert plan.job.script is not None
    return [
        "--standalone",
        f"--nproc-per-node={plan.job.workers}",
        f"--max-restarts={max_restarts(plan)}",
        worker.__file__,
        plan.job.script,
        *command_line(plan.job.args),
    ]


def _called(plan: Plan) -> FitCalled:
    workers = plan.job.workers
    return FitCalled(
        trainer=_ME,
        workers=workers,
        run_name=plan.slug,
        storage_path="",
        settings={"num_workers": workers, "max_failures": max_restarts(plan)},
        replaced={},
    )


def causes(errors: Mapping[int, str]) -> list[str]:
    """Return the errors of a round without the workers that torchrun ended because of another."""
    ended = f"ended by {signal.SIGTERM.name}"
    return [error for error in errors.values() if error != ended] or [*errors.values()]


class Observer:
    """The observer of the one agent of a run: it records rounds as attempts, and decisions."""

    def __init__(self, journal: Journal, controller: ControllerPort, run: RunDirectory) -> None:
        self._journal = journal
        self._controller = controller
        self._run = run
        self.last_errors = ""

    def follow(self) -> None:
        """Observe every agent of this process from now on (torch 2.13)."""
        start, monitor = LocalElasticAgent._start_workers, LocalElasticAgent._monitor_workers  # noqa: SLF001

        def started(agent: Any, group: WorkerGroup) -> dict[int, Any]:  # noqa: ANN401
            attempt = group.spec.max_restarts - agent._remaining_restarts  # noqa: SLF001
            pids: dict[int, Any] = start(agent, group)
            self._guarded("round", lambda: self._started(attempt, group, pids))
            return pids

        def monitored(agent: Any, group: WorkerGroup) -> Any:  # noqa: ANN401 - a RunResult
            result = monitor(agent, group)
            if result.state in {WorkerState.FAILED, WorkerState.UNHEALTHY}:
                left = agent._remaining_restarts  # noqa: SLF001
                attempt = group.spec.max_restarts - left
                self._guarded("failure", lambda: self._failed(attempt, left, result.failures))
            return result

        LocalElasticAgent._start_workers = started  # noqa: SLF001
        LocalElasticAgent._monitor_workers = monitored  # noqa: SLF001

    def _started(self, attempt: int, group: WorkerGroup, pids: dict[int, Any]) -> None:
        """Record an attempt, and report the worker of each rank to the chaos controller."""
        by_rank = {worker.global_rank: pids[worker.local_rank] for worker in group.workers}
        places = tuple(
            WorkerPlace(rank=rank, pid=pid, node_id=NODE, node_ip="127.0.0.1")
            for rank, pid in sorted(by_rank.items())
        )
        self._journal.add(WorkerGroupStarted(attempt=attempt, workers=places))
        targets = {rank: (Target(attempt, rank, pid, NODE), None) for rank, pid in by_rank.items()}
        self._controller.group_started(targets)

    def _failed(self, attempt: int, left: int, failures: dict[int, Any]) -> None:
        """Record a failure of the round, and whether torchrun restarts its workers."""
        errors = {rank: self._error_of(failure) for rank, failure in sorted(failures.items())}
        self.last_errors = "\n".join(causes(errors))
        decided = FailureDecided(
            attempt=attempt,
            decision="RETRY" if left > 0 else "RAISE",
            charged="failures",
            error=f"a worker ended; {left} restarts were left",
            errors=errors,
        )
        self._journal.add(decided)
        self._controller.failure_decided(decided)

    def _error_of(self, failure: Any) -> str:  # noqa: ANN401 - a ProcessFailure
        """Return what ended a worker: a signal, the error that it raised, or its exit code."""
        if failure.exitcode < 0:
            return f"ended by {failure.signal_name()}"
        path = self._run.journals / f"worker-{failure.pid}.jsonl"
        entries = read_journal(path)[0] if path.exists() else []
        ends = [entry.what.error for entry in entries if isinstance(entry.what, TrainFnEnded)]
        return next((error for error in reversed(ends) if error), f"exit code {failure.exitcode}")

    def _guarded(self, where: str, act: Any) -> None:  # noqa: ANN401 - a function
        try:
            act()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            text = f"{type(error).__name__}: {error}"
            self._journal.add(ObserverFailed(where=where, error=text))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
