"""The backend of the loop's jobs: a run is one shell, and each start of the script an attempt."""

import subprocess
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from chaos.errors import NoViewError
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.launched_run import execute_with_retry
from chaos.launch.python.process import COMMAND
from chaos.launch.python.run import Command, PythonRun
from chaos.model.event import FitReturned
from chaos.model.plan import Plan
from chaos.model.process_end import describe_exit_code
from chaos.processes.start import Process, ProcessStart
from chaos.run.directory import RunDirectory
from chaos.run.ports import LaneFolders, ScriptBackend, ShowEntries

# The number of a start is that of its attempt. The code of one that has failed is a line of a file.
LOOP = """\
n=0
until CHAOS_START=$n "$@"; do
    echo $? >> "$LOOP_CODES"
    n=$((n + 1))
    [ $n -le "$LOOP_RETRIES" ] || exit 1
done
"""
CODES = "loop-codes"


def start_loop(plan: Plan, codes: Path, start: ProcessStart) -> Process:
    """Start the shell, whose loop starts the script and watches it as a plain command's."""
    assert start.stdout is not None
    retries = 0 if plan.job.failure is None else plan.job.failure.max_failures
    with Path(start.stdout).open("ab") as log:
        return subprocess.Popen(
            ["/bin/sh", "-c", LOOP, "sh", sys.executable, "-u", str(COMMAND), *start.words],
            env={**start.env, "LOOP_CODES": str(codes), "LOOP_RETRIES": str(retries)},
            cwd=start.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the harness alone, which ends the shell
        )


@dataclass
class ShellLoopRun(PythonRun):
    """One execution of one plan; its driver is the shell."""

    shell: Command | None = field(default=None, init=False)
    failure_count: int = field(default=0, init=False)

    def start_driver(self) -> Command:
        self.shell = super().start_driver()
        return self.shell

    def do_background_work(self) -> None:
        super().do_background_work()
        self.record_failed_starts()

    def exit_code(self, driver: Command) -> int | None:
        """Return the code of a shell that has ended, once all of its starts are recorded."""
        code = driver.process.poll()
        self.record_failed_starts()
        if code == 0:
            launcher = self.plan.job.launcher
            self.journal.add(FitReturned(metrics={}, checkpoint=None, launcher=launcher))
        return code

    def record_failed_starts(self) -> None:
        """Record the starts that have failed since the last call."""
        file = self.directory.logs / CODES
        codes = file.read_text().splitlines() if file.exists() else []
        for attempt, code in enumerate(codes[self.failure_count :], self.failure_count):
            assert self.shell is not None
            self.failure_count += 1
            self.record_failure(replace(self.shell, start=attempt), int(code), is_taken=False)

    def can_retry(self) -> bool:
        """Return whether the loop goes on after the failure that is being recorded."""
        failure = self.plan.job.failure
        return failure is not None and self.failure_count <= failure.max_failures

    def find_error(self, code: int) -> tuple[str, str]:
        return "CommandFailed", describe_exit_code(code)

    def end_remaining(self, attempt: int) -> None:
        """Leave everything: the shell has begun the next start already."""


class ShellLoopBackend(ScriptBackend):
    """The backend of plans under the loop: nothing is kept between two runs."""

    def __init__(self, hash_seed: str = HASH_SEED) -> None:
        self.hash_seed = hash_seed

    def open_parallel(self, view: LaneFolders | None = None) -> Self:
        if view is not None:
            raise NoViewError("a shell starts the script")
        return type(self)(self.hash_seed)

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> Self:
        return type(self)(HASH_SEED if reseeded_plan is None else OTHER_HASH_SEED)

    def close(self) -> None:
        """Keep nothing between plans, and end nothing."""

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        def execute_run(retry_reason: str | None) -> str | None:
            starter = partial(start_loop, plan, directory.logs / CODES)
            run = ShellLoopRun(plan, directory, show, retry_reason, self.hash_seed, starter)
            return run.execute()

        execute_with_retry(execute_run, directory)
