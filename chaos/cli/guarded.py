"""A guard's folder, or a log, as `chaos guard` reads it: its restarts, and a scenario of one."""

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import typer

from chaos.audit.launcher import launcher_evidence
from chaos.audit.plans import base_plan, begun_again_by, under_launcher
from chaos.cli.documents import Document, writable
from chaos.cli.options import located, node_range
from chaos.cli.streams import write_document
from chaos.errors import UsageError
from chaos.guard.folder import Folder
from chaos.guard.incident import scenario_of
from chaos.guard.report import exit_code, in_json, in_metrics, in_terminal, restarts_of
from chaos.guard.startups import ended_startups, is_failing
from chaos.model.launcher import FACTS, Launcher
from chaos.model.plan import Op
from chaos.model.scenario import FailureBudget, Limits
from chaos.preflight.log_incident import log_incident
from chaos.preflight.seen_costs import LOG_BYTES
from chaos.report.screen import plain, screen
from chaos.run.modules import ModuleFile
from chaos.scenario_file.text import scenario_text
from chaos.scenario_file.yaml_lines import read_text

_PYTHON = re.compile(r"python[\d.]*")
_OF_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")


class Started(NamedTuple):
    """A command that starts a training, read word by word."""

    launcher: Launcher
    run: ModuleFile
    args: list[str]
    #: None where the script says it itself
    workers: int | None = None
    nodes: tuple[int, int] = (1, 1)


def read_folder(what: str, place: str, asked: Document) -> NoReturn:
    """Show the restarts of a guard's folder (`report`), or write the last one (`scenario`)."""
    if "://" not in place and not Path(place).is_dir():
        raise UsageError(
            f"{place} is no folder",
            "Name the --folder of `chaos guard`. It is made with the first step of torch.optim.",
        )
    folder = Folder(place)
    if what == "scenario":
        _write(scenario_of(folder), asked)
    document = Document.asked(asked.form, asked.output, "text", "json", "prometheus", "html")
    starts, restarts = folder.starts(), restarts_of(folder)
    startups = ended_startups(folder, starts)
    shown = in_terminal(folder.place, starts, restarts, startups)
    if not document.takes_stdout:
        screen().print(shown)
    document.write(
        {
            "text": lambda: plain(lambda on: on.print(shown)),
            "json": lambda: in_json(restarts),
            "prometheus": lambda: in_metrics(restarts, startups),
            "html": lambda: _page(folder),
        }
    )
    raise typer.Exit(exit_code(restarts, has_failed=is_failing(startups, starts)))


def write_of_log(log: Path, words: list[str], which: int | None, asked: Document) -> NoReturn:
    """Write the scenario of a restart that a log shows, of a training that `words` start."""
    if not words:
        raise UsageError(
            f"{log} is a log, and holds no command",
            f"Add it: chaos guard scenario {log} -- torchrun --nproc-per-node 2 train.py",
        )
    folder = Path.cwd() if asked.output is None else asked.output.absolute().parent
    _write(scenario_of_log(log, words, which, folder), asked)


def _write(text: str, asked: Document) -> NoReturn:
    if asked.form is not None:
        raise UsageError("--format is of `chaos guard report`; a scenario is YAML", "Leave it out.")
    if asked.output is None:
        write_document(text)
    else:
        with writable(asked.output):
            asked.output.write_text(text, encoding="utf-8")
    raise typer.Exit(0)


def _page(folder: Folder) -> str:
    # Charts take half a second to import.
    from chaos.guard.page import render_guard  # noqa: PLC0415

    return render_guard(folder)


def scenario_of_log(log: Path, words: Sequence[str], which: int | None, folder: Path) -> str:
    """Return the scenario of a restart in a log, as YAML to be saved in `folder`.

    Raises `UsageError` where the log or the command does not say enough.
    """
    started = _started(words)
    facts, (least, most) = FACTS[started.launcher], started.nodes
    text = read_text(log, "log", most=LOG_BYTES, hint="Is it a log?")
    seen = log_incident(text, which, nodes=most, has_reports="reports" in facts.has)
    workers = started.workers or seen.workers or facts.usual_workers
    plan = base_plan(started.run, started.args, cwd=Path.cwd(), seed=0, workers=workers)
    size: dict[str, Any] = {"epoch_steps": seen.epoch_steps, "nodes": (least, most)}
    plan = under_launcher(plan, started.launcher, started.args, **size)
    by_command = not seen.is_retried and most == 1
    plan = begun_again_by(plan, "command" if by_command else None, ())
    rank = workers - 1 if seen.loss.rank is None else min(seen.loss.rank, workers - 1)
    at = {**seen.place._asdict(), "rank": rank}
    op = Op.model_validate({"index": 0, "at": at, seen.loss.fault: seen.loss.settings})
    notes = [*seen.notes]
    if started.workers is None and seen.workers is None:
        notes.append(f"The number of workers is not in it: {workers} is taken.")
    if seen.loss.rank not in (None, rank):
        notes.append(f"Rank {seen.loss.rank} is not among {workers}: {rank} is taken.")
    if by_command:
        notes.append("Its command is started again with the same words (job.restart_args).")
    notes.append("Variables that the job needs and this shell has not go under job.env.")
    failure = plan.job.model_copy(update={"failure": FailureBudget(max_failures=1)})
    own = {"scenario": f"a restart in {log.name}, once more", "ops": (op,), "job": failure}
    plan = plan.model_copy(update={**own, "limits": Limits()})
    return scenario_text(plan, folder=folder, comment=notes, expect={})


def _started(words: Sequence[str]) -> Started:
    """Return a command of torchrun or python."""
    name, rest = Path(words[0]).name, [*words[1:]]
    if name == "torchrun":
        return _by_torchrun(rest)
    if _PYTHON.fullmatch(name):
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            del rest[: 2 if rest[0] in ("-W", "-X") else 1]
        if rest[:1] == ["-m"] and rest[1:2] and rest[1] in _OF_TORCHRUN:
            return _by_torchrun(rest[2:])
        is_module = rest[:1] == ["-m"]
        if rest[is_module:]:
            run = _found(rest[is_module], is_module=is_module)
            shown = launcher_evidence(run).launcher
            launcher = shown if FACTS[shown].sizes_itself else "python"
            return Started(launcher, run, rest[1 + is_module :])
    raise UsageError(
        f"the command is {' '.join(words)}, and no script of torchrun's or python's",
        "Give the command that starts the training, as in `-- torchrun --nproc-per-node 2 "
        "train.py`; of a script for sbatch, the one in it.",
    )


def _by_torchrun(words: Sequence[str]) -> Started:
    # torchrun's own parser, so that its options are read as it reads them.
    from torch.distributed.run import get_args_parser  # noqa: PLC0415 - a second

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            read = get_args_parser().parse_args([*words])
    except SystemExit:
        problem = (said.getvalue().strip() or "no script is in it").splitlines()[-1]
        raise UsageError(f"torchrun does not take this command: {problem}") from None
    if not read.nproc_per_node.isdecimal():
        raise UsageError(
            f"--nproc-per-node {read.nproc_per_node} is a number of the machine that had the run",
            "Write the number itself.",
        )
    least, most = node_range(read.nnodes)
    run = _found(read.training_script, is_module=read.module)
    workers = int(read.nproc_per_node) * most
    return Started("torchrun", run, read.training_script_args, workers, (least, most))


def _found(script: str, *, is_module: bool) -> ModuleFile:
    run = located(Path(script), is_module=is_module)
    if not run.file.is_file():
        raise UsageError("there is no such script", "Check the path.", place=script)
    return run
