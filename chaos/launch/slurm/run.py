"""One run of a script for `sbatch`, from the harness's side."""

import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaos.errors import UsageError
from chaos.launch.commands.groups import GroupServer
from chaos.launch.environment import SLURM_ENV
from chaos.launch.job import words_at
from chaos.launch.local_run import LocalRun
from chaos.launch.node_disk import NodeDisk
from chaos.launch.slurm.client import JobState, Slurm
from chaos.launch.slurm.cluster import SlurmCluster
from chaos.launch.slurm.existing import ExistingSlurm
from chaos.launch.slurm.header import as_taken, wanted_of
from chaos.launch.slurm.world import LocalSlurmWorld, SlurmWorld
from chaos.launch.torchrun.settings import environment_of
from chaos.launch.watched_children import with_watched_children
from chaos.model.event import (
    DependentSeen,
    Disturbed,
    FailureDecided,
    FitCalled,
    FitRaised,
    FitReturned,
    WorkerGroupStarted,
)
from chaos.model.launcher import Launcher
from chaos.model.scenario import Dependency, Job
from chaos.processes.start import Starter
from chaos.run.armed import ArmedFaults
from chaos.run.clock import came
from chaos.run.controller import ChaosController
from chaos.run.sbatch_header import options_of
from chaos.run.signals import killed

_ME: Launcher = "slurm"
RELEASED_S = 10.0  # until Slurm has released what depends on a job that has ended; it takes 1 s
_NEVER = "DependencyNeverSatisfied"
ACCOUNTS_S = 3.0  # until Slurm has written the last line of its account
_BY_SIGNAL = 128  # srun's exit code for a task that a signal has ended is that much more
# As srun 22.05 has it.
_TASK_KILLED = re.compile(r"srun: error: \S+ tasks? [\d,-]+: Killed")
_FAILED = 1  # the code of a job that Slurm ended by itself


@dataclass
class SlurmRun(LocalRun[int, SlurmWorld]):
    """One execution of one plan; its driver is a job of Slurm's, by its number."""

    hash_seed: str
    starter: Starter

    def __post_init__(self) -> None:
        self._restarts = 0
        self._looked_ns = 0
        self._accounted = 0
        self._dependents = dict[Dependency, int]()  # that wait for the job
        self._said_of = list[int]()  # the last attempt that is known, and the output before it
        self._said_before = 0
        self._over = set[int]()  # attempts that another one follows, or none
        super().__post_init__()
        self.world.own = self.descendants

    def make_world(self, armed: ArmedFaults, disk_of: Callable[[str], NodeDisk]) -> SlurmWorld:
        job, shape = self.plan.job, self.plan.shape
        script, self._as_taken = Path(job.source), dict[str, str]()
        if shape.address is not None:
            env = {**os.environ, **job.env}
            there = ExistingSlurm(shape.address, script, env, self.address.token)
            self.cluster: Slurm = there
            return SlurmWorld(self.clock, there, armed, disk_of)
        nodes, given = shape.nodes, options_of(script)
        wanted, self._as_taken = wanted_of(script, given, nodes=nodes), as_taken(given)
        cpus = max(shape.cpus_per_node, -(-job.workers // nodes), wanted.cpus)
        ours = self.cluster = SlurmCluster(
            nodes,
            cpus,
            self.directory.logs / "slurm",
            self.clock,
            preempt_mode=shape.preempt_mode or "requeue",
            wanted=wanted,
        )
        return LocalSlurmWorld(self.clock, ours, armed, disk_of)

    def prepare(self) -> bool:
        job = self.plan.job
        require_one(job)
        if job.then and self.plan.shape.address is not None:
            raise UsageError(
                "job.then submits jobs beside the run's own, and a Slurm that chaos did not start "
                "gets that one alone",
                "Leave it out, or run it on the local Slurm.",
            )
        self.cluster.start()
        return True

    def ends_after(self) -> list[Callable[[], object]]:
        return [self.cluster.stop]

    def serve(self, name: str, controller: ChaosController) -> GroupServer:
        return GroupServer(name, controller, self.world, self.journal)

    def start_driver(self) -> int:
        plan = self.plan
        # That of torchrun, which the script may start.
        env = environment_of(plan, self.address, hash_seed=self.hash_seed)
        env = with_watched_children({**env, SLURM_ENV: "1"})
        # `python` of a script that activates nothing: it has to be one that has chaos.
        own = str(Path(sys.executable).parent)
        env["PATH"] = os.pathsep.join([own, env.get("PATH", os.defpath)])
        workers = None if plan.follows_script else plan.job.num_workers
        called = FitCalled(
            trainer=_ME,
            workers=plan.job.workers,
            run_name=plan.slug,
            storage_path="",
            settings={"num_workers": workers, "max_failures": -1, "header": self._as_taken},
            replaced={},
        )
        self.journal.add(called)
        log = self.directory.logs / "driver.log"
        words = words_at(plan, self.start_number)
        is_own = plan.confined is not None  # an audit writes over no file of the user's
        task = plan.job.array_task
        options = () if task is None else (f"--array={task}",)
        self.world.job = self.cluster.submit(
            words, env, plan.cwd, log, is_own=is_own, options=options
        )
        self._looked_ns = self.clock.now_ns()
        self._submit_dependents()
        return self.world.job

    def _submit_dependents(self) -> None:
        """Submit the scripts that wait for the job, without the probe: they are no part of it."""
        job, env = self.plan.job, {**os.environ, **self.plan.job.env}
        for kind, script in job.then.items():
            self._dependents[kind] = self.cluster.submit(
                [script],
                env,
                self.plan.cwd,
                self.directory.logs / f"{kind}.log",
                options=[f"--dependency={kind}:{self.world.job}"],
            )

    def driver_started(self, driver: int) -> None:
        """Pass nothing on: a job is no process of this machine."""

    def driver_ended(self, driver: int) -> None:
        """Pass nothing on, likewise."""

    @property
    def sees_processes(self) -> bool:
        return self.plan.shape.address is None

    def pids_of(self, driver: int) -> list[int]:
        del driver  # a job is no process of this machine
        return []

    def pid_of(self, driver: int) -> int:
        raise AssertionError(driver)  # asked by none of the two above

    def exit_code(self, driver: int) -> int | None:
        """Return the code of a job that has ended for good; record each requeue, and the end."""
        seen = self.cluster.job(driver)
        self._count_waiting(seen)
        if seen is None:
            return None
        self._decide_on_restarts(seen)
        if (why := self.cluster.ended_by_others(seen)) is not None:
            self.journal.add(Disturbed(why=why))
        self._account(due=1 + seen.restarts if seen.has_ended else 0)
        self._look_at_dependents(within_s=RELEASED_S if seen.has_ended else 0.0)
        if not seen.has_ended:
            return None
        if seen.state == "COMPLETED":
            self.journal.add(FitReturned(metrics={}, checkpoint=None, launcher=_ME))
            return 0
        how = ended_by(seen)
        for attempt in self._undecided()[-1:]:
            if _TASK_KILLED.search(self._said()) and not self.is_struck(attempt):
                self.journal.add(Disturbed(why=killed("a task of the job", -signal.SIGKILL)))
            self._decided(attempt, "RAISE", f"{seen.state}: {how}", code=seen.code)
        self.journal.add(FitRaised(error=seen.state, message=how, launcher=_ME))
        return seen.code or _FAILED

    def _count_waiting(self, seen: JobState | None) -> None:
        """Add the time since the last look to what no limit counts, if the job still waits."""
        now_ns = self.clock.now_ns()
        if seen is not None and seen.waits and self.plan.waits_among_others:
            self.waited_ns += now_ns - self._looked_ns
        self._looked_ns = now_ns

    def _account(self, *, due: int) -> None:
        """Record the starts that Slurm has accounted for, and wait a little until so many are."""

        def are_there() -> bool:
            starts = self.cluster.accounts(self.world.job)
            if starts is None:
                return True
            for start in starts[self._accounted :]:
                self.journal.add(start)
            self._accounted = len(starts)
            return len(starts) >= due

        came(are_there, self.clock, within_s=ACCOUNTS_S, poll_s=self.cluster.look_s)

    def _look_at_dependents(self, *, within_s: float) -> None:
        """Record each dependent that has begun; after `within_s` those as well that have not."""

        def are_known(*, is_late: bool = False) -> bool:
            for kind, number in tuple(self._dependents.items()):
                seen = self.cluster.job(number)
                if seen is not None and (seen.has_begun or is_late or seen.reason == _NEVER):
                    self._tell_of(kind, seen)
            return not self._dependents

        came(are_known, self.clock, within_s=within_s, poll_s=self.cluster.look_s)
        if within_s:
            are_known(is_late=True)

    def _tell_of(self, kind: Dependency, seen: JobState) -> None:
        # It is judged by its beginning. What it would write is no part of the run.
        self.cluster.cancel(self._dependents.pop(kind))
        script = Path(self.plan.job.then[kind]).name
        reason = "" if seen.has_begun else seen.reason
        told = DependentSeen(script=script, after=kind, began=seen.has_begun, reason=reason)
        self.journal.add(told)

    def _decide_on_restarts(self, seen: JobState) -> None:
        """Record each attempt that another one follows: by a requeue, or a round of torchrun's."""
        requeues, self._restarts = seen.restarts - self._restarts, seen.restarts
        undecided = self._undecided()
        for attempt in undecided[:requeues]:
            why = self._why()
            others = self.cluster.requeued_by_others(why, is_struck=self.is_struck(attempt))
            if others is not None:
                self.journal.add(Disturbed(why=others))
            self._decided(attempt, "RETRY", f"requeued by Slurm{why}")
        if (last := undecided[-1:]) != self._said_of:
            self._said_of, self._said_before = last, len(self._output())
        for attempt in undecided[requeues:-1]:
            self._decided(attempt, "RETRY", "torchrun's agent has started its workers again")

    def _undecided(self) -> list[int]:
        started = {e.attempt for e in self.seen() if isinstance(e, WorkerGroupStarted)}
        return sorted(started - self._over)

    def _why(self) -> str:
        """Return why Slurm ended the last attempt, if the job's output has its words."""
        whys = (line.partition(" DUE TO ")[2] for line in self._said().splitlines())
        return next((f" ({why.strip(' *').lower()})" for why in whys if why), "")

    def _said(self) -> str:
        """Return the job's output since its last attempt began; empty if its script has a file.

        The output of a start follows that of the one before, or replaces it (`--open-mode`).
        """
        text = self._output()
        return text[self._said_before if self._said_before <= len(text) else 0 :]

    def _output(self) -> str:
        log = self.directory.logs / "driver.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def _decided(
        self, attempt: int, decision: Literal["RETRY", "RAISE"], error: str, *, code: int = 0
    ) -> None:
        self._over.add(attempt)
        errors = self.errors_of(attempt)
        if code - _BY_SIGNAL in self.world.sent:
            how = f"ended by {signal.Signals(code - _BY_SIGNAL).name}, which a fault has sent"
            errors |= {rank: how for rank in self.world.group() if rank not in errors}
        decided = FailureDecided(
            attempt=attempt,
            decision=decision,
            charged="nothing",
            error=error,
            errors=errors,
        )
        self.journal.add(decided)
        self.world.failure_decided(decided)

    def end_driver(self, driver: int) -> int:
        self.cluster.cancel(driver)
        return _FAILED

    def meanwhile(self) -> None:
        self.clock.sleep(self.cluster.look_s)

    def stacks_of(self, driver: int) -> list[tuple[int, str]]:
        del driver
        return []


def require_one(job: Job) -> None:
    """Raise `UsageError` if a script would start several trainings: a run watches one."""
    header = options_of(Path(job.source))
    array = header.get("--array")
    if array is not None and job.array_task is None:
        raise UsageError(
            f"each task of --array={array.value} is a training of its own, and a run watches one",
            "Choose a task in the scenario: `job: {array_task: 0}`.",
            place=f"{job.source}:{array.line}",
        )
    if array is None and job.array_task is not None:
        raise UsageError(
            f"job.array_task is {job.array_task}, and the script has no --array",
            "Leave it out.",
            place=job.source,
        )


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
