"""The script of a request: its file, what starts it, and where its runs are kept."""

import os
import re
import shlex
import warnings
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Protocol, TypeVar

from chaos.app.field_rules import Request
from chaos.audit.folder import AuditFolder
from chaos.audit.plans import NodeRange
from chaos.errors import (
    FailedJobError,
    MissingExtraError,
    OtherLauncherError,
    RequestError,
    UsageError,
)
from chaos.installation import build_install_command
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.objects import is_store_object, restore_object_name
from chaos.model.plan import Confined, Plan, PlanBackend
from chaos.run.clock import SystemClock, format_stamp
from chaos.run.environment import collect_environment
from chaos.run.machine import has_ray
from chaos.run.modules import ModuleFile, Modules
from chaos.run.ports import Announcer
from chaos.run.script_launcher import RankCount, find_launcher_evidence
from chaos.scenario_file.load import SUFFIX

R = TypeVar("R")
# The programs in a first line that run Python.
_PYTHON_SHEBANG = re.compile(rb"python|pypy|\buv\b|pipx")


def locate_script(script: Path, *, is_module: bool) -> ModuleFile:
    """Return the file that is run; raises `UsageError` for a module that is nowhere."""
    if not is_module:
        _refuse_scenario(script)
        return ModuleFile(script)
    module_file = Modules([Path.cwd()]).find_runnable(str(script))
    if module_file is None:
        hint = "It is a dotted name, as python -m has it, found from here or on PYTHONPATH."
        raise UsageError("there is no such module", hint, location=f"-m {script}")
    return module_file


def _refuse_scenario(script: Path) -> None:
    """Raise `UsageError` for a scenario file in place of a script."""
    if script.name.endswith(SUFFIX) and script.is_file():
        hint = f"Run it with:\n  chaos run {shlex.quote(str(script))}"
        raise UsageError("this is a scenario, and no script", hint, location=str(script))


def check_syntax(script: ModuleFile) -> None:
    """Raise `UsageError` for a script of Python's that does not compile, at its line.

    What Python runs without compiling it, and what is too deep to be compiled here, is left to the
    start of the job.
    """
    try:
        source = script.file.read_bytes()
    except OSError:  # reported where the plan is made
        return
    if _is_compiled(script.file, source):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own start shows them
            compile(source, str(script.file), "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        return
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, until Python 3.11
        raise _build_syntax_error(script.file, source, error) from error


def _is_compiled(file: Path, source: bytes) -> bool:
    """Return whether Python takes a file for bytecode, or for a zip with a `__main__.py`."""
    is_bytecode = file.suffix == ".pyc" or source.startswith(MAGIC_NUMBER)
    return is_bytecode or zipfile.is_zipfile(file)


def _build_syntax_error(file: Path, source: bytes, error: SyntaxError | ValueError) -> UsageError:
    """Return the error of a script that does not compile; a shell script is called one."""
    shebang = source.partition(b"\n")[0] if source.startswith(b"#!") else b""
    if file.suffix == ".sh" or (shebang and not _PYTHON_SHEBANG.search(shebang)):
        hint = "Give the Python script that it starts."
        return UsageError("this is no Python script", hint, location=str(file))
    if isinstance(error, SyntaxError):
        location = f"{file}:{error.lineno or 1}"
        problem = f"the script does not compile: {type(error).__name__}: {error.msg}"
        return UsageError(problem, (error.text or "").strip(), location=location)
    return UsageError(f"the script does not compile: {error}", location=str(file))


class LauncherRequest(Protocol):
    """The part of a request that says how its script is started."""

    @property
    def script(self) -> Path:
        """The script, or the dotted name of a module."""

    @property
    def module(self) -> bool:
        """Whether `script` is the name of a module."""

    @property
    def launcher(self) -> Launcher | None:
        """The launcher that was given; None: it is guessed."""

    @property
    def workers(self) -> RankCount:
        """The number of ranks, or the fewest and the most; None: none was given."""


def retry_launcher(
    run_attempt: Callable[[OtherLauncherError | None], R], request: LauncherRequest
) -> R:
    """Return the result of an attempt, or of a second one if a guessed launcher was wrong.

    A launcher that was given stands. The second attempt is given what the first has shown.
    """
    try:
        return run_attempt(None)
    except OtherLauncherError as error:
        if request.launcher is not None:
            raise
        return run_attempt(error)
    except FailedJobError as error:
        # A script with accelerate, Lightning or a Trainer may be written for one process: two ranks
        # rename the same folder, say. One that was asked for in several ranks stands.
        is_guessed = request.launcher is None and request.workers is None
        script = locate_script(request.script, is_module=request.module)
        if not is_guessed or not find_launcher_evidence(script).is_for_any_rank_count:
            raise
        evidence = "it fails in several ranks without any fault, and may be written for one"
        return run_attempt(
            OtherLauncherError(
                str(error), "", location=error.location, launcher="python", evidence=evidence
            )
        )


def choose_launcher(
    launcher_option: Launcher | None,
    script: ModuleFile,
    announcer: Announcer,
    launcher_error: OtherLauncherError | None = None,
    *,
    workers: RankCount = None,
    takes_any_script: bool = False,
) -> Launcher:
    """Return the launcher that is given, or that the script shows; say how it is known.

    `launcher_error`: what a start of the script under the guessed launcher has shown. Raises
    `UsageError` for a script that is not Python's, unless the command takes those.
    """
    owner = _find_owner(script.file)
    words = LAUNCHER_FACTS[owner or launcher_option or DEFAULT_LAUNCHER].words
    if words.script_kind and not takes_any_script:
        problem = f"{script.file} is {words.script_kind}, and this command takes Python scripts"
        raise UsageError(problem, words.script_hint)
    if owner is not None and launcher_option not in (None, owner):
        raise RequestError(
            "{script} is {kind}, and {launcher} is {launcher_option}",
            "Leave {launcher} out; or name the Python script that it starts.",
            field="launcher",
            script=script.file,
            kind=words.script_kind,
            launcher_option=launcher_option,
        )
    if owner is None:
        check_syntax(script)
    launcher, grounds = launcher_option or DEFAULT_LAUNCHER, "--launcher"
    if launcher_error is not None:
        launcher = launcher_error.launcher
        grounds = f"{launcher_error.evidence}: the script is started again"
    elif owner is not None:
        launcher, grounds = owner, words.script_evidence
    elif launcher_option is None:
        try:
            evidence = find_launcher_evidence(script)
        except OSError:  # reported where the plan is made
            return DEFAULT_LAUNCHER
        evidence = evidence.add_workers(workers)
        launcher, grounds = evidence.launcher, str(evidence)
    announcer.say(f"launcher: {launcher} ({grounds})")
    return launcher


def _find_owner(file: Path) -> Launcher | None:
    """Return the one launcher that a script can be for, None if it is for several."""
    if not file.is_file():
        return None
    owners = (name for name, facts in LAUNCHER_FACTS.items() if facts.recognizes_script(file))
    return next(owners, None)


def find_launcher_facts(request: Request, script: ModuleFile, launcher: Launcher) -> LauncherPolicy:
    """Return the facts of a request's launcher.

    Raises `RequestError` for a field that this launcher does not take, and `MissingExtraError` for
    a script that is taken for one of Ray Train's, without Ray.
    """
    facts = LAUNCHER_FACTS[launcher]
    request.validate(facts)
    if facts.extra == "ray" and script.file.is_file() and not has_ray():
        raise MissingExtraError(
            "the script is taken for a job of Ray Train's, and Ray is not installed",
            f"{build_install_command('ray')}; or, if torchrun starts it, add --launcher torchrun.",
            location=str(script.file),
        )
    return facts


def choose_backend(backend: PlanBackend, launcher: Launcher, announcer: Announcer) -> PlanBackend:
    """Return the backend of a job: real processes if a command's cannot be forked."""
    if backend != "fork":
        return backend
    if (reason := LAUNCHER_FACTS[launcher].why_not_forked(os.environ)) is None:
        return backend
    announcer.say(f"{reason}: real processes are started (--backend {launcher})")
    return launcher


def parse_node_range(text: str | None) -> NodeRange:
    """Return the fewest and the most nodes, as torchrun's --nnodes has them; None is one node.

    Raises `RequestError` for anything else.
    """
    match = re.fullmatch(r"([1-9]\d{0,2})(?::([1-9]\d{0,2}))?", text or "1")
    min_nodes, max_nodes = (0, 0) if match is None else (int(match[1]), int(match[2] or match[1]))
    if not 0 < min_nodes <= max_nodes:
        raise RequestError(
            "nodes are a number, or MIN:MAX as in torchrun's --nnodes; got '{text}'",
            "Write {nodes:2}, or {nodes:1:2} for a job that goes on with one.",
            field="nodes",
            text=text,
        )
    return NodeRange(min_nodes, max_nodes)


def build_confinement(
    folder: AuditFolder, may_write: Sequence[Path] | None, *, keeps_storage: bool = False
) -> Confined:
    """Return the limits of the job outside the audit's folder."""
    words = [restore_object_name(str(path)) for path in may_write or ()]
    paths = tuple(
        word if is_store_object(word) else str(Path.cwd() / Path(word).expanduser())
        for word in words
    )
    return Confined(folder=str(folder.path), may_write=paths, keeps_storage=keeps_storage)


def create_audit_folder(plan: Plan, reports: Path, kind: str = "audits") -> AuditFolder:
    """Make the folder of an audit or a search, named after its script and the time."""
    name = f"{plan.slug}-{format_stamp(SystemClock().wall_ns())}"
    return AuditFolder.create(reports, name, plan, collect_environment(Path.cwd()), kind=kind)
