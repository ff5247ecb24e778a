"""`chaos guard`: a real training, with each of its restarts compared with what was saved."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.documents import Document, Format, Output
from chaos.declaration import GUARD_ENV
from chaos.errors import UsageError
from chaos.extensions.guard.process import ACCEPTABLE, COMMAND_ENV, FOLDER, GuardPolicy
from chaos.launch.child_environment import add_child_watch

HELP_PANEL = "Cluster configuration"
HELP_LINE = "Watch a real training, and judge each of its restarts."


class OnMismatch(StrEnum):
    """The step that follows where a restart did not bring back what was saved."""

    WARN = "warn"
    STOP = "stop"


_SUBCOMMAND_WORDS = len(("report", "FOLDER"))
Accepted = StrEnum("Accepted", [(word, word) for word in ACCEPTABLE])  # type: ignore[misc]


def guard(  # noqa: PLR0913 - one parameter per option
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND",
            help="The command that starts the training; or `report FOLDER`, `scenario FOLDER`, "
            "`scenario LOG -- COMMAND`.",
        ),
    ],
    *,
    folder: Annotated[
        str,
        typer.Option(
            "--folder",
            help="One for each training, which outlives its nodes: a directory, or a"
            " place in an object store (s3://bucket/guard).",
        ),
    ] = FOLDER,
    on_mismatch: Annotated[
        OnMismatch,
        typer.Option(
            "--on-mismatch",
            help="warn: write it to the log. stop: raise an error in the first step.",
        ),
    ] = OnMismatch.WARN,
    accept: Annotated[
        list[Accepted] | None,
        typer.Option(
            "--accept",
            metavar="WHAT",
            help="No mismatch, as the job means it so. One of "
            f"{', '.join(ACCEPTABLE)}. Repeatable.",
        ),
    ] = None,
    restart: Annotated[
        int | None,
        typer.Option(
            "--restart",
            min=1,
            metavar="N",
            help="Of `scenario LOG`: the restart to write, counted from 1. Default: the last.",
        ),
    ] = None,
    form: Format = None,
    output: Output = None,
) -> None:
    """Watch a real training, without a harness and without faults; judge each of its restarts.

    `chaos guard report FOLDER` shows the restarts; exit codes: 0 each came back, 1 one did not,
    2 nothing shows it. `chaos guard scenario FOLDER` writes the scenario that does the last one
    again; `chaos guard scenario train.log -- torchrun train.py` that of a run without a guard.
    Else the exit code is the command's.

    Example: chaos guard --folder /mnt/guard -- torchrun train.py
    """
    is_log = words[0] == "scenario" and (
        len(words) > _SUBCOMMAND_WORDS or Path(*words[1:2]).is_file()
    )
    if restart is not None and not is_log:
        raise UsageError("--restart is of `chaos guard scenario LOG`", "Leave it out.")
    if is_log or (words[0] in ("report", "scenario") and len(words) == _SUBCOMMAND_WORDS):
        # A start under the guard waits for no import that only these need.
        from chaos.extensions.guard.report_command import show_folder, write_log_scenario

        document = Document(form, output)
        if is_log:
            write_log_scenario(Path(words[1]), words[2:], restart, document)
        show_folder(words[0], words[1], document)
    if form is not None or output is not None:
        raise UsageError("--format and --output are of `chaos guard report`", "Leave them out.")
    folder_path = folder if "://" in folder else str(Path(folder).absolute())
    use = GuardPolicy(on_mismatch is OnMismatch.STOP, frozenset(accept or ()))
    env = add_child_watch(os.environ) | {GUARD_ENV: folder_path} | use.variables()
    env[COMMAND_ENV] = str(os.getpid())
    try:
        # This process becomes the command, so that signals of a platform reach it as without.
        os.execvpe(words[0], words, env)  # noqa: S606 - the user's own command
    except OSError as error:
        raise UsageError(f"{words[0]}: {error.strerror}", "Is it the command's name?") from None
