"""`chaos list` and `chaos schema`: the names for scenarios, in one line each and in full."""

import ast
import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from chaos.cli.streams import write_document
from chaos.errors import ScenarioError, UsageError
from chaos.extensions import other_checks
from chaos.report.screen import screen
from chaos.report.tables import TOPICS, catalogue, explained, names, table_of
from chaos.run.shown import shown
from chaos.scenario_file.load import find_scenarios, load_scenario
from chaos.scenario_file.messages import json_schema

LISTS = (*TOPICS, "scenarios", "jobs")


def begun(typed: str) -> list[str]:
    """Return the lists, faults and checks that begin so: a shell completes them."""
    return [name for name in (*LISTS, *names(other_checks())) if name.startswith(typed)]


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help=f"{', '.join(LISTS)}, or the name of a fault or a check.",
            autocompletion=begun,
        ),
    ],
    folder: Annotated[
        Path, typer.Option("--in", metavar="FOLDER", help="Folder of scenarios and jobs.")
    ] = Path("scenarios"),
) -> None:
    """List faults, places, checks, scenarios or jobs, or explain a fault or a check.

    Examples: chaos list faults; chaos list preempt_node
    """
    if what in TOPICS:
        screen().print(catalogue(what, other_checks()))
    elif what == "scenarios":
        screen().print(table_of("scenario", list(_scenarios(folder))))
    elif what == "jobs":
        found = list(_jobs(folder))
        if not found:
            raise UsageError(
                "no folder `jobs` with a script is there", "Name one: --in", place=shown(folder)
            )
        screen().print(table_of("job", found))
    else:
        screen().print(Text(_explanation(what.rpartition("/")[2])))


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors.

    Example: chaos schema > scenarios/chaos.schema.json
    """
    write_document(json.dumps(json_schema(), indent=2) + "\n")


def _explanation(name: str) -> str:
    others = other_checks()
    text = explained(name, others)
    if text is None:
        near = difflib.get_close_matches(name, [*LISTS, *names(others)], n=1)
        hint = f"Did you mean {near[0]}?" if near else f"The lists are {', '.join(LISTS)}."
        raise UsageError(f"there is no list, fault or check '{name}'", hint)
    return text


def _scenarios(folder: Path) -> Iterator[tuple[str, str]]:
    for file in find_scenarios([folder]):
        try:
            text = load_scenario(file).scenario
        except ScenarioError as error:
            text = f"cannot be read: {str(error).splitlines()[0]}"
        yield shown(file.resolve()), text


def _jobs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the scripts in folders named `jobs`, with the first line of their docstring."""
    for file in sorted(folder.rglob("jobs/*.py")):
        try:
            text = ast.get_docstring(ast.parse(file.read_bytes())) or ""
        except SyntaxError:
            text = "cannot be read"
        yield shown(file.resolve()), text.partition("\n")[0]
