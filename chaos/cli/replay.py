"""`chaos replay` and `chaos rejudge`: a recorded run, executed again or only judged again."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from chaos import __version__
from chaos.cli.cluster import AllowFaultsOn, AllowNodeLoss, PrestartWorkers
from chaos.cli.options import REPORTS, Reports
from chaos.cli.run import KeepStorage, exit_code
from chaos.errors import UsageError
from chaos.harness import Harness, check_again
from chaos.launch.open import open_backend
from chaos.model.arguments import command_line
from chaos.model.event import LossResolved, StepDone
from chaos.model.history import History
from chaos.model.masked import masked, masked_text
from chaos.model.plan import Plan
from chaos.plan.permitted import ClusterOverrides, Permissions
from chaos.report.outcome import FinishedRun, row_of
from chaos.report.screen import screen
from chaos.report.terminal import print_suite
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def rejudge(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
) -> None:
    """Judge recorded runs again, with today's checks; nothing is executed.

    Example: chaos rejudge reports/worker_killed_mid_epoch/0-20261121T014500
    """
    runs = [check_again(path) for path in directories]
    _show(screen(), runs)
    raise typer.Exit(exit_code([row_of(one) for one in runs]))


def replay(  # noqa: PLR0913, PLR0917 - one parameter per option
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    reports: Reports = REPORTS,
    keep_storage: KeepStorage = False,  # noqa: FBT002 - a flag on the command line
    yes: Yes = False,  # noqa: FBT002 - likewise
    allow_faults_on: AllowFaultsOn = None,
    allow_node_loss: AllowNodeLoss = False,  # noqa: FBT002
    prestart_workers: PrestartWorkers = False,  # noqa: FBT002
) -> None:
    """Execute the plan of a recorded run again, and compare the results.

    The plan names a script, which runs here: chaos shows it and asks.

    Example: chaos replay reports/worker_killed_mid_epoch/0-20261121T014500
    """
    console, recorded = screen(), RunDirectory(directory.resolve())
    plan = recorded.load_plan()
    console.print(f"chaos {__version__}, seed {plan.seed}, replay of {directory}", soft_wrap=True)
    ask(console, plan, directory.resolve(), is_answered=yes)
    may = Permissions(allow_faults_on, allow_node_loss)
    name = plan.backend if plan.job.facts.extra == "ray" else plan.job.launcher
    with open_backend(name, console, may, prestart=prestart_workers) as executor:
        cwd, there = Path(plan.cwd), ClusterOverrides(permissions=may)
        harness = Harness(reports, console, cwd, executor, SystemClock(), keep_storage, there)
        replayed = harness.run_plan(plan)
    _show(console, [replayed])
    console.print(sameness(recorded, replayed), soft_wrap=True)
    raise typer.Exit(exit_code([row_of(replayed)]))


def sameness(recorded: RunDirectory, replayed: FinishedRun) -> str:
    """Return in words whether a replay equals the recorded run: its verdict and every loss."""
    before, now = recorded.load_verdict(), replayed.verdict
    if before is None:
        return "replay: the recorded run has no verdict to compare with"
    found = [(verdict.status, [r.check for r in verdict.broken]) for verdict in (before, now)]
    names = [f"{word} ({', '.join(checks)})" if checks else word for word, checks in found]
    alike = found[0] == found[1]
    verdict = f"same verdict, {names[1]}" if alike else f"{names[1]} instead of {names[0]}"
    theirs, ours = losses(recorded.load_history()), losses(replayed.history)
    both = sorted(theirs.keys() & ours.keys())
    apart = next((place for place in both if theirs[place] != ours[place]), None)
    if apart is None:
        sameness = f"same losses at all {len(both)} steps that both runs have"
    else:
        attempt, epoch, step, rank = apart
        sameness = (
            f"other losses, first in attempt {attempt} at epoch {epoch}, step {step}, rank {rank}: "
            f"{ours[apart]} instead of {theirs[apart]}"
        )
    return f"replay: {verdict}; {sameness}"


Losses: TypeAlias = dict[tuple[int, int, int, int], tuple[float | str, ...]]


def losses(history: History) -> Losses:
    """Return the losses of each step, by attempt, epoch, step and rank."""
    return {
        (event.attempt, event.epoch, event.step, event.rank): event.losses
        for event in (entry.what for entry in history)
        if isinstance(event, StepDone | LossResolved) and event.losses is not None
    }


def _show(console: Console, runs: Sequence[FinishedRun]) -> None:
    print_suite([row_of(one) for one in runs], console)
    for one in runs:
        console.print(f"report: {one.directory}{os.sep}report.html", soft_wrap=True)


def ask(console: Console, plan: Plan, folder: Path, *, is_answered: bool) -> None:
    """Show the command that a plan will run; raise `UsageError` unless the user agrees.

    `folder` is that of the plan's run. Raises it as well if the job's working folder is gone.
    """
    if not Path(plan.cwd).is_dir():
        raise UsageError(
            f"the working folder of the job is gone: {plan.cwd}",
            "Make it again, with what the job needs there.",
            place=str(folder / "plan.json"),
        )
    for name, value in _facts(plan, folder):
        console.print(Text.assemble((f"{name:<9}", "dim"), value), soft_wrap=True)
    if is_answered:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing was run: there is no terminal to ask whether this code may run here",
            "Read what it will run, and give --yes.",
            place=str(folder / "plan.json"),
        )
    console.print("Run it? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was run", "`--yes` answers beforehand.")


def _facts(plan: Plan, folder: Path) -> Iterator[tuple[str, str]]:
    job = plan.job
    if job.script is not None:
        yield "runs", f"{job.script} ({_where(Path(plan.cwd, job.script), folder)})"
    elif job.module is not None:
        yield "runs", f"{job.module}, a module, as python -m does"
    else:
        yield "runs", f"{job.train_loop}, a train loop that is imported"
    if job.args:
        args = masked(job.args)
        yield "with", str(args) if job.train_loop else shlex.join(command_line(args))
    if job.restarts_by_command:
        words = shlex.join(command_line(masked(job.restart_args)))
        yield "again", f"after a failure{f', with {words}' if words else ''}"
    yield "in", f"{plan.cwd} ({_where(Path(plan.cwd), folder)})"
    if job.env:
        yield "env", " ".join(f"{name}={masked(value, name)}" for name, value in job.env.items())
    if plan.shape.address is not None:
        yield "cluster", plan.shape.address
    if plan.shape.storage is not None:
        yield "storage", masked_text(plan.shape.storage)


def _where(path: Path, folder: Path) -> str:
    """Return in words whether a path is in the run's folder, or elsewhere on this machine."""
    if not path.exists():
        return "it is not there"
    inside = path.resolve().is_relative_to(folder)
    return "in the run's folder: it came with the record" if inside else "outside the run's folder"
