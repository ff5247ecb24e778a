"""`chaos list` and `chaos explain`: what there is, in one line each, and in full."""

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import typer
from rich.text import Text

from chaos.errors import ScenarioError, UsageError
from chaos.extensions import other_checks
from chaos.report.catalogue import catalogue, explained, names, table_of
from chaos.report.screen import screen
from chaos.run.shown import shown
from chaos.scenario_file.load import find_scenarios, load_scenario

Listed: TypeAlias = Literal["faults", "places", "checks", "scenarios", "jobs"]


def list_(
    topic: Annotated[Listed, typer.Argument(help=f"{', '.join(get_args(Listed))}.")],
    folder: Annotated[
        Path, typer.Option("--in", help="Where scenarios and their jobs are looked for.")
    ] = Path("scenarios"),
) -> None:
    """List what scenarios may name (faults, places, checks), or the scenarios and jobs there are.

    Example: chaos list faults
    """
    console = screen()
    match topic:
        case "scenarios":
            console.print(table_of("scenario", list(_scenarios(folder))))
        case "jobs":
            found = list(_jobs(folder))
            if not found:
                raise UsageError(
                    "no folder `jobs` with a script is there", "Name one: --in", place=shown(folder)
                )
            console.print(table_of("job", found))
        case _:
            console.print(catalogue(topic, other_checks()))


def explain(
    name: Annotated[str, typer.Argument(help="A fault or a check, as `chaos list` gives it.")],
) -> None:
    """Say all there is to say about one fault or one check.

    Example: chaos explain preempt_node
    """
    others = other_checks()
    text = explained(name, others)
    if text is None:
        near = difflib.get_close_matches(name, names(others), n=1)
        hint = f"Did you mean {near[0]}?" if near else "`chaos list faults` and `checks` name them."
        raise UsageError(f"there is no fault and no check '{name}'", hint)
    screen().print(Text(text))


def _scenarios(folder: Path) -> Iterator[tuple[str, str]]:
    for file in find_scenarios([folder]):
        try:
            told = load_scenario(file).scenario
        except ScenarioError as error:
            told = f"cannot be read: {str(error).splitlines()[0]}"
        yield shown(file.resolve()), told


def _jobs(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the scripts in folders named `jobs`, with the first line of their own words."""
    for file in sorted(folder.rglob("jobs/*.py")):
        try:
            told = ast.get_docstring(ast.parse(file.read_bytes())) or ""
        except SyntaxError:
            told = "cannot be read"
        yield shown(file.resolve()), told.partition("\n")[0]
