"""Run one scenario file, and judge its run."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TypedDict, get_args

from chaos.app.audit_options import parse_options
from chaos.app.field_rules import Request, minimum
from chaos.app.project_defaults import PathLike
from chaos.errors import RequestError, UsageError
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.plan import BackendName, PlanBackend
from chaos.report.result import Result
from chaos.run.display_path import format_path
from chaos.run.ports import Announcer, Backend
from chaos.scenario_file.load import find_scenarios, load_scenario


class RunOptions(TypedDict, total=False):
    """The keywords of `chaos.run`; None is as if it were left out."""

    backend: PlanBackend | None
    seed: int | None
    reports: PathLike | None
    keep_storage: bool | None


@dataclass(frozen=True, kw_only=True)
class RunRequest(Request):
    """A run of one scenario: fields are options of `chaos run`, where each is explained."""

    scenario: Path
    backend: PlanBackend = "ray"
    seed: Annotated[int, minimum(0)] = 0
    reports: Path = Path("reports")
    keep_storage: bool = False

    @classmethod
    def parse(cls, scenario: PathLike, options: Mapping[str, Any]) -> Self:
        """Return the request of options as they are written: see `RunOptions`."""
        return cls(scenario=Path(scenario), **parse_options(options))


class RunListener(Announcer, Protocol):
    """The receiver of a run's lines; its progress is shown by the harness that it makes."""

    def build_harness(self, request: RunRequest, backend: Backend) -> Harness:
        """Return a harness whose runs are shown here."""


def run_scenario(request: RunRequest, listener: RunListener) -> Result:
    """Return the judged run of a scenario.

    Raises `UsageError` for a mistake in the scenario, for a folder of several, and for a job that
    fails without a fault.
    """
    files = find_scenarios([request.scenario])
    if len(files) != 1:
        raise UsageError(
            f"chaos.run runs one scenario, and {len(files)} are there",
            "Give the path of one file; `chaos run` runs a folder.",
            location=os.fspath(request.scenario),
        )
    with open_backend(find_open_backend(files, request.backend), listener) as backend:
        harness = listener.build_harness(request, backend)
        (plan,) = harness.load_plans(files, seed=request.seed, backend=request.backend)
        return Result(harness.run_plan(plan))


def find_open_backend(files: Sequence[Path], backend: PlanBackend) -> PlanBackend:
    """Return the backend to open: without any job of Ray Train's, Ray is not needed."""
    ray_files = [file for file in files if load_scenario(file).job.launcher_facts.extra == "ray"]
    if ray_files and backend not in get_args(BackendName):
        raise RequestError(
            "{file} has a job of Ray Train's, and {name} starts jobs without Ray",
            "Leave {backend} out: jobs without Ray are started by real {name} all the same.",
            field="backend",
            file=format_path(ray_files[0]),
            name=backend,
        )
    return backend if ray_files else load_scenario(files[0]).job.launcher
