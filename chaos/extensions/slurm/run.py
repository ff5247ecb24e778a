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
from chaos.extensions.sbatch_header import load_options
from chaos.extensions.slurm.client import JobState, Slurm
from chaos.extensions.slurm.cluster import SlurmCluster
from chaos.extensions.slurm.existing import ExistingSlurm
from chaos.extensions.slurm.header import describe_options, parse_needs
from chaos.extensions.slurm.world import LocalSlurmWorld, SlurmWorld
from chaos.launch.child_environment import add_child_watch
from chaos.launch.commands.groups import GroupServer
from chaos.launch.environment import SLURM_ENV
from chaos.launch.job import build_start_words
from chaos.launch.local_run import LocalRun
from chaos.launch.node_disk import NodeDisk
from chaos.launch.torchrun.settings import build_environment
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
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import await_condition
from chaos.run.controller import ChaosController
from chaos.run.signals import describe_kill

_LAUNCHER: Launcher = "slurm"
RELEASED_S = 10.0  # until Slurm has released what depends on a job that has ended; it takes 1 s
_NEVER = "DependencyNeverSatisfied"
ACCOUNTS_S = 3.0  # until Slurm has written the last line of its account
_SIGNAL_OFFSET = 128  # srun's exit code for a task that a signal has ended is that much more
# As srun 22.05 has it.
_TASK_KILLED = re.compile(r"srun: error: \S+ tasks? [\d,-]+: Killed")
_FAILURE_CODE = 1  # the code of a job that Slurm ended by itself


@dataclass
class SlurmRun(LocalRun[int, SlurmWorld]):
    """One execution of one plan; its driver is a job of Slurm's, by its number."""

    hash_seed: str
    starter: Starter

    def __post_init__(self) -> None:
        self._restarts = 0
        self._looked_ns = 0
        self._account_count = 0
        self._dependents = dict[Dependency, int]()  # that wait for the job
        self._latest_attempt = list[
            int
        ]()  # the last attempt that is known, and the output before it
        self._output_offset = 0
        self._finished_attempts = set[int]()  # attempts that another one follows, or none
        super().__post_init__()
        self.world.list_own_processes = self.descendants

    def make_world(self, armed: ArmedFaults, build_disk: Callable[[str], NodeDisk]) -> SlurmWorld:
        job, shape = self.plan.job, self.plan.shape
        script, self._option_meanings = Path(job.source), dict[str, str]()
        if shape.address is not None:
            env = {**os.environ, **job.env}
            slurm = ExistingSlurm(shape.address, script, env, self.address.token)
            self.cluster: Slurm = slurm
            return SlurmWorld(self.clock, slurm, armed, build_disk)
        nodes, header = shape.nodes, load_options(script)
        needs, self._option_meanings = (
            parse_needs(script, header, nodes=nodes),
            describe_options(header),
        )
        cpus = max(shape.cpus_per_node, -(-job.workers // nodes), needs.cpus)
        slurm_cluster = self.cluster = SlurmCluster(
            nodes,
            cpus,
            self.directory.logs / "slurm",
            self.clock,
            preempt_mode=shape.preempt_mode or "requeue",
            needs=needs,
        )
        return LocalSlurmWorld(self.clock, slurm_cluster, armed, build_disk)

    def prepare(self) -> bool:
        job = self.plan.job
        require_one_training(job)
        if job.then and self.plan.shape.address is not None:
            raise UsageError(
                "job.then submits jobs beside the run's own, and a Slurm that chaos did not start "
                "gets that one alone",
                "Leave it out, or run it on the local Slurm.",
            )
        self.cluster.start()
        return True

    def list_cleanups(self) -> list[Callable[[], object]]:
        return [self.cluster.stop]

    def serve(self, name: str, controller: ChaosController) -> GroupServer:
        return GroupServer(name, controller, self.world, self.journal)

    def start_driver(self) -> int:
        plan = self.plan
        # That of torchrun, which the script may start.
        env = build_environment(plan, self.address, hash_seed=self.hash_seed)
        env = add_child_watch({**env, SLURM_ENV: "1"})
        # `python` of a script that activates nothing: it has to be one that has chaos.
        python_folder = str(Path(sys.executable).parent)
        env["PATH"] = os.pathsep.join([python_folder, env.get("PATH", os.defpath)])
        workers = None if plan.follows_script else plan.job.num_workers
        fit_event = FitCalled(
            trainer=_LAUNCHER,
            workers=plan.job.workers,
            run_name=plan.slug,
            storage_path="",
            settings={"num_workers": workers, "max_failures": -1, "header": self._option_meanings},
            original_settings={},
        )
        self.journal.add(fit_event)
        log = self.directory.logs / "driver.log"
        words = build_start_words(plan, self.start_number)
        forces_log = plan.confined is not None  # an audit writes over no file of the user's
        task = plan.job.array_task
        options = () if task is None else (f"--array={task}",)
        self.world.job = self.cluster.submit(
            words, env, plan.cwd, log, forces_log=forces_log, options=options
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

    def find_pids(self, driver: int) -> list[int]:
        del driver  # a job is no process of this machine
        return []

    def find_pid(self, driver: int) -> int:
        raise AssertionError(driver)  # asked by none of the two above

    def exit_code(self, driver: int) -> int | None:
        """Return the code of a job that has ended for good; record each requeue, and the end."""
        state = self.cluster.job(driver)
        self._count_waiting(state)
        if state is None:
            return None
        self._record_restarts(state)
        if (disturbance := self.cluster.describe_foreign_end(state)) is not None:
            self.journal.add(Disturbed(why=disturbance))
        self._record_accounts(expected=1 + state.restarts if state.has_ended else 0)
        self._check_dependents(within_s=RELEASED_S if state.has_ended else 0.0)
        if not state.has_ended:
            return None
        if state.state == "COMPLETED":
            self.journal.add(FitReturned(metrics={}, checkpoint=None, launcher=_LAUNCHER))
            return 0
        description = describe_end(state)
        for attempt in self._list_undecided()[-1:]:
            if _TASK_KILLED.search(self._get_attempt_output()) and not self.has_injected_fault(
                attempt
            ):
                self.journal.add(Disturbed(why=describe_kill("a task of the job", -signal.SIGKILL)))
            self._record_decision(
                attempt, "RAISE", f"{state.state}: {description}", code=state.code
            )
        self.journal.add(FitRaised(error=state.state, message=description, launcher=_LAUNCHER))
        return state.code or _FAILURE_CODE

    def _count_waiting(self, state: JobState | None) -> None:
        """Add the time since the last look to what no limit counts, if the job still waits."""
        now_ns = self.clock.now_ns()
        if state is not None and state.waits and self.plan.has_shared_queue:
            self.waited_ns += now_ns - self._looked_ns
        self._looked_ns = now_ns

    def _record_accounts(self, *, expected: int) -> None:
        """Record the starts that Slurm has accounted for, and wait a little until so many are."""

        def record_new_starts() -> bool:
            starts = self.cluster.list_accounts(self.world.job)
            if starts is None:
                return True
            for start in starts[self._account_count :]:
                self.journal.add(start)
            self._account_count = len(starts)
            return len(starts) >= expected

        await_condition(
            record_new_starts, self.clock, within_s=ACCOUNTS_S, poll_s=self.cluster.poll_s
        )

    def _check_dependents(self, *, within_s: float) -> None:
        """Record each dependent that has begun; after `within_s` those as well that have not."""

        def record_begun(*, is_late: bool = False) -> bool:
            for kind, number in tuple(self._dependents.items()):
                state = self.cluster.job(number)
                if state is not None and (state.has_begun or is_late or state.reason == _NEVER):
                    self._record_dependent(kind, state)
            return not self._dependents

        await_condition(record_begun, self.clock, within_s=within_s, poll_s=self.cluster.poll_s)
        if within_s:
            record_begun(is_late=True)

    def _record_dependent(self, kind: Dependency, state: JobState) -> None:
        # It is judged by its beginning. What it would write is no part of the run.
        self.cluster.cancel(self._dependents.pop(kind))
        script = Path(self.plan.job.then[kind]).name
        reason = "" if state.has_begun else state.reason
        event = DependentSeen(
            script=script, dependency_kind=kind, began=state.has_begun, reason=reason
        )
        self.journal.add(event)

    def _record_restarts(self, state: JobState) -> None:
        """Record each attempt that another one follows: by a requeue, or a round of torchrun's."""
        requeues, self._restarts = state.restarts - self._restarts, state.restarts
        undecided = self._list_undecided()
        for attempt in undecided[:requeues]:
            reason = self._find_requeue_reason()
            foreign_requeue = self.cluster.describe_foreign_requeue(
                reason, has_fault=self.has_injected_fault(attempt)
            )
            if foreign_requeue is not None:
                self.journal.add(Disturbed(why=foreign_requeue))
            self._record_decision(attempt, "RETRY", f"requeued by Slurm{reason}")
        if (latest := undecided[-1:]) != self._latest_attempt:
            self._latest_attempt, self._output_offset = latest, len(self._load_output())
        for attempt in undecided[requeues:-1]:
            self._record_decision(
                attempt, "RETRY", "torchrun's agent has started its workers again"
            )

    def _list_undecided(self) -> list[int]:
        attempts = {
            event.attempt for event in self.fetch_events() if isinstance(event, WorkerGroupStarted)
        }
        return sorted(attempts - self._finished_attempts)

    def _find_requeue_reason(self) -> str:
        """Return why Slurm ended the last attempt, if the job's output has its words."""
        reasons = (
            line.partition(" DUE TO ")[2] for line in self._get_attempt_output().splitlines()
        )
        return next((f" ({reason.strip(' *').lower()})" for reason in reasons if reason), "")

    def _get_attempt_output(self) -> str:
        """Return the job's output since its last attempt began; empty if its script has a file.

        The output of a start follows that of the one before, or replaces it (`--open-mode`).
        """
        text = self._load_output()
        return text[self._output_offset if self._output_offset <= len(text) else 0 :]

    def _load_output(self) -> str:
        log = self.directory.logs / "driver.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def _record_decision(
        self, attempt: int, decision: Literal["RETRY", "RAISE"], error: str, *, code: int = 0
    ) -> None:
        self._finished_attempts.add(attempt)
        errors = self.find_rank_errors(attempt)
        if code - _SIGNAL_OFFSET in self.world.sent_signals:
            explanation = (
                f"ended by {signal.Signals(code - _SIGNAL_OFFSET).name}, which a fault has sent"
            )
            errors |= {
                rank: explanation for rank in self.world.list_targets() if rank not in errors
            }
        decision_event = FailureDecided(
            attempt=attempt,
            decision=decision,
            charged="nothing",
            error=error,
            errors=errors,
        )
        self.journal.add(decision_event)
        self.world.failure_decided(decision_event)

    def end_driver(self, driver: int) -> int:
        self.cluster.cancel(driver)
        return _FAILURE_CODE

    def do_background_work(self) -> None:
        self.clock.sleep(self.cluster.poll_s)

    def list_stack_files(self, driver: int) -> list[tuple[int, str]]:
        del driver
        return []


def require_one_training(job: Job) -> None:
    """Raise `UsageError` if a script would start several trainings: a run watches one."""
    header = load_options(Path(job.source))
    array = header.get("--array")
    if array is not None and job.array_task is None:
        raise UsageError(
            f"each task of --array={array.value} is a training of its own, and a run watches one",
            "Choose a task in the scenario: `job: {array_task: 0}`.",
            location=f"{job.source}:{array.line}",
        )
    if array is None and job.array_task is not None:
        raise UsageError(
            f"job.array_task is {job.array_task}, and the script has no --array",
            "Leave it out.",
            location=job.source,
        )


def describe_end(state: JobState) -> str:
    """Return in words how a job ended that Slurm does not requeue."""
    code = f"code {state.code}" if state.code else "no error of its own"
    code = f"signal {state.signal}" if state.signal else code
    if state.is_preempted and state.state == "FAILED":
        return (
            f"it was preempted and ended with {code} within its grace; Slurm requeues what is "
            "still there when that is over"
        )
    return f"it ended with {code}, and Slurm has not requeued it"
