"""The backend of jobs that a command starts: in real processes, or in forked ones."""

import os
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from chaos.errors import UsageError
from chaos.launch.commands.roots import RootProcesses
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.launched_run import LaunchedRun, execute_with_retry
from chaos.model.plan import Plan
from chaos.processes.start import Process, ProcessStart, Starter
from chaos.run.directory import RunDirectory
from chaos.run.ports import LaneFolders, ScriptBackend, ShowEntries


class CommandBackend(ScriptBackend):
    """A context manager: leaving it ends the processes that its runs were forked from.

    A plan's backend decides: `fork` is embedded, the launcher's name starts every process anew.
    Backends beside this one, or afresh, fork from the same processes, and end none.
    """

    #: the words of an interpreter that become what a root forks
    interpreter_words: ClassVar[tuple[str, ...]]
    #: the file that a root executes
    root: ClassVar[Path]
    #: makes the execution of a plan, by its directory, what to show, why it begins again, the hash
    #: seed and what starts its processes
    make_run: ClassVar[Callable[..., LaunchedRun[Any]]]

    def __init__(
        self,
        hash_seed: str = HASH_SEED,
        roots: RootProcesses | None = None,
        view: LaneFolders | None = None,
    ) -> None:
        self.hash_seed = hash_seed
        self._view = view
        self._owns = roots is None
        self._roots = roots or RootProcesses(self.root, self.root_env)

    def close(self) -> None:
        if self._owns:
            self._roots.close()

    def open_parallel(self, view: LaneFolders | None = None) -> Self:
        return type(self)(self.hash_seed, self._roots, view)

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> Self:
        """Return a backend like this one, or with another hash seed: every run is a start."""
        if reseeded_plan is None:
            return type(self)(HASH_SEED, self._roots)
        if reseeded_plan.backend == "fork":  # its imports take seconds: they begin now
            log = Path(os.devnull)
            self._roots.warm_up(reseeded_plan, hash_seed=OTHER_HASH_SEED, log=log)
        return type(self)(OTHER_HASH_SEED, self._roots)

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        starter = self._starter(plan, directory)

        def execute_run(retry_reason: str | None) -> str | None:
            arguments = (plan, directory, show, retry_reason, self.hash_seed, starter)
            return self.make_run(*arguments, view=self._view).execute()

        execute_with_retry(execute_run, directory)

    def _starter(self, plan: Plan, directory: RunDirectory) -> Starter:
        if plan.backend != "fork":
            assert self._view is None  # only forks enter one
            return partial(start_interpreter, self.interpreter_words)
        if (reason := self.why_not_forked({**os.environ, **plan.job.env})) is not None:
            raise UsageError(
                reason, f"Add --backend {plan.job.launcher}: every process is started anew."
            )
        log = directory.logs / "root.log"
        start = partial(self._roots.start, plan, hash_seed=self.hash_seed, log=log)
        holder = None if self._view is None else self._view.pid
        return lambda request: start(replace(request, view=holder))

    # -- filled in by a launcher -----------------------------------------------------------

    @staticmethod
    @abstractmethod
    def root_env(plan: Plan, hash_seed: str) -> dict[str, str]:
        """Return the environment of the root of a plan's job."""

    @staticmethod
    @abstractmethod
    def why_not_forked(env: Mapping[str, str]) -> str | None:
        """Return why a job with this environment needs processes of its own, None if not."""


def start_interpreter(interpreter_options: Sequence[str], start: ProcessStart) -> Process:
    """Start a process in a new interpreter, of which these are the first words."""
    assert start.stdout is not None
    with Path(start.stdout).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *interpreter_options, *start.words],
            env=start.env,
            cwd=start.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the harness alone, which ends the driver
        )
