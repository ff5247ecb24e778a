"""`chaos replay`: the plan of a recorded run, executed again."""

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
from chaos.cli.cluster import AllowFaultsOn, AllowNodeLoss
from chaos.cli.options import REPORTS, Reports
from chaos.cli.run import KeepStorage, find_exit_code
from chaos.errors import UsageError
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.arguments import build_command_line
from chaos.model.event import LossResolved, StepDone
from chaos.model.history import History
from chaos.model.masking import mask_text, mask_value
from chaos.model.plan import Plan
from chaos.plan.permissions import ClusterOverrides, Permissions
from chaos.report.outcome import FinishedRun, build_suite_row
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.report.terminal import print_suite
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory

HELP_PANEL = "Results"
HELP_LINE = "Execute the plan of a recorded run again."
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def replay(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    reports: Reports = REPORTS,
    keep_storage: KeepStorage = False,  # noqa: FBT002 - a flag on the command line
    yes: Yes = False,  # noqa: FBT002 - likewise
    allow_faults_on: AllowFaultsOn = None,
    allow_node_loss: AllowNodeLoss = False,  # noqa: FBT002
) -> None:
    """Execute the plan of a recorded run again, and compare the results.

    The plan names a script, which runs here: chaos shows it and asks.

    Example: chaos replay reports/worker_killed_mid_epoch/0-20261121T014500
    """
    console, recorded_run = build_console(), RunDirectory(directory.resolve())
    plan = recorded_run.load_plan()
    console.print(f"chaos {__version__}, seed {plan.seed}, replay of {directory}", soft_wrap=True)
    confirm_execution(console, plan, directory.resolve(), is_answered=yes)
    permissions = Permissions(allow_faults_on, allow_node_loss)
    name = plan.backend if plan.job.launcher_facts.extra == "ray" else plan.job.launcher
    with open_backend(name, ConsoleAnnouncer(console), permissions) as executor:
        cwd, overrides = Path(plan.cwd), ClusterOverrides(permissions=permissions)
        harness = Harness(reports, console, cwd, executor, SystemClock(), keep_storage, overrides)
        replayed_run = harness.run_plan(plan)
    print_runs(console, [replayed_run])
    console.print(describe_sameness(recorded_run, replayed_run), soft_wrap=True)
    raise typer.Exit(find_exit_code([build_suite_row(replayed_run)]))


def describe_sameness(recorded_run: RunDirectory, replayed_run: FinishedRun) -> str:
    """Return in words whether a replay equals the recorded run: its verdict and every loss."""
    recorded_verdict, replayed_verdict = recorded_run.load_verdict(), replayed_run.verdict
    if recorded_verdict is None:
        return "replay: the recorded run has no verdict to compare with"
    outcomes = [
        (verdict.status, [result.check for result in verdict.broken])
        for verdict in (recorded_verdict, replayed_verdict)
    ]
    names = [f"{status} ({', '.join(checks)})" if checks else status for status, checks in outcomes]
    is_same_verdict = outcomes[0] == outcomes[1]
    verdict = (
        f"same verdict, {names[1]}" if is_same_verdict else f"{names[1]} instead of {names[0]}"
    )
    recorded_losses, replayed_losses = (
        collect_losses(recorded_run.load_history()),
        collect_losses(replayed_run.history),
    )
    shared_keys = sorted(recorded_losses.keys() & replayed_losses.keys())
    first_difference = next(
        (place for place in shared_keys if recorded_losses[place] != replayed_losses[place]), None
    )
    if first_difference is None:
        losses_text = f"same losses at all {len(shared_keys)} steps that both runs have"
    else:
        attempt, epoch, step, rank = first_difference
        losses_text = (
            f"other losses, first in attempt {attempt} at epoch {epoch}, step {step}, rank {rank}: "
            f"{replayed_losses[first_difference]} instead of {recorded_losses[first_difference]}"
        )
    return f"replay: {verdict}; {losses_text}"


Losses: TypeAlias = dict[tuple[int, int, int, int], tuple[float | str, ...]]


def collect_losses(history: History) -> Losses:
    """Return the losses of each step, by attempt, epoch, step and rank."""
    return {
        (event.attempt, event.epoch, event.step, event.rank): event.losses
        for event in (entry.event for entry in history)
        if isinstance(event, StepDone | LossResolved) and event.losses is not None
    }


def print_runs(console: Console, runs: Sequence[FinishedRun]) -> None:
    """Print the result of each run, and the path of its report."""
    print_suite([build_suite_row(finished_run) for finished_run in runs], console)
    for finished_run in runs:
        console.print(f"report: {finished_run.directory}{os.sep}report.html", soft_wrap=True)


def confirm_execution(console: Console, plan: Plan, folder: Path, *, is_answered: bool) -> None:
    """Show the command that a plan will run; raise `UsageError` unless the user agrees.

    `folder` is that of the plan's run. Raises it as well if the job's working folder is gone.
    """
    if not Path(plan.cwd).is_dir():
        raise UsageError(
            f"the working folder of the job is gone: {plan.cwd}",
            "Make it again, with what the job needs there.",
            location=str(folder / "plan.json"),
        )
    for name, value in _describe_plan(plan, folder):
        console.print(Text.assemble((f"{name:<9}", "dim"), value), soft_wrap=True)
    if is_answered:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing was run: there is no terminal to ask whether this code may run here",
            "Read what it will run, and give --yes.",
            location=str(folder / "plan.json"),
        )
    console.print("Run it? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was run", "`--yes` answers beforehand.")


def _describe_plan(plan: Plan, folder: Path) -> Iterator[tuple[str, str]]:
    job = plan.job
    if job.script is not None:
        yield "runs", f"{job.script} ({_describe_location(Path(plan.cwd, job.script), folder)})"
    elif job.module is not None:
        yield "runs", f"{job.module}, a module, as python -m does"
    else:
        yield "runs", f"{job.train_loop}, a train loop that is imported"
    if job.args:
        args = mask_value(job.args)
        yield "with", str(args) if job.train_loop else shlex.join(build_command_line(args))
    if job.restarts_by_command:
        words = shlex.join(build_command_line(mask_value(job.restart_args)))
        yield "again", f"after a failure{f', with {words}' if words else ''}"
    yield "in", f"{plan.cwd} ({_describe_location(Path(plan.cwd), folder)})"
    if job.env:
        yield (
            "env",
            " ".join(f"{name}={mask_value(value, name)}" for name, value in job.env.items()),
        )
    if plan.shape.address is not None:
        yield "cluster", plan.shape.address
    if plan.shape.storage is not None:
        yield "storage", mask_text(plan.shape.storage)


def _describe_location(path: Path, folder: Path) -> str:
    """Return in words whether a path is in the run's folder, or elsewhere on this machine."""
    if not path.exists():
        return "it is not there"
    is_inside = path.resolve().is_relative_to(folder)
    return (
        "in the run's folder: it came with the record" if is_inside else "outside the run's folder"
    )
