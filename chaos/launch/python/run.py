"""One run of a command, from the harness's side."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from chaos.launch.child_environment import add_child_watch
from chaos.launch.commands.groups import GroupServer
from chaos.launch.environment import NODE_ENV, command_env
from chaos.launch.job import build_start_words
from chaos.launch.local_run import POLL_S, LocalRun
from chaos.launch.node_disk import NodeDisk
from chaos.launch.python.world import CommandWorld
from chaos.model.event import (
    CommandEnded,
    Disturbed,
    FailureDecided,
    FitCalled,
    FitRaised,
    FitReturned,
    Leftover,
    StepDone,
)
from chaos.model.process_end import describe_exit_code, describe_signal_end
from chaos.plan.driver_restart import has_retries_left
from chaos.processes.start import Process, ProcessStart, Starter
from chaos.processes.tree import describe_command, is_running, kill, kill_tree
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import elapsed_seconds
from chaos.run.controller import ChaosController
from chaos.run.signals import DRIVER_STACKS, describe_kill, is_foreign
from chaos.wording import extract_last_line

_LOST_MACHINE_CODE = (
    1  # the exit code of a command whose machine was taken, whatever it ended with itself
)
_KILLED = re.compile(r"\bSIGKILL\b")
LOOK_S = 0.02
# For ranks that are ending to end, on a busy machine; for a step that one has in hand.
ORPHANS_S, IN_HAND_S = 30.0, 2.0


@dataclass(frozen=True)
class Command:
    """One start of the command."""

    process: Process
    start: int
    node_id: str


@dataclass
class PythonRun(LocalRun[Command, CommandWorld]):
    """One execution of one plan; its driver is the command, whose starts are the attempts."""

    hash_seed: str
    starter: Starter

    def make_world(self, armed: ArmedFaults, build_disk: Callable[[str], NodeDisk]) -> CommandWorld:
        return CommandWorld(self.clock, armed, build_disk)

    def serve(self, name: str, controller: ChaosController) -> GroupServer:
        return GroupServer(name, controller, self.world, self.journal)

    def start_driver(self) -> Command:
        plan, start, node = self.plan, self.start_number, self.world.select_machine()
        words = tuple(build_start_words(plan, 0 if self.has_first_args else start))
        log = str(self.directory.logs / "driver.log")
        env = {
            **command_env(plan, self.address, hash_seed=self.hash_seed, defaults={}),
            **self.start_env,
            NODE_ENV: node,
        }
        env = add_child_watch(env)
        command = Command(self.starter(ProcessStart(words, env, plan.cwd, log, log)), start, node)
        self.journal.add(
            self._build_fit_event()
        )  # embedded, the imports are over: no other run has them
        self.world.record_command(node, command.process.pid)
        return command

    def _build_fit_event(self) -> FitCalled:
        job = self.plan.job
        retries = 0 if job.failure is None else job.failure.max_failures
        workers = None if self.plan.follows_script else job.workers
        return FitCalled(
            trainer=job.launcher,
            workers=job.workers,
            run_name=self.plan.slug,
            storage_path="",
            settings={"num_workers": workers, "max_failures": retries},
            original_settings={},
        )

    def find_pid(self, driver: Command) -> int:
        return driver.process.pid

    def exit_code(self, driver: Command) -> int | None:
        """Return the code of a command that has ended, once nothing is left of it."""
        code = driver.process.poll()
        if code is None:
            return None
        is_taken = self.world.is_faulted(driver.node_id)
        if is_foreign(code) and not is_taken and driver.process.pid not in self.world.signalled:
            self.journal.add(Disturbed(why=describe_kill("the command", code)))
            return code
        if code == 0 and not is_taken:
            self.journal.add(
                FitReturned(metrics={}, checkpoint=None, launcher=self.plan.job.launcher)
            )
            return code
        self.record_failure(driver, code, is_taken=is_taken)
        return code or _LOST_MACHINE_CODE

    def record_failure(self, driver: Command, code: int, *, is_taken: bool) -> None:
        """Record the failure of an attempt; before another start, end what is left of it."""
        name, message = self.find_error(code)
        if is_taken:
            name, message = "MachineLost", "a fault took its machine"
        error, errors = f"{name}: {extract_last_line(message)}", self.find_rank_errors(driver.start)
        if _KILLED.search(message) and not self.has_injected_fault(driver.start):
            self.journal.add(
                Disturbed(why=describe_kill("a process of the command", -signal.SIGKILL))
            )
        can_retry = self.can_retry()
        decision_event = FailureDecided(
            attempt=driver.start,
            decision="RETRY" if can_retry else "RAISE",
            charged="failures",
            error=error,
            errors=errors,
        )
        self.journal.add(decision_event)
        self.world.failure_decided(decision_event)
        if can_retry:
            self.end_remaining(driver.start)
        else:
            self.journal.add(
                FitRaised(error=name, message=message, launcher=self.plan.job.launcher)
            )

    def can_retry(self) -> bool:
        """Return whether another start follows the failure that is being recorded."""
        return has_retries_left(self.plan, self.fetch_events())

    def find_error(self, code: int) -> tuple[str, str]:
        """Return what ended the command: the error of its script, a signal, or its exit code."""
        end_events = [event for event in self.fetch_events() if isinstance(event, CommandEnded)]
        end_event = end_events[-1] if len(end_events) == self.start_number + 1 else None
        if end_event is not None and end_event.error is not None:
            return end_event.error, end_event.message
        description = (
            describe_signal_end(signal.Signals(-code).name)
            if code < 0
            else describe_exit_code(code)
        )
        return "CommandFailed", description

    def end_remaining(self, attempt: int) -> None:
        """End what the command has left: two starts of it side by side would write the same files.

        Recorded are ranks that train on without it, or do not end. A loader's processes do, but it
        takes them some seconds.
        """
        ranks = {event.pid for event in self.workers() if event.attempt == attempt}
        start_ns, event_count = self.clock.now_ns(), len(self.fetch_events())
        while any(map(is_running, ranks)):
            waited_s = elapsed_seconds(start_ns, self.clock)
            steps = (
                step for step in self.fetch_events()[event_count:] if isinstance(step, StepDone)
            )
            trains_on = any(event.attempt == attempt for event in steps)
            if waited_s > ORPHANS_S or (trains_on and waited_s > IN_HAND_S):
                break
            self.clock.sleep(POLL_S)
        for process in self.descendants():
            if process.pid in ranks:
                description = f"pid {process.pid} of attempt {attempt}: {describe_command(process)}"
                self.journal.add(Leftover(kind="process", name=description))
            kill(process)

    def end_driver(self, driver: Command) -> int:
        if driver.process.poll() is None:
            kill_tree(driver.process.pid)
        return driver.process.wait()

    def do_background_work(self) -> None:
        self.clock.sleep(LOOK_S)

    def list_stack_files(self, driver: Command) -> list[tuple[int, str]]:
        return [(driver.process.pid, DRIVER_STACKS)]
