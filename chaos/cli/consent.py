"""What `chaos replay` says before it runs the code that a plan names, and the answer to it."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from chaos.errors import UsageError
from chaos.model.arguments import command_line
from chaos.model.masked import masked, masked_text
from chaos.model.plan import Plan

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Run it without being asked.")]


def ask(console: Console, plan: Plan, folder: Path, *, is_answered: bool) -> None:
    """Say what a plan will run; raise `UsageError` unless somebody wants that.

    `folder` is that of the run which the plan comes from.
    """
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
    else:
        yield "runs", f"{job.train_loop}, a train loop that is imported"
    if job.args:
        args = masked(job.args)
        yield "with", shlex.join(command_line(args)) if job.script else str(args)
    yield "in", f"{plan.cwd} ({_where(Path(plan.cwd), folder)})"
    if job.env:
        yield "env", " ".join(f"{name}={masked(value, name)}" for name, value in job.env.items())
    if plan.shape.address is not None:
        yield "cluster", plan.shape.address
    if plan.shape.storage is not None:
        yield "storage", masked_text(plan.shape.storage)


def _where(path: Path, folder: Path) -> str:
    """Say whether a path came along with the run's folder, or is this machine's own."""
    if not path.exists():
        return "it is not there"
    inside = path.resolve().is_relative_to(folder)
    return "in the run's folder: it came with the record" if inside else "outside the run's folder"
