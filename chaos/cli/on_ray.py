"""The confirmation of an audit's findings on a local Ray cluster of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.audit.repro import Confirm
from chaos.harness import Harness
from chaos.launch.open import open_backend
from chaos.model.history import Entry
from chaos.model.launcher import LauncherFacts
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.report.screen import screen
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend, Show


def on_ray_if(asked: bool, facts: LauncherFacts, reports: Path) -> Confirm | None:  # noqa: FBT001
    """Return `_on_ray` for a job that a cluster can run, if that is asked for."""
    return partial(_on_ray, reports) if asked and "cluster" in facts.has else None


def _on_ray(reports: Path, plan: Plan, *, show: Show) -> Verdict:
    """Run a reproduction on a local Ray cluster of its own, whose lines are not the audit's."""
    quiet = screen(quiet=True)
    with open_backend("ray", quiet) as backend:
        shown = _Shown(backend, show)
        harness = Harness(reports, quiet, Path(plan.cwd), shown, SystemClock())
        return harness.run_plan(plan.model_copy(update={"backend": "ray"})).verdict


@dataclass(frozen=True)
class _Shown(Backend):
    """A backend whose events are shown to one more."""

    backend: Backend
    more: Show

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        def both(entries: Sequence[Entry]) -> None:
            show(entries)
            self.more(entries)

        self.backend.execute(plan, directory, both)

    def close(self) -> None:
        self.backend.close()
