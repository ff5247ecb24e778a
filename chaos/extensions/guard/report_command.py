"""A guard's folder, or a log, as `chaos guard` reads it: its restarts, and a scenario of one."""

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import typer

from chaos.app.script import locate_script, parse_node_range
from chaos.audit.plans import ONE_NODE, NodeRange, build_base_plan, set_launcher, set_restart
from chaos.cli.documents import Document, convert_write_errors
from chaos.cli.streams import write_document
from chaos.errors import UsageError
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.incident import build_scenario
from chaos.extensions.guard.log_incident import find_log_incident
from chaos.extensions.guard.report import GuardReport, list_parts, render_json, render_metrics
from chaos.extensions.run_logs import LOG_BYTES
from chaos.model.launcher import LAUNCHER_FACTS, Launcher
from chaos.model.plan import Op
from chaos.model.scenario import FailureBudget, Limits
from chaos.run.modules import ModuleFile
from chaos.run.script_launcher import find_launcher_evidence
from chaos.scenario_file.text import render_scenario
from chaos.scenario_file.yaml_lines import load_text

_PYTHON = re.compile(r"python[\d.]*")
_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")


class StartCommand(NamedTuple):
    """A command that starts a training, read word by word."""

    launcher: Launcher
    run: ModuleFile
    args: list[str]
    #: None where the script says it itself
    workers: int | None = None
    nodes: NodeRange = ONE_NODE


def show_folder(action: str, folder_path: str, requested_document: Document) -> NoReturn:
    """Show the restarts of a guard's folder (`report`), or write the last one (`scenario`)."""
    if "://" not in folder_path and not Path(folder_path).is_dir():
        raise UsageError(
            f"{folder_path} is no folder",
            "Name the --folder of `chaos guard`. It is made with the first step of torch.optim.",
        )
    folder = GuardFolder(folder_path)
    if action == "scenario":
        _write_scenario(build_scenario(folder), requested_document)
    document = Document.parse(
        requested_document.form, requested_document.output, "text", "json", "prometheus", "html"
    )
    report = GuardReport.load(folder)
    document.report(
        list_parts(report),
        {
            "json": lambda: render_json(report.restarts),
            "prometheus": lambda: render_metrics(report.restarts, report.startups),
            "html": lambda: _render_page(report),
        },
    )
    raise typer.Exit(report.exit_code)


def write_log_scenario(
    log: Path, words: list[str], restart_number: int | None, document: Document
) -> NoReturn:
    """Write the scenario of a restart that a log shows, of a training that `words` start."""
    if not words:
        raise UsageError(
            f"{log} is a log, and holds no command",
            f"Add it: chaos guard scenario {log} -- torchrun --nproc-per-node 2 train.py",
        )
    folder = Path.cwd() if document.output is None else document.output.absolute().parent
    _write_scenario(build_log_scenario(log, words, restart_number, folder), document)


def _write_scenario(text: str, document: Document) -> NoReturn:
    if document.form is not None:
        raise UsageError("--format is of `chaos guard report`; a scenario is YAML", "Leave it out.")
    if document.output is None:
        write_document(text)
    else:
        with convert_write_errors(document.output):
            document.output.write_text(text, encoding="utf-8")
    raise typer.Exit(0)


def _render_page(report: GuardReport) -> str:
    # Charts take half a second to import.
    from chaos.extensions.guard.page import render_guard

    return render_guard(report)


def build_log_scenario(
    log: Path, words: Sequence[str], restart_number: int | None, folder: Path
) -> str:
    """Return the scenario of a restart in a log, as YAML to be saved in `folder`.

    Raises `UsageError` where the log or the command does not say enough.
    """
    start_command = _parse_command(words)
    facts, (min_nodes, max_nodes) = LAUNCHER_FACTS[start_command.launcher], start_command.nodes
    text = load_text(log, "log", max_bytes=LOG_BYTES, hint="Is it a log?")
    incident = find_log_incident(
        text, restart_number, nodes=max_nodes, has_reports=facts.has_reports
    )
    workers = start_command.workers or incident.workers or facts.workers.default_count
    plan = build_base_plan(
        start_command.run, start_command.args, cwd=Path.cwd(), seed=0, workers=workers
    )
    size: dict[str, Any] = {"epoch_steps": incident.epoch_steps, "nodes": (min_nodes, max_nodes)}
    plan = set_launcher(plan, start_command.launcher, start_command.args, **size)
    is_command_restart = not incident.is_retried and max_nodes == 1
    plan = set_restart(plan, "command" if is_command_restart else None, ())
    rank = workers - 1 if incident.loss.rank is None else min(incident.loss.rank, workers - 1)
    trigger = {**incident.training_place._asdict(), "rank": rank}
    op = Op.model_validate({"index": 0, "at": trigger, incident.loss.fault: incident.loss.settings})
    notes = [*incident.notes]
    if start_command.workers is None and incident.workers is None:
        notes.append(f"The number of workers is not in it: {workers} is taken.")
    if incident.loss.rank not in (None, rank):
        notes.append(f"Rank {incident.loss.rank} is not among {workers}: {rank} is taken.")
    if is_command_restart:
        notes.append("Its command is started again with the same words (job.restart_args).")
    notes.append("Variables that the job needs and this shell has not go under job.env.")
    failure = plan.job.replace(failure=FailureBudget(max_failures=1))
    changes = {"scenario": f"a restart in {log.name}, once more", "ops": (op,), "job": failure}
    plan = plan.model_copy(update={**changes, "limits": Limits()})
    return render_scenario(plan, folder=folder, comment=notes, expect={})


def _parse_command(words: Sequence[str]) -> StartCommand:
    """Return a command of torchrun or python."""
    name, remaining_words = Path(words[0]).name, [*words[1:]]
    if name == "torchrun":
        return _parse_torchrun(remaining_words)
    if _PYTHON.fullmatch(name):
        while remaining_words and remaining_words[0].startswith("-") and remaining_words[0] != "-m":
            del remaining_words[: 2 if remaining_words[0] in ("-W", "-X") else 1]
        if (
            remaining_words[:1] == ["-m"]
            and remaining_words[1:2]
            and remaining_words[1] in _TORCHRUN_MODULES
        ):
            return _parse_torchrun(remaining_words[2:])
        is_module = remaining_words[:1] == ["-m"]
        if remaining_words[is_module:]:
            run = _locate_script(remaining_words[is_module], is_module=is_module)
            likely_launcher = find_launcher_evidence(run).launcher
            launcher = (
                likely_launcher
                if LAUNCHER_FACTS[likely_launcher].workers.script_sets_count
                else "python"
            )
            return StartCommand(launcher, run, remaining_words[1 + is_module :])
    raise UsageError(
        f"the command is {' '.join(words)}, and no script of torchrun's or python's",
        "Give the command that starts the training, as in `-- torchrun --nproc-per-node 2 "
        "train.py`; of a script for sbatch, the one in it.",
    )


def _parse_torchrun(words: Sequence[str]) -> StartCommand:
    # torchrun's own parser, so that its options are read as it reads them.
    from torch.distributed.run import get_args_parser

    parser_output = io.StringIO()
    try:
        with contextlib.redirect_stderr(parser_output), contextlib.redirect_stdout(parser_output):
            options = get_args_parser().parse_args([*words])
    except SystemExit:
        problem = (parser_output.getvalue().strip() or "no script is in it").splitlines()[-1]
        raise UsageError(f"torchrun does not take this command: {problem}") from None
    if not options.nproc_per_node.isdecimal():
        raise UsageError(
            f"--nproc-per-node {options.nproc_per_node} is a number of the machine that had "
            "the run",
            "Write the number itself.",
        )
    nodes = parse_node_range(options.nnodes)
    run = _locate_script(options.training_script, is_module=options.module)
    workers = int(options.nproc_per_node) * nodes.max_nodes
    return StartCommand("torchrun", run, options.training_script_args, workers, nodes)


def _locate_script(script: str, *, is_module: bool) -> ModuleFile:
    run = locate_script(Path(script), is_module=is_module)
    if not run.file.is_file():
        raise UsageError("there is no such script", "Check the path.", location=script)
    return run
