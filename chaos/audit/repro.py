"""The scenario of a finding, and its confirmation on a local Ray cluster of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from chaos.audit.finding import Confirmation
from chaos.audit.run_row import find_first_defect
from chaos.errors import UsageError
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.history import JournalEntry
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.plan.make import make_plan
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend, ShowEntries
from chaos.scenario_file.load import load_scenario
from chaos.scenario_file.text import render_scenario

# The expectations of the run with the faults that hold for its reproduction as well.
_REPEATED_KEYS = (
    "band",
    "align",
    "accept",
    "accept_findings",
    "sampling",
    "loss_tolerance",
    "ignore_metrics",
)


def repro_text(
    plan: Plan, *, check: str, folder: Path, headline: str, besides: Sequence[str] = ()
) -> str:
    """Return the scenario of a plan whose run breaks `check`, to be saved in `folder`.

    `besides`: more specific checks that the run breaks for another cause.
    """
    expect: dict[str, Any] = {"verdict": "fail", "check": check}
    if besides:
        expect["besides"] = list(besides)
    expectations = plan.expect.model_dump(mode="json", exclude_defaults=True)
    expect |= {name: expectations[name] for name in _REPEATED_KEYS if name in expectations}
    return render_scenario(plan, folder=folder, comment=(headline,), expect=expect)


class Confirmer(Protocol):
    """A way to run a reproduction's plan elsewhere."""

    def __call__(self, plan: Plan, *, show: ShowEntries) -> Verdict:
        """Return the verdict there; raises `UsageError` if the plan cannot be run there."""


def confirm_finding(
    file: Path, confirm: Callable[[Plan], Verdict], *, seed: int, cwd: Path
) -> Confirmation:
    """Run a finding's reproduction, read from its file as a user would; return its result."""
    plan = make_plan(load_scenario(file), file=file, seed=seed, cwd=cwd)
    try:
        verdict = confirm(plan)
    except UsageError as error:  # the others may run there nevertheless
        return Confirmation(state="open", headline=str(error))
    if verdict.status == "fail":
        is_same = verdict.as_expected
        return Confirmation(
            state="confirmed" if is_same else "otherwise",
            headline=verdict.headline,
            defect=find_first_defect(verdict),
        )
    state = "refuted" if verdict.status == "pass" else "open"
    return Confirmation(state=state, headline=verdict.headline)


def select_confirm(is_requested: bool, facts: LauncherPolicy, reports: Path) -> Confirmer | None:  # noqa: FBT001
    """Return `_confirm_on_ray` for a job that a cluster can run, if that is asked for."""
    return partial(_confirm_on_ray, reports) if is_requested and facts.has_cluster else None


def _confirm_on_ray(reports: Path, plan: Plan, *, show: ShowEntries) -> Verdict:
    """Run a reproduction on a local Ray cluster of its own, whose lines are not the audit's."""
    quiet_screen = build_console(quiet=True)
    with open_backend("ray", ConsoleAnnouncer(quiet_screen)) as backend:
        watched_backend = _WatchedBackend(backend, show)
        harness = Harness(reports, quiet_screen, Path(plan.cwd), watched_backend, SystemClock())
        return harness.run_plan(plan.replace(backend="ray")).verdict


@dataclass(frozen=True)
class _WatchedBackend(Backend):
    """A backend whose events are shown to one more."""

    backend: Backend
    second_show: ShowEntries

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        def show_twice(entries: Sequence[JournalEntry]) -> None:
            show(entries)
            self.second_show(entries)

        self.backend.execute(plan, directory, show_twice)

    def close(self) -> None:
        self.backend.close()
