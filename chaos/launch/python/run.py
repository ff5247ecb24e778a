"""One run of a command, from the harness's side."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from chaos.launch.commands.groups import GroupServer
from chaos.launch.environment import NODE_ENV, command_env
from chaos.launch.job import words_at
from chaos.launch.local_run import POLL_S, LocalRun
from chaos.launch.node_disk import NodeDisk
from chaos.launch.python.world import CommandWorld
from chaos.launch.watched_children import with_watched_children
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
from chaos.model.launcher import Launcher
from chaos.plan.driver_restart import has_retries_left
from chaos.processes.start import Process, ProcessStart, Starter
from chaos.processes.tree import command_of, end_all, is_running, kill
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since
from chaos.run.controller import ChaosController
from chaos.run.signals import DRIVER_STACKS, is_foreign, killed
from chaos.words import gist

_ME: Launcher = "python"
_GONE = 1  # the exit code of a command whose machine was taken, whatever it ended with itself
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

    def make_world(self, armed: ArmedFaults, disk_of: Callable[[str], NodeDisk]) -> CommandWorld:
        return CommandWorld(self.clock, armed, disk_of)

    def serve(self, name: str, controller: ChaosController) -> GroupServer:
        return GroupServer(name, controller, self.world, self.journal)

    def start_driver(self) -> Command:
        plan, start, node = self.plan, self.start_number, self.world.machine()
        words = tuple(words_at(plan, 0 if self.has_first_args else start))
        log = str(self.directory.logs / "driver.log")
        env = {
            **command_env(plan, self.address, hash_seed=self.hash_seed, defaults={}),
            **self.start_env,
            NODE_ENV: node,
        }
        env = with_watched_children(env)
        command = Command(self.starter(ProcessStart(words, env, plan.cwd, log, log)), start, node)
        self.journal.add(self._called())  # embedded, the imports are over: no other run has them
        self.world.started(node, command.process.pid)
        return command

    def _called(self) -> FitCalled:
        job = self.plan.job
        retries = 0 if job.failure is None else job.failure.max_failures
        workers = None if self.plan.follows_script else job.workers
        return FitCalled(
            trainer=_ME,
            workers=job.workers,
            run_name=self.plan.slug,
            storage_path="",
            settings={"num_workers": workers, "max_failures": retries},
            replaced={},
        )

    def pid_of(self, driver: Command) -> int:
        return driver.process.pid

    def exit_code(self, driver: Command) -> int | None:
        """Return the code of a command that has ended, once nothing is left of it."""
        code = driver.process.poll()
        if code is None:
            return None
        is_taken = self.world.is_taken(driver.node_id)
        if is_foreign(code) and not is_taken and driver.process.pid not in self.world.signalled:
            self.journal.add(Disturbed(why=killed("the command", code)))
            return code
        if code == 0 and not is_taken:
            self.journal.add(FitReturned(metrics={}, checkpoint=None, launcher=_ME))
            return code
        self._failed(driver, code, is_taken=is_taken)
        return code or _GONE

    def _failed(self, driver: Command, code: int, *, is_taken: bool) -> None:
        """Record the failure of an attempt; before another start, end what is left of it."""
        name, message = self._error(code)
        if is_taken:
            name, message = "MachineLost", "a fault took its machine"
        error, errors = f"{name}: {gist(message)}", self.errors_of(driver.start)
        if _KILLED.search(message) and not self.is_struck(driver.start):
            self.journal.add(Disturbed(why=killed("a process of the command", -signal.SIGKILL)))
        again = has_retries_left(self.plan, self.seen())
        decided = FailureDecided(
            attempt=driver.start,
            decision="RETRY" if again else "RAISE",
            charged="failures",
            error=error,
            errors=errors,
        )
        self.journal.add(decided)
        self.world.failure_decided(decided)
        if again:
            self._end_the_rest(driver.start)
        else:
            self.journal.add(FitRaised(error=name, message=message, launcher=_ME))

    def _error(self, code: int) -> tuple[str, str]:
        """Return what ended the command: the error of its script, a signal, or its exit code."""
        ended = [event for event in self.seen() if isinstance(event, CommandEnded)]
        told = ended[-1] if len(ended) == self.start_number + 1 else None
        if told is not None and told.error is not None:
            return told.error, told.message
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return "CommandFailed", how

    def _end_the_rest(self, attempt: int) -> None:
        """End what the command has left: two starts of it side by side would write the same files.

        Recorded are ranks that train on without it, or do not end. A loader's processes do, but it
        takes them some seconds.
        """
        ranks = {event.pid for event in self.workers() if event.attempt == attempt}
        since, seen = self.clock.now_ns(), len(self.seen())
        while any(map(is_running, ranks)):
            waited_s = seconds_since(since, self.clock)
            steps = (e for e in self.seen()[seen:] if isinstance(e, StepDone))
            trains_on = any(event.attempt == attempt for event in steps)
            if waited_s > ORPHANS_S or (trains_on and waited_s > IN_HAND_S):
                break
            self.clock.sleep(POLL_S)
        for process in self.descendants():
            if process.pid in ranks:
                what = f"pid {process.pid} of attempt {attempt}: {command_of(process)}"
                self.journal.add(Leftover(kind="process", what=what))
            kill(process)

    def end_driver(self, driver: Command) -> int:
        if driver.process.poll() is None:
            end_all(driver.process.pid)
        return driver.process.wait()

    def meanwhile(self) -> None:
        self.clock.sleep(LOOK_S)

    def stacks_of(self, driver: Command) -> list[tuple[int, str]]:
        return [(driver.process.pid, DRIVER_STACKS)]
