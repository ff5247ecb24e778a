"""`chaos list`: the names for scenarios, in one line each and in full."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from chaos.check.external_checks import ExternalChecks
from chaos.errors import ScenarioError, UsageError
from chaos.extensions.catalogue.tables import (
    TOPICS,
    build_catalogue,
    build_description_table,
    explain_name,
    list_finding_rows,
    list_names,
)
from chaos.other_packages import load_external_checks
from chaos.report.screen import build_console
from chaos.run.display_path import format_path
from chaos.scenario_file.load import find_scenarios, load_scenario
from chaos.wording import suggest_name

HELP_PANEL = "Tools"
HELP_LINE = "List or explain faults, places, checks and scenarios."

LISTS = (*TOPICS, "scenarios", "jobs")
_LIST_DESCRIPTIONS = {
    "faults": "what chaos can do to a job",
    "places": "when it can be done",
    "checks": "what is promised of each run",
    "findings": "the kinds of broken promises",
    "scenarios": "the scenario files in a folder (--in)",
    "jobs": "the training scripts in a folder (--in)",
}


def complete_name(prefix: str) -> list[str]:
    """Return the lists, faults, checks and findings that begin so: a shell completes them."""
    return [name for name in _list_names(load_external_checks()) if name.startswith(prefix)]


def list_(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help=f"{', '.join(LISTS)}, or the name of a fault, a check or a finding. Default: the "
            "lists.",
            autocompletion=complete_name,
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--in", metavar="FOLDER", help="Folder of scenarios and jobs.")
    ] = Path("scenarios"),
) -> None:
    """List faults, places, checks, findings, scenarios or jobs, or explain one by its name.

    Examples: chaos list faults; chaos list preempt_node; chaos list older-save
    """
    if topic is None:
        build_console().print(build_description_table("list", [*_LIST_DESCRIPTIONS.items()]))
    elif topic == "findings":
        finding_rows = [*list_finding_rows(), *load_external_checks().kind_meanings.items()]
        build_console().print(build_description_table("finding", finding_rows))
    elif topic in TOPICS:
        build_console().print(build_catalogue(topic, load_external_checks()))
    elif topic == "scenarios":
        build_console().print(build_description_table("scenario", list(_list_scenarios(folder))))
    elif topic == "jobs":
        job_rows = list(_list_jobs(folder))
        if not job_rows:
            raise UsageError(
                "no folder `jobs` with a script is there",
                "Name one: --in",
                location=format_path(folder),
            )
        build_console().print(build_description_table("job", job_rows))
    else:
        build_console().print(Text(_find_explanation(topic.rpartition("/")[2])))


def _list_names(external_checks: ExternalChecks) -> list[str]:
    return [*LISTS, *list_names(external_checks), *external_checks.kind_meanings]


def _find_explanation(name: str) -> str:
    external_checks = load_external_checks()
    if (meaning := external_checks.kind_meanings.get(name)) is not None:
        return f"finding {name}\n\n{meaning}\n"
    text = explain_name(name, external_checks)
    if text is None:
        names = _list_names(external_checks)
        hint = suggest_name(name, names, f"The lists are {', '.join(LISTS)}.")
        raise UsageError(f"there is no list, fault, check or finding '{name}'", hint)
    return text


def _list_scenarios(folder: Path) -> Iterator[tuple[str, str]]:
    for file in find_scenarios([folder]):
        try:
            text = load_scenario(file).scenario
        except ScenarioError as error:
            text = f"cannot be read: {str(error).splitlines()[0]}"
        yield format_path(file.resolve()), text


def _list_jobs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the scripts in folders named `jobs`, with the first line of their docstring."""
    for file in sorted(folder.rglob("jobs/*.py")):
        try:
            text = ast.get_docstring(ast.parse(file.read_bytes())) or ""
        except SyntaxError:
            text = "cannot be read"
        yield format_path(file.resolve()), text.partition("\n")[0]
