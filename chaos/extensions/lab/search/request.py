"""Search a script: draw plans of several faults, and make those that fail as small as they get."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Self

from chaos.app.audit_options import Args, parse_options, split_arguments
from chaos.app.field_rules import NOT_NEGATIVE, Field, FieldUses, Request, minimum
from chaos.app.project_defaults import PathLike
from chaos.app.script import (
    build_confinement,
    choose_backend,
    choose_launcher,
    create_audit_folder,
    find_launcher_facts,
    locate_script,
    retry_launcher,
)
from chaos.audit.budget import AuditProgress, Budget
from chaos.audit.plans import build_base_plan, set_launcher
from chaos.audit.run_row import RunRow
from chaos.errors import MissingExtraError, OtherLauncherError, RequestError
from chaos.extensions.lab.search import FAULTS_MAX
from chaos.launch.backends import open_launcher
from chaos.model.launcher import Launcher
from chaos.plan.draw import DRAWN
from chaos.run.clock import SystemClock
from chaos.run.ports import Announcer
from chaos.wording import suggest_name

if TYPE_CHECKING:
    from chaos.extensions.lab.search.search import SearchResult

# Where neither a time nor a number of runs is asked for; a search has no end of its own.
SEARCH_S = 300.0


class DrawnKinds(NamedTuple):
    """They are kinds of faults that are drawn."""

    def find_error(self, field: Field, _: FieldUses) -> RequestError | None:
        drawn_kinds = list(dict.fromkeys(name for name, _ in DRAWN))
        kind = next((kind for kind in field.value if kind not in drawn_kinds), None)
        if kind is None:
            return None
        hint = suggest_name(kind, drawn_kinds, f"Those drawn are {', '.join(drawn_kinds)}.")
        problem = "no fault is drawn that is called '{kind}'"
        return RequestError(problem, hint, field=field.name, kind=kind)


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Request):
    """A search of one script: a field for each option of `chaos search`, which explains it."""

    script: Path
    arguments: tuple[str, ...] = ()
    module: bool = False
    time_limit: Annotated[float | None, NOT_NEGATIVE] = None
    max_runs: Annotated[int | None, minimum(1)] = None
    max_faults: Annotated[int, minimum(1)] = FAULTS_MAX
    kinds: Annotated[tuple[str, ...], DrawnKinds()] = ()
    launcher: Launcher | None = None
    workers: Annotated[int | None, minimum(1)] = None
    fit: Annotated[int, minimum(1)] = 1
    allow_writes: tuple[Path, ...] = ()
    seed: Annotated[int, minimum(0)] = 0
    reports: Path = Path("reports")

    @classmethod
    def parse(cls, script: PathLike, args: Args, options: Mapping[str, Any]) -> Self:
        """Return the request of options as they are written; one that is None is left out."""
        return cls(script=Path(script), arguments=split_arguments(args), **parse_options(options))


class SearchDisplay(Protocol):
    """The display of a search while it runs."""

    def show(self, progress: AuditProgress) -> None:
        """Show the progress, at each change."""

    def show_plan(self, number: int, row: RunRow) -> None:
        """Show the plan that was run last, and how many there were."""


class SearchListener(Announcer, Protocol):
    """The receiver of a search's lines and of its progress."""

    def follow(self, folder: Path) -> AbstractContextManager[SearchDisplay]:
        """Return the context in which the search runs; its files come into a folder."""


class _Attempt(NamedTuple):
    """A search with a launcher that is given, or that the script shows."""

    request: SearchRequest
    listener: SearchListener
    command: str


def run_search(request: SearchRequest, listener: SearchListener, *, command: str) -> "SearchResult":
    """Return the causes that a search has found.

    Where a guessed launcher proves wrong, the script is started again by the right one. `command`
    is the line that repeats the search. Raises `UsageError` for a mistake in the request, and for
    a job that fails without a fault.
    """
    if find_spec("hypothesis") is None:
        raise MissingExtraError.from_package("chaos search", "Hypothesis", "search")
    attempt = _Attempt(request, listener, command)
    return retry_launcher(partial(_run_attempt, attempt), request)


def _run_attempt(attempt: _Attempt, launcher_error: OtherLauncherError | None) -> "SearchResult":
    """Search once. `launcher_error`: what an attempt under another launcher has shown."""
    # Imported here: Hypothesis is in an extra, and what is refused before costs no second.
    from chaos.extensions.lab.search.search import Search  # noqa: PLC0415

    request, listener, command = attempt
    script = locate_script(request.script, is_module=request.module)
    launcher = choose_launcher(
        request.launcher, script, listener, launcher_error, workers=request.workers
    )
    facts = find_launcher_facts(request, script, launcher)
    plan = build_base_plan(
        script,
        request.arguments,
        cwd=Path.cwd(),
        seed=request.seed,
        workers=request.workers or facts.workers.default_count,
        fit=request.fit,
    )
    backend = choose_backend("fork", launcher, listener)
    plan = set_launcher(plan, launcher, request.arguments, backend=backend)
    folder = create_audit_folder(plan, request.reports, kind="searches")
    has_limit = request.time_limit or request.max_runs
    with listener.follow(folder.path) as display, ExitStack() as exit_stack:
        return Search(
            plan.replace(confined=build_confinement(folder, request.allow_writes)),
            exit_stack.enter_context(open_launcher(launcher, listener)),
            folder,
            scenarios_folder=request.reports / "searches" / f"{plan.slug}-found",
            clock=SystemClock(),
            budget=Budget(
                request.time_limit if has_limit else SEARCH_S,
                request.max_runs,
                is_default=not has_limit,
            ),
            show_progress=display.show,
            report_row=display.show_plan,
            seed=request.seed,
            max_faults=request.max_faults,
            kinds=request.kinds or None,
            follows_script=request.workers is None and facts.workers.script_sets_count,
            command=command,
        ).run()
