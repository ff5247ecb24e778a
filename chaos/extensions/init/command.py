"""`chaos init`: a first scenario and a workflow for a script."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from chaos.app.script import choose_launcher, locate_script
from chaos.audit.plans import parse_launcher_args
from chaos.cli.documents import convert_write_errors
from chaos.cli.options import IsModule, ScriptArguments, StartedBy
from chaos.errors import UsageError
from chaos.installation import find_installation
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher, build_launcher_line
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.display_path import format_path
from chaos.run.modules import ModuleFile
from chaos.run.script_launcher import find_launcher_evidence
from chaos.scenario_file.load import load_scenario

HELP_PANEL = "Start"
HELP_LINE = "Write a first scenario and a CI workflow for a script."
WORKFLOW = Path(".github") / "workflows" / "chaos.yml"

_SCENARIO = """\
scenario: {title}
job:
{launcher}  {source}
{args}  workers: {workers}
  failure: {{max_failures: 2}}  # {retries}
faults:
  # After optimizer step {step} of epoch {epoch} (both counted: epochs from 0, steps from 1) on this
  # rank. Others: `chaos list places`, `chaos list faults`.
  - at: {{epoch: {epoch}, step: {step}, rank: {rank}}}
    kill_worker: {{signal: KILL}}
expect:
  attempts: 2
"""


def init(  # noqa: PLR0913 - one parameter per option
    script: Annotated[
        Path,
        typer.Argument(
            metavar="SCRIPT", help="Script that calls trainer.fit(), or that torchrun starts."
        ),
    ],
    arguments: ScriptArguments = None,
    *,
    module: IsModule = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Ranks to train with. Default: 2, and 1 for a script that trains alone.",
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--in", metavar="FOLDER", help="Folder for the scenario.")
    ] = Path("scenarios"),
    launcher: StartedBy = None,
    workflow: Annotated[
        bool, typer.Option("--workflow/--no-workflow", help="Write a GitHub workflow as well.")
    ] = True,
) -> None:
    """Write a first scenario for a script, and a GitHub workflow with an audit and the scenarios.

    Existing files are kept.

    Example: chaos init train.py -- --epochs 4
    """
    script_file = locate_script(script, is_module=module)
    if not script_file.file.is_file():
        raise UsageError(
            "there is no such script", "Give the path of a script.", location=str(script)
        )
    console, words = build_console(), arguments or []
    launcher = choose_launcher(launcher, script_file, ConsoleAnnouncer(console), workers=workers)
    name = re.sub(r"\W+", "_", str(script) if module else script.stem)
    scenario = folder / f"{name}_worker_killed.chaos.yaml"
    source = {"module": str(script)} if module else {"script": os.path.relpath(script, folder)}
    count = workers or _count_default_workers(script_file, launcher)
    files = {scenario: build_first_scenario(source, words, workers=count, launcher=launcher)}
    if workflow:
        audit_words = ["-m", str(script)] if module else [str(script)]
        files[WORKFLOW] = _build_workflow(audit_words, words, folder, launcher)
    for file in files:
        if file.exists():
            option = "--no-workflow" if file == WORKFLOW else "--in"
            raise UsageError(
                "it is there already", f"Move it away, or give {option}.", location=str(file)
            )
    for file, content in files.items():
        with convert_write_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        console.print(Text(f"wrote {format_path(file.resolve())}"), soft_wrap=True)
    load_scenario(scenario)  # checks that the written scenario can be read
    command = ["chaos", "run", str(scenario)]
    command += LAUNCHER_FACTS[launcher].script.quick_options
    console.print(Text(f"try   {shlex.join(command)}"), soft_wrap=True)


def _count_default_workers(script: ModuleFile, launcher: Launcher) -> int:
    """Return the number of ranks: one for a script that starts no other process to train with."""
    starts_ranks = find_launcher_evidence(script).spawn_location is not None
    return LAUNCHER_FACTS[DEFAULT_LAUNCHER if starts_ranks else launcher].workers.default_count


def build_first_scenario(
    source: Mapping[str, str], arguments: list[str], *, workers: int, launcher: Launcher
) -> str:
    """Return a scenario in which one worker of a script is killed in its second epoch.

    `source` is the field of `job` that names the code, with its value.
    """
    [(key, code)] = source.items()
    args = parse_launcher_args(launcher, arguments)
    lines = [f"  args: {json.dumps(args)}", ""]
    if isinstance(args, dict):
        options = (f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in args.items())
        lines = ["  args:", *options, ""]
    return _SCENARIO.format(
        title=json.dumps(f"a worker of {Path(code).name} is killed in its second epoch"),
        source=f"{key}: {json.dumps(code)}",
        args="\n".join(lines) if args else "",
        workers=workers,
        epoch=1,
        step=1,
        rank=workers - 1,
        launcher=build_launcher_line(launcher),
        retries=LAUNCHER_FACTS[launcher].words.retries,
    )


def _build_workflow(
    script_words: list[str], arguments: list[str], folder: Path, launcher: Launcher
) -> str:
    """Return the workflow of the documents, with this script and this folder.

    It installs what the launcher's jobs need of chaos's extras.
    """
    text = resources.files("chaos.extensions.init").joinpath("github.yml").read_text("utf-8")
    text = text.replace(
        "PACKAGE",
        find_installation().portable_installation.build_requirement(LAUNCHER_FACTS[launcher].extra),
    )
    for placeholder, command_words in (
        ("run scenarios", ["run", f"{folder}"]),
        ("audit train.py", ["audit", *script_words]),
    ):
        text = text.replace(f"chaos {placeholder} ", f"chaos {shlex.join(command_words)} ")
    argument_words = f" -- {shlex.join(arguments)}" if arguments else ""
    return text.replace("reports/audit.xml\n", f"reports/audit.xml{argument_words}\n", 1)
