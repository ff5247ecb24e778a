"""A run and a suite in figures: small enough to keep for ever, and to compare with others."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from chaos.model.expect import VerdictStatus
from chaos.model.verdict import Standing
from chaos.record import Record

SUMMARY, SUITE = "summary.json", "suite.json"
FAILING: tuple[Standing, ...] = ("unexpected", "not_run")
GRAVEST_FIRST: tuple[Standing, ...] = (*FAILING, "undecided", "expected", "skipped")
STALE = "the verdict is not of this history; `chaos rejudge` judges it again"


class ScenarioKey(NamedTuple):
    """A scenario among those of several files."""

    file: str
    scenario: str


class RunSummary(Record):
    """One run, or a scenario that could not be run.

    One that was skipped has neither status nor error; its headline gives the reason.
    """

    scenario: str
    #: from the root of its git repository; without one, from the working folder
    file: str
    #: None where it could not be run
    status: VerdictStatus | None
    standing: Standing
    headline: str
    #: of a run in a suite relative to the suite's `reports`, else to the folder of the summary
    directory: str | None = None
    #: the check that named the defect
    broken: str | None = None
    #: the reason why it could not be run
    error: str | None = None
    seed: int | None = None
    #: counts the runs of a scenario that `chaos run --repeat` made in one suite, from 1
    repeat: int | None = None
    backend: str | None = None
    attempts: int | None = None
    #: those of the rank that lost most
    lost_steps: int | None = None
    #: the slowest
    recovery_s: float | None = None
    duration_s: float = 0.0
    #: seconds by phase of the goodput ledger, which add up to the wall time
    phases_s: dict[str, float] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    #: the digest of the history that was judged
    history: str | None = None

    @property
    def key(self) -> ScenarioKey:
        return ScenarioKey(self.file, self.scenario)

    @property
    def goodput(self) -> float | None:
        """The productive part of the wall time, None where it was not recorded."""
        return compute_goodput(self.phases_s)


def compute_goodput(phases_s: Mapping[str, float]) -> float | None:
    """Return the productive part of the seconds of all phases, None if there are none."""
    wall_s = sum(phases_s.values())
    return phases_s.get("productive", 0.0) / wall_s if wall_s else None


class SuiteSummary(Record):
    """The runs of one call of `chaos run`."""

    #: by ISO 8601, in UTC
    started: str
    runs: tuple[RunSummary, ...]
    #: the folder of reports, to which the directories of the runs are relative
    reports: str = ""
    #: the name of the folder that the scenarios' files are relative to
    project: str = ""
    commit: str | None = None
    branch: str | None = None

    @property
    def title(self) -> str:
        """The scenario file, or the folder of all of them, and the project that it is in."""
        files = {run.file for run in self.runs}
        try:
            common_folder = posixpath.commonpath([posixpath.dirname(file) for file in files])
        except ValueError:  # no file, or some are relative and others are not
            common_folder = ""
        common_path = min(files) if len(files) == 1 else common_folder
        return " · ".join(filter(None, (self.project, common_path))) or "chaos"


class SuiteChanges(NamedTuple):
    """The scenarios that stand otherwise than in an earlier suite, by name."""

    failing: tuple[str, ...]
    open: tuple[str, ...]
    mended: tuple[str, ...]
    new: tuple[str, ...]
    #: the number of those that failed then, and fail now
    still: int


def compare_suites(
    earlier_runs: Sequence[RunSummary], later_runs: Sequence[RunSummary]
) -> SuiteChanges:
    """Return what has changed from one suite to another, of scenarios that ran in the latter."""
    earlier_standings, later_standings = (
        find_gravest_standings(earlier_runs),
        find_gravest_standings(later_runs),
    )
    failing, undecided, mended, new, still_failing = [], [], [], [], 0
    for key, standing in later_standings.items():
        if key not in earlier_standings:
            new.append(key.scenario)
        elif standing in FAILING:
            still_failing += earlier_standings[key] in FAILING
            failing += [] if earlier_standings[key] in FAILING else [key.scenario]
        elif standing == "undecided":
            undecided += [] if earlier_standings[key] == "undecided" else [key.scenario]
        elif earlier_standings[key] != "expected":
            mended.append(key.scenario)
    return SuiteChanges(tuple(failing), tuple(undecided), tuple(mended), tuple(new), still_failing)


def find_gravest_standings(runs: Sequence[RunSummary]) -> dict[ScenarioKey, Standing]:
    """Return the gravest standing of each scenario that was not skipped."""
    standings: dict[ScenarioKey, Standing] = {}
    for run in runs:
        if run.standing != "skipped":
            earlier_standing = standings.get(run.key, run.standing)
            standings[run.key] = min(earlier_standing, run.standing, key=GRAVEST_FIRST.index)
    return standings
