"""One run of a script for `sbatch`, from the harness's side."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import psutil

from chaos.declared import TOKEN_ENV
from chaos.launch.commands.groups import GroupServer
from chaos.launch.environment import SLURM_ENV, command_env
from chaos.launch.job import words_at
from chaos.launch.local_run import LocalRun
from chaos.launch.node_disk import NodeDisk, confines_in
from chaos.launch.python.process import SITE
from chaos.launch.slurm.cluster import JobState, SlurmCluster
from chaos.launch.slurm.world import SlurmWorld
from chaos.model.event import (
    FailureDecided,
    FitCalled,
    FitRaised,
    FitReturned,
    WorkerGroupStarted,
)
from chaos.model.launcher import Launcher
from chaos.probe.written import Confines
from chaos.processes.start import Starter
from chaos.processes.tree import with_variable
from chaos.run.armed import ArmedFaults
from chaos.run.controller import ChaosController

_ME: Launcher = "slurm"
LOOK_S = 0.1  # each look is a call of scontrol
_FAILED = 1  # the code of a job that Slurm ended by itself


@dataclass(frozen=True)
class Submission:
    """A job that was submitted, and its output."""

    number: int


@dataclass
class SlurmRun(LocalRun[Submission, SlurmWorld]):
    """One execution of one plan; its driver is a job of Slurm's, whose starts are the attempts."""

    hash_seed: str
    starter: Starter

    def __post_init__(self) -> None:
        self._restarts = 0
        self._over = set[int]()  # attempts that another one follows, or none
        super().__post_init__()

    def make_world(self, armed: ArmedFaults, disk_of: Callable[[str], NodeDisk]) -> SlurmWorld:
        job, nodes = self.plan.job, self.plan.shape.nodes
        cpus = max(1, -(-job.workers // nodes))
        self.cluster = SlurmCluster(
            nodes,
            cpus,
            self.directory.logs / "slurm",
            self.clock,
            preempt_mode=self.plan.shape.preempt_mode or "requeue",
        )
        return SlurmWorld(self.clock, self.cluster, armed, disk_of)

    def prepare(self) -> bool:
        self.cluster.start()
        return True

    def ends_after(self) -> list[Callable[[], object]]:
        return [self.cluster.stop]

    def serve(self, name: str, controller: ChaosController) -> GroupServer:
        return GroupServer(name, controller, self.world, self.journal)

    def start_driver(self) -> Submission:
        plan = self.plan
        env = {
            **command_env(plan, self.address, hash_seed=self.hash_seed, defaults={}),
            SLURM_ENV: "1",
        }
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [SITE, env.get("PYTHONPATH")]))
        called = FitCalled(
            trainer=_ME,
            workers=plan.job.workers,
            run_name=plan.slug,
            storage_path="",
            settings={"num_workers": plan.job.workers, "max_failures": -1},
            replaced={},
        )
        self.journal.add(called)
        log = self.directory.logs / "driver.log"
        words = words_at(plan, self.start_number)
        self.world.job = self.cluster.submit(words, env, plan.cwd, log)
        return Submission(self.world.job)

    def pid_of(self, driver: Submission) -> int:
        del driver
        return self.cluster.pid_of("slurmctld")

    def exit_code(self, driver: Submission) -> int | None:
        """Return the code of a job that has ended for good; record each requeue, and the end."""
        seen = self.cluster.job(driver.number)
        if seen is None:
            return None
        self._decide_on_restarts(seen)
        if not seen.has_ended:
            return None
        if seen.state == "COMPLETED":
            self.journal.add(FitReturned(metrics={}, checkpoint=None, launcher=_ME))
            return 0
        how = ended_by(seen)
        for attempt in self._undecided()[-1:]:
            self._decided(attempt, "RAISE", f"{seen.state}: {how}")
        self.journal.add(FitRaised(error=seen.state, message=how, launcher=_ME))
        return seen.code or _FAILED

    def _decide_on_restarts(self, seen: JobState) -> None:
        """Record each attempt that another one follows: by a requeue, or a round of torchrun's."""
        requeues, self._restarts = seen.restarts - self._restarts, seen.restarts
        undecided = self._undecided()
        for attempt in undecided[:requeues]:
            self._decided(attempt, "RETRY", f"requeued by Slurm ({self._why()})")
        for attempt in undecided[requeues:-1]:
            self._decided(attempt, "RETRY", "torchrun's agent has started its workers again")

    def _undecided(self) -> list[int]:
        started = {e.attempt for e in self.seen() if isinstance(e, WorkerGroupStarted)}
        return sorted(started - self._over)

    def _why(self) -> str:
        """Return why Slurm ended the last start, by its own words in the job's output."""
        log = self.directory.logs / "driver.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        whys = [line.rpartition(" DUE TO ")[2] for line in text.splitlines() if " DUE TO " in line]
        return whys[-1].strip(" *").lower() if whys else "no reason is in its output"

    def _decided(self, attempt: int, decision: Literal["RETRY", "RAISE"], error: str) -> None:
        self._over.add(attempt)
        decided = FailureDecided(
            attempt=attempt,
            decision=decision,
            charged="nothing",
            error=error,
            errors=self.errors_of(attempt),
        )
        self.journal.add(decided)
        self.world.failure_decided(decided)

    def end_driver(self, driver: Submission) -> int:
        self.cluster.cancel(driver.number)
        return _FAILED

    def meanwhile(self) -> None:
        self.clock.sleep(LOOK_S)

    def stacks_of(self, driver: Submission) -> list[tuple[int, str]]:
        del driver
        return []

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that carry the run's token in their environment."""
        with contextlib.suppress(psutil.Error):
            return with_variable(TOKEN_ENV, self.address.token)
        return []

    @property
    def confines(self) -> Confines:
        return confines_in(self.plan, self.directory.path)


def ended_by(seen: JobState) -> str:
    """Return in words how a job ended that Slurm does not requeue."""
    code = f"code {seen.code}" if seen.code else "no error of its own"
    code = f"signal {seen.signal}" if seen.signal else code
    if seen.is_preempted and seen.state == "FAILED":
        return (
            f"it was preempted and ended with {code} within its grace; Slurm requeues what is "
            "still there when that is over"
        )
    return f"it ended with {code}, and Slurm has not requeued it"
